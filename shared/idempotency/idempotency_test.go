package idempotency_test

import (
	"strings"
	"testing"

	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/idempotency"
)

func TestParse(t *testing.T) {
	t.Parallel()
	all := ""
	for c := '!'; c <= '~'; c++ {
		all += string(c)
	}
	for _, good := range []string{"a", all, strings.Repeat("x", 255)} {
		if key, err := idempotency.Parse([]string{good}); err != nil || key != good {
			t.Errorf("%q became %q, %v", good, key, err)
		}
	}
	if key, err := idempotency.Parse(nil); key != "" || err != nil {
		t.Errorf("no header became %q, %v", key, err)
	}
	for _, bad := range [][]string{{""}, {strings.Repeat("x", 256)}, {"a b"}, {"a\tb"}, {"a\x7f"}, {"é"}, {"\x00"},
		{"a", "a"}, {"", "a"}} {
		key, err := idempotency.Parse(bad)
		if key != "" || !fault.Is(err, fault.BadRequest) || fault.Code(err) != "invalid_idempotency_key" {
			t.Errorf("%q became %q, %v", bad, key, err)
		}
	}
}

// TestAttempts: each part of a request makes another one, and only the organization and the key make another id.
func TestAttempts(t *testing.T) {
	t.Parallel()
	request := idempotency.Request{Method: "POST", Path: "/api/v1/agents", Body: []byte(`{"pin": 1234}`)}
	first := idempotency.New("org", "key", request)
	if again := idempotency.New("org", "key", request); *again != *first {
		t.Errorf("the same request became %+v and %+v", first, again)
	}
	ids, prints := map[string]bool{first.ID: true}, map[string]bool{first.Fingerprint: true}
	for name, other := range map[string]struct {
		organization, key string
		request           idempotency.Request
		id, print         bool // differ
	}{
		"another organization": {organization: "org2", key: "key", request: request, id: true, print: false},
		"another key":          {organization: "org", key: "key2", request: request, id: true, print: true},
		"a shifted border":     {organization: "orgk", key: "ey", request: request, id: true, print: true},
		"another method": {organization: "org", key: "key",
			request: idempotency.Request{Method: "PUT", Path: request.Path, Body: request.Body}, id: false,
			print: true},
		"another path": {organization: "org", key: "key",
			request: idempotency.Request{Method: "POST", Path: "/api/v1/api-keys", Body: request.Body}, id: false,
			print: true},
		"another body": {organization: "org", key: "key",
			request: idempotency.Request{Method: "POST", Path: request.Path, Body: []byte(`{"pin": 1235}`)}, id: false,
			print: true},
		"no body": {organization: "org", key: "key",
			request: idempotency.Request{Method: "POST", Path: request.Path}, id: false, print: true},
	} {
		a := idempotency.New(other.organization, other.key, other.request)
		if ids[a.ID] == other.id || prints[a.Fingerprint] == other.print {
			t.Errorf("%s: another id %t, another fingerprint %t", name, !ids[a.ID], !prints[a.Fingerprint])
		}
		ids[a.ID], prints[a.Fingerprint] = true, true
	}
	if strings.Contains(first.ID+first.Fingerprint, "key") || len(first.ID) != 64 || len(first.Fingerprint) != 64 {
		t.Errorf("id %s and fingerprint %s, want hashes", first.ID, first.Fingerprint)
	}
}

func TestWithoutAttempt(t *testing.T) {
	t.Parallel()
	a := idempotency.From(t.Context())
	idempotency.Anew(t.Context())
	a.Use()
	a.Replay()
	if a != nil || a.Used() || a.Replayed() || a.Anew() {
		t.Error("a call without a key has none, whatever is done to it")
	}
}
