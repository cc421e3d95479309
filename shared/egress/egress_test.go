package egress

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestMatches(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		pattern, host string
		want          bool
	}{
		{pattern: "example.com", host: "example.com", want: true},
		{pattern: "example.com", host: "www.example.com"},
		{pattern: "*.example.com", host: "www.example.com", want: true},
		{pattern: "*.example.com", host: "a.b.example.com", want: true},
		{pattern: "*.example.com", host: "example.com"},
		{pattern: "*.example.com", host: "notexample.com"},
		{pattern: "*.example.com", host: ".example.com"},
		{pattern: "*.example.com", host: "example.com.evil.example"},
		{pattern: "*", host: "anything.example", want: true},
	} {
		if got := Matches(row.pattern, row.host); got != row.want {
			t.Errorf("Matches(%q, %q) = %t, want %t", row.pattern, row.host, got, row.want)
		}
	}
}

func TestRules_DenyWins(t *testing.T) {
	t.Parallel()
	r := Rules{Mode: AllowList, Allow: []string{"*.example.com", "other.example"}, Deny: []string{"bad.example.com"}}
	for host, want := range map[string]Reason{
		"api.example.com": "", "bad.example.com": Denied, "other.example": "", "third.example": NotListed,
	} {
		if got := r.Check(host); got != want {
			t.Errorf("Check(%q) = %q, want %q", host, got, want)
		}
	}
	r.Mode = "of_a_later_release"
	if got := r.Check("third.example"); got != NotListed {
		t.Errorf("Check in an unknown mode = %q, want %q", got, NotListed)
	}
	r.Mode = Open
	if got := r.Check("third.example"); got != "" {
		t.Errorf("open rules refuse a name: %q", got)
	}
}

func TestRules_WithHosts(t *testing.T) {
	t.Parallel()
	r := Rules{Mode: AllowList, Allow: []string{"a.example"}, Deny: []string{"*.b.example", "b.example"}}
	got := r.With([]string{"B.example", "a.example"})
	if !slices.Equal(got.Allow, []string{"a.example", "b.example"}) ||
		!slices.Equal(got.Deny, []string{"*.b.example"}) {
		t.Errorf("With = %+v", got)
	}
	if len(r.Allow) != 1 || len(r.Deny) != 2 {
		t.Errorf("the rules themselves changed: %+v", r)
	}
}

func TestCanonicalHost(t *testing.T) {
	t.Parallel()
	longest := strings.Repeat("a.", 126) + "a" // 253 bytes
	for host, want := range map[string]string{
		"example.com": "example.com", "Example.COM": "example.com", "example.com.": "example.com",
		"xn--bcher-kva.example": "xn--bcher-kva.example", "a_b.example.com": "a_b.example.com", longest: longest,
		"": "", ".": "", "localhost": "", "example..com": "", "example.com..": "", ".example.com": "",
		"a" + longest: "",
		"-a.example":  "", "a-.example": "", "bücher.example": "", "a b.example": "", "a.example:443": "",
		"127.0.0.1": "", "127.1": "", "0x7f.0x1": "", "1.2.3.4.": "", "::1": "", "[::1]": "", "::ffff:10.0.0.1": "",
		strings.Repeat("a", 64) + ".example": "", "a\x00.example": "", "*.example.com": "",
	} {
		got, err := CanonicalHost(host)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("CanonicalHost(%q) = %q, %v; want %q", host, got, err, want)
		}
	}
}

func TestPatternViolation(t *testing.T) {
	t.Parallel()
	for pattern, ok := range map[string]bool{
		"*": true, "example.com": true, "*.example.com": true, "Example.com": true,
		"*.*.example.com": false, "a.*.example": false, "*example.com": false, "example.com.": false,
		"https://example.com": false, "10.0.0.1": false, "*.1": false, "*.com": false, "": false, "**": false,
	} {
		if why := PatternViolation(pattern); (why == "") != ok {
			t.Errorf("PatternViolation(%q) = %q, want none: %t", pattern, why, ok)
		}
	}
}

