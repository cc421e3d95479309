package main

import (
	"regexp"
	"testing"

	"agents.example/controlplane/shared/agent"
)

func TestJavaScriptPattern_KeepsTheMeaning(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]pattern{
		`\bso_[a-z]{4}\b`:      {Source: `\bso_[a-z]{4}\b`, Flags: "u"},
		`a\s*=\s`:              {Source: `a[\t\n\f\r ]*=[\t\n\f\r ]`, Flags: "u"},
		`[^\s/?]\.x`:           {Source: `[^\t\n\f\r /?]\.x`, Flags: "u"},
		`(?i)(^|[\s;])pwd\s`:   {Source: `(^|[\t\n\f\r ;])pwd[\t\n\f\r ]`, Flags: "iu"},
		`\\s[\]\s]`:            {Source: `\\s[\]\t\n\f\r ]`, Flags: "u"},
		`-----BEGIN ([A-Z]+ )`: {Source: `-----BEGIN ([A-Z]+ )`, Flags: "u"},
	} {
		if got := javaScriptPattern(given); got != want {
			t.Errorf("javaScriptPattern(%q) = %q, want %q", given, got, want)
		}
	}
}

// TestJavaScriptPattern_ReadsOnlySyntaxOfBothLanguages checks that each form uses escapes and groups that mean the same
// in Go and in JavaScript.
func TestJavaScriptPattern_ReadsOnlySyntaxOfBothLanguages(t *testing.T) {
	t.Parallel()
	allowed := regexp.MustCompile(`\\[bs.]|\(\?i\)|\((?:[^?])`)
	special := regexp.MustCompile(`\\.|\(\?\S*?\)|\(.`)
	rule := agent.Secrets()
	for _, form := range append(rule.Forms, rule.OpenAIKey) {
		for _, found := range special.FindAllString(form, -1) {
			if !allowed.MatchString(found) {
				t.Errorf("%s has %s, which functions/generate does not translate", form, found)
			}
		}
	}
}
