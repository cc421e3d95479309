package audit_test

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/identity"
)

func TestPrintable_KeepsTheFactsAndSanitizesHeaders(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ given, want string }{
		"plain":          {given: "curl/8.5", want: "curl/8.5"},
		"empty":          {given: "", want: ""},
		"invalid UTF-8":  {given: "a\xff\xfeb", want: "a\uFFFDb"},
		"too long":       {given: strings.Repeat("x", 5000), want: strings.Repeat("x", 512)},
		"cut in a rune":  {given: "x" + strings.Repeat("é", 300), want: "x" + strings.Repeat("é", 255) + "\uFFFD"},
		"maximum length": {given: strings.Repeat("é", 256), want: strings.Repeat("é", 256)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := audit.Request{Action: "A", RequestID: "r", IP: c.given, UserAgent: c.given}.Printable()
			if want := (audit.Request{Action: "A", RequestID: "r", IP: c.want, UserAgent: c.want}); got != want {
				t.Errorf("Printable of %q = %+v, want %+v", c.given, got, want)
			}
			if !utf8.ValidString(got.UserAgent) {
				t.Errorf("UserAgent = %q, want valid UTF-8", got.UserAgent)
			}
		})
	}
}

func TestNewCallEntry_HasAnIDAndIsNotWritten(t *testing.T) {
	t.Parallel()
	entry, other := audit.NewCallEntry(), audit.NewCallEntry()
	if entry.ID() == "" || entry.ID() == other.ID() {
		t.Errorf("two entries have the ids %q and %q, want different ones", entry.ID(), other.ID())
	}
	if entry.Written() {
		t.Error("Written of a new entry = true, want false")
	}
	if got := entry.Target(); got != (audit.Target{}) {
		t.Errorf("Target of a new entry = %+v, want the zero value", got)
	}
}

func TestCallEntry_RemembersItsTargetAndThatItWasWritten(t *testing.T) {
	t.Parallel()
	entry := audit.NewCallEntry()
	target := audit.Target{Type: "agent", ID: "a", Name: "Bot"}
	entry.SetTarget(target)
	entry.MarkWritten()
	if !entry.Written() {
		t.Error("Written after MarkWritten = false, want true")
	}
	if got := entry.Target(); got != target {
		t.Errorf("Target = %+v, want %+v", got, target)
	}
}

func TestCallEntry_OnlyOneConcurrentClaimIsFirst(t *testing.T) {
	t.Parallel()
	entry := audit.NewCallEntry()
	claims := make(chan bool, 8)
	var all sync.WaitGroup
	for range cap(claims) {
		all.Go(func() { claims <- entry.Claim() })
	}
	all.Wait()
	close(claims)
	firsts := 0
	for first := range claims {
		if first {
			firsts++
		}
	}
	if firsts != 1 {
		t.Errorf("%d of %d claims were first, want 1", firsts, cap(claims))
	}
}

func TestCallEntry_NilTreatsEveryChangeAsTheFirst(t *testing.T) {
	t.Parallel()
	var none *audit.CallEntry
	none.MarkWritten()
	none.SetTarget(audit.Target{ID: "a"})
	for range 2 {
		if !none.Claim() {
			t.Error("Claim of a nil entry = false, want true")
		}
	}
	if got := none.ID(); got != "" {
		t.Errorf("ID of a nil entry = %q, want none", got)
	}
	if none.Written() {
		t.Error("Written of a nil entry = true, want false")
	}
	if got := none.Target(); got != (audit.Target{}) {
		t.Errorf("Target of a nil entry = %+v, want the zero value", got)
	}
}

func TestEntry_ShowRendersUnknownValuesAsNull(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		entry audit.Entry
		want  string
	}{
		"a refused call": {
			entry: audit.Entry{
				Outcome: "role_required",
				Actor:   identity.Caller{Type: identity.APIKey, ID: "k", KeyPrefix: "so_1", Subject: "s", Name: "n"},
			},
			want: `{"id":"","created_at":"0001-01-01T00:00:00Z","actor":{"type":"api_key","id":"k","email":null,"role":"","key_prefix":"so_1"},"action":"",` +
				`"target":{"type":"","id":null,"name":null},"outcome":"role_required","replayed":false,"request_id":"","ip":"","user_agent":"","changes":[]}`,
		},
		"a change": {
			entry: audit.Entry{
				ID: "e", Replayed: true, Actor: identity.Caller{Email: "ada@example.com", Role: identity.RoleAdmin},
				Target:  audit.Target{Type: "agent", ID: "a", Name: "Bot"},
				Request: audit.Request{RequestID: "r", IP: "i", UserAgent: "u"},
				Changes: []audit.Change{
					{Field: "name", Old: "Bat", New: "Bot"},
					{Field: "config", Old: "", New: "changed"},
					{Field: "x", Old: "gone", New: ""},
				},
			},
			want: `{"id":"e","created_at":"0001-01-01T00:00:00Z","actor":{"type":"","id":"","email":"ada@example.com","role":"admin","key_prefix":null},"action":"",` +
				`"target":{"type":"agent","id":"a","name":"Bot"},"outcome":"","replayed":true,"request_id":"r","ip":"i","user_agent":"u","changes":[` +
				`{"field":"name","old":"Bat","new":"Bot"},{"field":"config","old":null,"new":"changed"},{"field":"x","old":"gone","new":null}]}`,
		},
	} {
		got, err := json.Marshal(c.entry.Show())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if string(got) != c.want {
			t.Errorf("%s: Show = %s\nwant %s", name, got, c.want)
		}
	}
}
