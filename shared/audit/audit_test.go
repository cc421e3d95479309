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

// TestFacts: what a client wrote into its headers is kept, and made legible.
func TestFacts(t *testing.T) {
	t.Parallel()
	if got := audit.From(t.Context()); got != (audit.Request{}) {
		t.Errorf("facts out of nothing: %+v", got)
	}
	long := strings.Repeat("é", 300)
	for name, c := range map[string]struct{ given, want string }{
		"plain":          {given: "curl/8.5", want: "curl/8.5"},
		"empty":          {given: "", want: ""},
		"no UTF-8":       {given: "a\xff\xfeb", want: "a\uFFFDb"},
		"too long":       {given: strings.Repeat("x", 5000), want: strings.Repeat("x", 512)},
		"cut in a rune":  {given: "x" + long, want: "x" + strings.Repeat("é", 255) + "\uFFFD"},
		"as long as may": {given: strings.Repeat("é", 256), want: strings.Repeat("é", 256)},
	} {
		got := audit.From(audit.With(t.Context(),
			audit.Request{Action: "A", RequestID: "r", IP: c.given, UserAgent: c.given}))
		if got != (audit.Request{Action: "A", RequestID: "r", IP: c.want, UserAgent: c.want}) ||
			!utf8.ValidString(got.UserAgent) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestTrail(t *testing.T) {
	t.Parallel()
	ctx, trail := audit.WithCallEntry(t.Context())
	_, other := audit.WithCallEntry(t.Context())
	if audit.CallEntryFrom(ctx) != trail || audit.CallEntryFrom(t.Context()) != nil || trail.ID() == "" ||
		trail.ID() == other.ID() {
		t.Errorf("the trail %+v is not that of its call, or has no id of its own", trail)
	}
	if trail.Written() || trail.Target() != (audit.Target{}) {
		t.Error("a new trail has been written, or found something")
	}
	firsts := make(chan bool, 8)
	var all sync.WaitGroup
	for range cap(firsts) {
		all.Go(func() { firsts <- trail.Claim() })
	}
	all.Wait()
	close(firsts)
	first := 0
	for f := range firsts {
		if f {
			first++
		}
	}
	if first != 1 {
		t.Errorf("%d changes are the first", first)
	}
	found := audit.Target{Type: "agent", ID: "a", Name: "Bot"}
	trail.SetTarget(found)
	trail.MarkWritten()
	if !trail.Written() || trail.Target() != found {
		t.Errorf("written %t, found %+v", trail.Written(), trail.Target())
	}
}

// TestNoTrail: a call that nobody keeps the entry of has each of its changes write one.
func TestNoTrail(t *testing.T) {
	t.Parallel()
	var none *audit.CallEntry
	none.MarkWritten()
	none.SetTarget(audit.Target{ID: "a"})
	for range 2 {
		if !none.Claim() {
			t.Error("a change without a trail is not a first one")
		}
	}
	if none.ID() != "" || none.Written() || none.Target() != (audit.Target{}) {
		t.Error("no trail behaves like one")
	}
}

// TestShow: what is not known is null, and a list is a list.
func TestShow(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		entry audit.Entry
		want  string
	}{
		"a refused call": {
			entry: audit.Entry{Outcome: "role_required",
				Actor: identity.Caller{Type: identity.APIKey, ID: "k", KeyPrefix: "so_1", Subject: "s", Name: "n"}},
			want: `{"id":"","created_at":"0001-01-01T00:00:00Z","actor":{"type":"api_key","id":"k","email":null,"role":"","key_prefix":"so_1"},"action":"",` +
				`"target":{"type":"","id":null,"name":null},"outcome":"role_required","request_id":"","ip":"","user_agent":"","changes":[]}`,
		},
		"a change": {
			entry: audit.Entry{
				ID: "e", Actor: identity.Caller{Email: "ada@example.com", Role: identity.RoleAdmin},
				Target:  audit.Target{Type: "agent", ID: "a", Name: "Bot"},
				Request: audit.Request{RequestID: "r", IP: "i", UserAgent: "u"},
				Changes: []audit.Change{{Field: "name", Old: "Bat", New: "Bot"},
					{Field: "config", Old: "", New: "changed"}, {Field: "x", Old: "gone", New: ""}},
			},
			want: `{"id":"e","created_at":"0001-01-01T00:00:00Z","actor":{"type":"","id":"","email":"ada@example.com","role":"admin","key_prefix":null},"action":"",` +
				`"target":{"type":"agent","id":"a","name":"Bot"},"outcome":"","request_id":"r","ip":"i","user_agent":"u","changes":[` +
				`{"field":"name","old":"Bat","new":"Bot"},{"field":"config","old":null,"new":"changed"},{"field":"x","old":"gone","new":null}]}`,
		},
	} {
		got, err := json.Marshal(c.entry.Show())
		if err != nil || string(got) != c.want {
			t.Errorf("%s (%v):\n got %s\nwant %s", name, err, got, c.want)
		}
	}
}