func TestTarget_Violations(t *testing.T) {
	t.Parallel()
	valid := Target{Hosts: []string{"api.example.com"}}.Canonical()
	for name, row := range map[string]struct {
		change func(*Target)
		want   string
	}{
		"as it is":            {change: func(*Target) {}},
		"another header":      {change: func(t *Target) { t.Header, t.Format = "X-Api-Key", "{value}" }},
		"no host":             {change: func(t *Target) { t.Hosts = nil }, want: "hosts"},
		"wildcard":            {change: func(t *Target) { t.Hosts = []string{"*.example.com"} }, want: "hosts"},
		"too many hosts":      {change: func(t *Target) { t.Hosts = make([]string, 11) }, want: "hosts"},
		"bad header":          {change: func(t *Target) { t.Header = "a b" }, want: "header"},
		"header of transport": {change: func(t *Target) { t.Header = "hOsT" }, want: "header"},
		"no mark":             {change: func(t *Target) { t.Format = "Bearer" }, want: "format"},
		"two marks":           {change: func(t *Target) { t.Format = "{value}{value}" }, want: "format"},
		"line break":          {change: func(t *Target) { t.Format = "{value}\r\nA: b" }, want: "format"},
	} {
		target := valid.Clone()
		row.change(&target)
		if field, why := target.Violation(); field != row.want || (why == "") != (row.want == "") {
			t.Errorf("%s: field %q, %q; want field %q", name, field, why, row.want)
		}
	}
}

func TestPolicy_SurvivesItsAnnotation(t *testing.T) {
	t.Parallel()
	p := Policy{
		Allow: []string{"*.example.com"}, Deny: []string{"x.example.com"},
		Inject: []Injection{{
			Key: "K", Version: 2, Target: Target{Hosts: []string{"api.example.com"}, Header: "A", Format: "{value}"},
		}},
	}
	text := p.Encode()
	read, err := Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	if again := read.Encode(); again != text {
		t.Errorf("decoded and encoded: %s, want %s", again, text)
	}
	if got := read.Injections("api.example.com"); len(got) != 1 || got[0].Render("v") != "v" {
		t.Errorf("injections = %+v", got)
	}
	other := read
	other.Inject = slices.Clone(read.Inject)
	other.Inject[0].Version++
	if read.InjectHash() == "" || read.InjectHash() != other.InjectHash() {
		t.Error("another version of a value changes the agent's CA")
	}
	other.Inject[0].Hosts = []string{"other.example.com"}
	if read.InjectHash() == other.InjectHash() {
		t.Error("other hosts have the same hash")
	}
}

// A gate that forwarded by the part of a policy that it knows could allow more than the policy.
func TestDecode_RefusesAPolicyOfALaterRelease(t *testing.T) {
	t.Parallel()
	if p, err := Decode(`{"allow":["*"],"ports":[443]}`); err == nil {
		t.Errorf("a policy with an unknown member is %+v, want an error", p)
	}
}

// A later release may restrict the requests that get a secret. After a roll-back, its gate still has to know that.
func TestPolicy_PassesOnWhatALaterReleaseStored(t *testing.T) {
	t.Parallel()
	const stored = `{"hosts":["api.example"],"header":"X-Key","format":"{value}","paths":["/v1/"],"once":true}`
	target := DecodeTarget(stored)
	p := Policy{Inject: []Injection{{Key: "KEY", Version: 3, Target: target.Clone()}}}
	for name, text := range map[string]string{"target": target.Encode(), "policy": p.Encode()} {
		for _, want := range []string{
			`"hosts":["api.example"]`, `"header":"X-Key"`, `"format":"{value}"`, `"paths":["/v1/"]`, `"once":true`,
		} {
			if strings.Count(text, want) != 1 {
				t.Errorf("the %s is %s, want %s once", name, text, want)
			}
		}
	}
	if read, err := Decode(p.Encode()); err != nil || len(read.Injections("api.example")) != 1 ||
		read.Inject[0].Key != "KEY" || read.Inject[0].Version != 3 {
		t.Errorf("a gate reads %+v, %v, want the secret KEY in version 3", read, err)
	}
}

// TestNewer_TakesReportsInAnyOrder: a gate's counts only rise, and a message may be late or come twice.
func TestNewer_TakesReportsInAnyOrder(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, time.March, 2, 9, 0, 0, 0, time.UTC)
	early := []Count{{Host: "a.example", Used: 1, FirstAt: at, LastAt: at}}
	late := []Count{
		{
			Host: "a.example", Used: 3, Refused: 1, Reason: NotListed, FirstAt: at, LastAt: at.Add(time.Minute),
			RefusedAt: at.Add(time.Minute),
		},
		{Host: "b.example", Used: 1, FirstAt: at, LastAt: at},
	}
	for name, got := range map[string][]Count{
		"in order": Newer(Newer(nil, early), late), "reversed": Newer(Newer(nil, late), early),
		"twice": Newer(Newer(late, early), late),
	} {
		if !slices.Equal(got, late) {
			t.Errorf("%s: %+v, want %+v", name, got, late)
		}
	}
	if sum := Sum(early, late); sum[0].Used != 4 || sum[0].Refused != 1 {
		t.Errorf("Sum = %+v", sum)
	}
}
