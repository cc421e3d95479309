package agentctl

import "testing"

func TestForPeople_SpeaksOfTheCommandLine(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"It is paused. See meta.allowed_actions.":              "It is paused.",
		"It is paused. See meta.allowed_actions. Retry later.": "It is paused. Retry later.",
		"There is none. Read the log without previous.":        "There is none. Read the log without --previous.",
		"Value error, too long":                                "too long",
	} {
		if got := forPeople(given); got != want {
			t.Errorf("forPeople(%q) = %q, want %q", given, got, want)
		}
	}
}
