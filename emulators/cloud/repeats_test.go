package cloud_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// keyed calls as an admin of the first organization with an Idempotency-Key.
func (w world) keyed(t *testing.T, key, method, path, body string) answer {
	t.Helper()
	return w.send(t, method, path, body,
		http.Header{"Authorization": {"Bearer " + w.Ready.APIKey}, "Idempotency-Key": {key}})
}

// repeats sends requests again: the first answer comes back, and nothing is done twice.
func repeats(t *testing.T, w world) {
	creations(t, w)
	const create = `{"name": "repeats once", "resource_plan": "hobby"}`
	first := w.keyed(t, "story-create", http.MethodPost, "/api/v1/agents", create)
	id, _ := first.body["id"].(string)
	again := w.keyed(t, "story-create", http.MethodPost, "/agents", create) // the same route by its other path
	if again.status != http.StatusCreated || again.text != first.text ||
		again.header.Get("Idempotency-Replayed") != "true" ||
		again.header.Get("ETag") != first.header.Get("ETag") ||
		again.header.Get("Location") != first.header.Get("Location") {
		t.Errorf("a repeat: %d %s, want %s", again.status, again.text, first.text)
	}
	other := w.keyed(t, "story-create", http.MethodPost, "/api/v1/agents",
		`{"name": "another", "resource_plan": "hobby"}`)
	if other.status != http.StatusUnprocessableEntity || other.body["code"] != "idempotency_key_reused" {
		t.Errorf("the key with another body: %d %s", other.status, other.text)
	}
	if a := w.keyed(t, "white space", http.MethodPost, "/api/v1/agents", create); a.status != http.StatusBadRequest ||
		a.body["code"] != "invalid_idempotency_key" {
		t.Errorf("a bad key: %d %s", a.status, a.text)
	}

	made := w.keyed(t, "story-key", http.MethodPost, "/api/v1/api-keys", `{"name": "repeated"}`)
	secret, _ := made.body["secret"].(string)
	shown := w.keyed(t, "story-key", http.MethodPost, "/api/v1/api-keys", `{"name": "repeated"}`)
	if shown.status != http.StatusCreated || shown.body["id"] != made.body["id"] || shown.body["secret"] != nil ||
		!strings.HasPrefix(secret, "so_") {
		t.Errorf("a repeated creation of a key: %d, secret shown again: %t", shown.status, shown.body["secret"] != nil)
	}
	w.must(t, http.StatusNoContent, http.MethodDelete, fmt.Sprintf("/api/v1/api-keys/%v", made.body["id"]), "")
	for range 2 {
		if a := w.keyed(t, "story-delete", http.MethodDelete, "/api/v1/agents/"+id,
			""); a.status != http.StatusAccepted {
			t.Errorf("a repeated deletion: %d %s", a.status, a.text)
		}
	}
}

// creations sends 200 creations at once with 20 keys between them: 20 agents, and one answer a key.
func creations(t *testing.T, w world) {
	t.Helper()
	const keys, calls = 20, 200
	answers := make([]answer, calls)
	var all sync.WaitGroup
	for i := range calls {
		all.Go(func() {
			k := i % keys
			for began := time.Now(); time.Since(began) < patience; {
				answers[i] = w.keyed(t, fmt.Sprintf("story-%d", k), http.MethodPost, "/api/v1/agents",
					fmt.Sprintf(`{"name": "repeated %d", "resource_plan": "hobby"}`, k))
				// so many at one organization may be too much; it is safe to repeat
				if answers[i].status != http.StatusServiceUnavailable {
					return
				}
			}
		})
	}
	all.Wait()
	first := map[int]answer{}
	for i, a := range answers {
		k := i % keys
		if a.status != http.StatusCreated {
			t.Fatalf("call %d with key %d: %d %s", i, k, a.status, a.text)
		}
		if _, ok := first[k]; !ok {
			first[k] = a
		}
		if a.text != first[k].text {
			t.Errorf("key %d has two answers: %s and %s", k, a.text, first[k].text)
		}
	}
	for k, a := range first {
		list := w.must(t, http.StatusOK, http.MethodGet, fmt.Sprintf("/api/v1/agents?name=repeated%%20%d", k), "")
		if n := strings.Count(list.text, `"namespace":`); n != 1 {
			t.Errorf("key %d made %d agents", k, n)
		}
		w.must(t, http.StatusAccepted, http.MethodDelete, fmt.Sprintf("/agents/%v", a.body["id"]), "")
	}
}
