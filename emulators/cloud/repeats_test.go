package cloud_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// callWithKey calls as an admin of the first organization, with an Idempotency-Key.
func (d deployment) callWithKey(t *testing.T, key, method, path, body string) answer {
	t.Helper()
	return d.send(t, method, path, body,
		http.Header{"Authorization": {"Bearer " + d.Ready.APIKey}, "Idempotency-Key": {key}})
}

// testIdempotency sends requests again. The first response comes back, and the request takes effect once.
func testIdempotency(t *testing.T, d deployment) {
	checkConcurrentCreations(t, d)
	const create = `{"name": "repeats once", "resource_plan": "hobby"}`
	first := d.callWithKey(t, "story-create", http.MethodPost, "/api/v1/agents", create)
	id, _ := first.body["id"].(string)
	again := d.callWithKey(t, "story-create", http.MethodPost, "/agents", create) // the same route by its other path
	checkEqual(t, "status of a repeated creation", again.status, http.StatusCreated)
	checkEqual(t, "body of a repeated creation", again.text, first.text)
	checkEqual(t, "Idempotency-Replayed of a repeated creation", again.header.Get("Idempotency-Replayed"), "true")
	checkEqual(t, "ETag of a repeated creation", again.header.Get("ETag"), first.header.Get("ETag"))
	checkEqual(t, "Location of a repeated creation", again.header.Get("Location"), first.header.Get("Location"))
	other := d.callWithKey(t, "story-create", http.MethodPost, "/api/v1/agents",
		`{"name": "another", "resource_plan": "hobby"}`)
	checkRefusal(t, "the key with another body", other, http.StatusUnprocessableEntity, "idempotency_key_reused")
	invalid := d.callWithKey(t, "white space", http.MethodPost, "/api/v1/agents", create)
	checkRefusal(t, "a key with white space", invalid, http.StatusBadRequest, "invalid_idempotency_key")

	made := d.callWithKey(t, "story-key", http.MethodPost, "/api/v1/api-keys", `{"name": "repeated"}`)
	secret, _ := made.body["secret"].(string)
	shown := d.callWithKey(t, "story-key", http.MethodPost, "/api/v1/api-keys", `{"name": "repeated"}`)
	checkEqual(t, "status of a repeated key creation", shown.status, http.StatusCreated)
	checkEqual(t, "ID of a repeated key creation", shown.body["id"], made.body["id"])
	if shown.body["secret"] != nil {
		t.Error("a repeated key creation shows the secret again")
	}
	if !strings.HasPrefix(secret, "so_") {
		t.Error("the first key creation shows no secret")
	}
	d.must(t, http.StatusNoContent, http.MethodDelete, fmt.Sprintf("/api/v1/api-keys/%v", made.body["id"]), "")
	for range 2 {
		a := d.callWithKey(t, "story-delete", http.MethodDelete, "/api/v1/agents/"+id, "")
		checkEqual(t, "status of a deletion, twice", a.status, http.StatusAccepted)
	}
}

// checkConcurrentCreations sends 200 creations concurrently, with 20 different keys. That makes 20 agents, and one
// response for each key.
func checkConcurrentCreations(t *testing.T, d deployment) {
	t.Helper()
	const keys, calls = 20, 200
	answers := make([]answer, calls)
	var all sync.WaitGroup
	for i := range calls {
		all.Go(func() {
			k := i % keys
			for began := time.Now(); time.Since(began) < patience; {
				answers[i] = d.callWithKey(t, fmt.Sprintf("story-%d", k), http.MethodPost, "/api/v1/agents",
					fmt.Sprintf(`{"name": "repeated %d", "resource_plan": "hobby"}`, k))
				// The organization may be too busy. The key makes it safe to try again.
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
			t.Errorf("key %d got two different responses: %s and %s", k, a.text, first[k].text)
		}
	}
	for k, a := range first {
		list := d.must(t, http.StatusOK, http.MethodGet, fmt.Sprintf("/api/v1/agents?name=repeated%%20%d", k), "")
		checkEqual(t, fmt.Sprintf("agents created with key %d", k), strings.Count(list.text, `"namespace":`), 1)
		d.must(t, http.StatusAccepted, http.MethodDelete, fmt.Sprintf("/agents/%v", a.body["id"]), "")
	}
}
