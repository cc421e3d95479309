package idempotency_test

import (
	"strings"
	"testing"

	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/idempotency"
)

func TestParse_AcceptsOneVisibleASCIIKey(t *testing.T) {
	t.Parallel()
	visible := ""
	for c := '!'; c <= '~'; c++ {
		visible += string(c)
	}
	for _, want := range []string{"a", visible, strings.Repeat("x", 255)} {
		if got, err := idempotency.Parse([]string{want}); err != nil || got != want {
			t.Errorf("Parse(%q) = %q, %v, want the key", want, got, err)
		}
	}
	if got, err := idempotency.Parse(nil); got != "" || err != nil {
		t.Errorf(`Parse(nil) = %q, %v, want "", nil`, got, err)
	}
}

func TestParse_RefusesOtherHeaders(t *testing.T) {
	t.Parallel()
	for _, values := range [][]string{
		{""}, {strings.Repeat("x", 256)}, {"a b"}, {"a\tb"}, {"a\x7f"}, {"é"}, {"\x00"}, {"a", "a"}, {"", "a"},
	} {
		key, err := idempotency.Parse(values)
		if key != "" {
			t.Errorf("Parse(%q) = %q, want no key", values, key)
		}
		if !fault.Is(err, fault.BadRequest) || fault.Code(err) != "invalid_idempotency_key" {
			t.Errorf("Parse(%q): error = %v, want BadRequest invalid_idempotency_key", values, err)
		}
	}
}

func TestNew_IDDependsOnKeyAndFingerprintOnRequest(t *testing.T) {
	t.Parallel()
	request := idempotency.Request{Method: "POST", Path: "/api/v1/agents", Body: []byte(`{"pin": 1234}`)}
	with := func(change func(*idempotency.Request)) idempotency.Request { r := request; change(&r); return r }
	first := idempotency.New("org", "key", request)
	if again := idempotency.New("org", "key", request); *again != *first {
		t.Errorf("equal requests have the attempts %+v and %+v", first, again)
	}
	seenIDs, seenFingerprints := map[string]bool{first.ID: true}, map[string]bool{first.Fingerprint: true}
	for name, c := range map[string]struct {
		organization, key             string
		request                       idempotency.Request
		wantNewID, wantNewFingerprint bool
	}{
		"other organization": {
			organization: "org2", key: "key", request: request,
			wantNewID: true, wantNewFingerprint: false,
		},
		"other key": {
			organization: "org", key: "key2", request: request,
			wantNewID: true, wantNewFingerprint: true,
		},
		"same text, split differently": {
			organization: "orgk", key: "ey", request: request,
			wantNewID: true, wantNewFingerprint: true,
		},
		"other method": {
			organization: "org", key: "key",
			request:   with(func(r *idempotency.Request) { r.Method = "PUT" }),
			wantNewID: false, wantNewFingerprint: true,
		},
		"other path": {
			organization: "org", key: "key",
			request:   with(func(r *idempotency.Request) { r.Path = "/api/v1/api-keys" }),
			wantNewID: false, wantNewFingerprint: true,
		},
		"other body": {
			organization: "org", key: "key",
			request:   with(func(r *idempotency.Request) { r.Body = []byte(`{"pin": 1235}`) }),
			wantNewID: false, wantNewFingerprint: true,
		},
		"no body": {
			organization: "org", key: "key",
			request:   with(func(r *idempotency.Request) { r.Body = nil }),
			wantNewID: false, wantNewFingerprint: true,
		},
	} {
		got := idempotency.New(c.organization, c.key, c.request)
		if isNew := !seenIDs[got.ID]; isNew != c.wantNewID {
			t.Errorf("%s: ID is new = %t, want %t", name, isNew, c.wantNewID)
		}
		if isNew := !seenFingerprints[got.Fingerprint]; isNew != c.wantNewFingerprint {
			t.Errorf("%s: Fingerprint is new = %t, want %t", name, isNew, c.wantNewFingerprint)
		}
		seenIDs[got.ID], seenFingerprints[got.Fingerprint] = true, true
	}
}

func TestNew_HashesTheKey(t *testing.T) {
	t.Parallel()
	a := idempotency.New("org", "key", idempotency.Request{Method: "POST", Path: "/api/v1/agents"})
	for name, hash := range map[string]string{"ID": a.ID, "Fingerprint": a.Fingerprint} {
		if len(hash) != 64 || strings.Contains(hash, "key") {
			t.Errorf("%s = %q, want a SHA-256 hash in hex", name, hash)
		}
	}
}

func TestAttempt_NilIgnoresEverything(t *testing.T) {
	t.Parallel()
	var a *idempotency.Attempt
	a.DiscardAnswer()
	a.Amend()
	a.Resume()
	a.Use()
	a.Replay()
	a.BeginReplaying()
	for name, got := range map[string]bool{
		"Covers": a.Covers(), "Used": a.Used(), "Replayed": a.Replayed(), "Replaying": a.Replaying(),
		"Amending": a.Amending(), "DiscardsAnswer": a.DiscardsAnswer(),
	} {
		if got {
			t.Errorf("%s = true, want false", name)
		}
	}
}

// TestAttempt_CoversTheFirstChangeAndThoseThatAmend follows calls through their changes.
func TestAttempt_CoversTheFirstChangeAndThoseThatAmend(t *testing.T) {
	t.Parallel()
	const use, replay, amend, resume, again = "use", "replay", "amend", "resume", "run again"
	steps := map[string]func(*idempotency.Attempt){
		use: (*idempotency.Attempt).Use, replay: (*idempotency.Attempt).Replay, amend: (*idempotency.Attempt).Amend,
		resume: (*idempotency.Attempt).Resume, again: (*idempotency.Attempt).BeginReplaying,
	}
	for name, c := range map[string]struct {
		steps                                 []string
		covers, replayed, replaying, amending bool
	}{
		"new":                     {covers: true},
		"before a change, amends": {steps: []string{amend}, covers: true},
		"after a change":          {steps: []string{use}},
		"after a change, amends":  {steps: []string{amend, use}, covers: true, amending: true},
		"replayed":                {steps: []string{replay, use}, replayed: true},
		"replayed, amends":        {steps: []string{amend, replay, use}, replayed: true},
		"used, then found":        {steps: []string{use, replay}},
		"resumed":                 {steps: []string{replay, use, resume}, covers: true, amending: true},
		"runs again":              {steps: []string{again}, covers: true, replayed: true, replaying: true},
		"ran again": {
			steps: []string{again, replay, use}, covers: true, replayed: true, replaying: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := idempotency.New("org", "key", idempotency.Request{})
			for _, step := range c.steps {
				steps[step](a)
			}
			for method, row := range map[string]struct{ got, want bool }{
				"Covers": {a.Covers(), c.covers}, "Replayed": {a.Replayed(), c.replayed},
				"Replaying": {a.Replaying(), c.replaying}, "Amending": {a.Amending(), c.amending},
			} {
				if row.got != row.want {
					t.Errorf("%s = %t, want %t", method, row.got, row.want)
				}
			}
		})
	}
}
