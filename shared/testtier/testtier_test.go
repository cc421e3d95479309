package testtier

import "testing"

func TestParse_RefusesUnknownTiers(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Tier{"": Embedded, "embedded": Embedded, "official": Official, "both": Both} {
		if got, err := parse(text); err != nil || got != want {
			t.Errorf("parse(%q) = %q, %v; want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"auto", "java", "BOTH"} {
		if got, err := parse(text); err == nil {
			t.Errorf("parse(%q) = %q, want an error", text, got)
		}
	}
}
