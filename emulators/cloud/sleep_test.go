package cloud_test

import (
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
)

// testSleep lets an agent fall asleep, and wakes it in each way.
func testSleep(t *testing.T, d deployment) {
	id := d.create(t, `{"name": "drowsy", "resource_plan": "hobby", "public_paths": ["/healthz"]}`)
	a := d.awaitStatus(t, id, "running")
	url, _ := a.body["dashboard_url"].(string)
	own := d.revealCredentials(t, id)
	withKey := func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+own.key) }
	ask := func(path string, change func(*http.Request)) *http.Response {
		t.Helper()
		res := d.callAgent(t, http.MethodGet, url+path, change)
		if err := res.Body.Close(); err != nil {
			t.Error(err)
		}
		return res
	}
	nothing := func(*http.Request) {}
	stored := openRecords(t, d.Cloud)
	d.shortenSleep(t, stored, id)

	d.awaitAsleep(t, stored, id)
	checkEqual(t, "an agent that sleeps is reachable", d.readReachability(t, id).Reachable, false)
	checkEqual(t, "status without a credential", ask("", nothing).StatusCode, http.StatusUnauthorized)
	checkEqual(t, "status of the front's own path", ask("health/ready", withKey).StatusCode,
		http.StatusServiceUnavailable)
	a = d.must(t, http.StatusOK, http.MethodGet, "/agents/"+id, "")
	checkEqual(t, "status after requests that wake nothing", a.body["status"], "paused")

	checkEqual(t, "status of the request that woke the agent", ask("v1/models", withKey).StatusCode, http.StatusOK)
	d.awaitAsleep(t, stored, id)
	checkEqual(t, "status of a public path that woke it", ask("healthz", nothing).StatusCode, http.StatusOK)
	d.awaitAsleep(t, stored, id)
	d.browseAsleep(t, url, own)

	// The agent falls asleep about when the next request arrives. None is lost.
	for range 12 {
		pause := time.NewTimer(sleepAfter*3/4 + rand.N(sleepAfter))
		<-pause.C
		if got := ask("v1/models", withKey).StatusCode; got != http.StatusOK {
			t.Errorf("a request while the agent falls asleep got %d", got)
		}
	}

	d.awaitAsleep(t, stored, id)
	d.must(t, http.StatusOK, http.MethodPost, "/agents/"+id+"/pause", "")
	stored.awaitConverged(t, d, id)
	res := ask("v1/models", withKey)
	checkEqual(t, "status of an agent that its owner paused", res.StatusCode, http.StatusServiceUnavailable)
	checkEqual(t, "Retry-After of an agent that its owner paused", res.Header.Get("Retry-After"), "")
	d.must(t, http.StatusAccepted, http.MethodDelete, "/agents/"+id, "")
}

// sleepAfter is how long the agents of these tests are idle before they sleep. Clients cannot ask for so little.
const sleepAfter = 2 * time.Second

// shortenSleep makes an agent sleep soon after its last request.
func (d deployment) shortenSleep(t *testing.T, stored records, id string) {
	t.Helper()
	_, err := stored.db.Collection("agents").Doc(id).Update(t.Context(),
		[]firestore.Update{{Path: "sleep.after_seconds", Value: int64(sleepAfter / time.Second)}})
	if err != nil {
		t.Fatal(err)
	}
	d.must(t, http.StatusOK, http.MethodPost, "/agents/"+id+"/restart", "") // its front reads the time when it starts
}

// awaitAsleep waits until an agent sleeps and has no pod.
func (d deployment) awaitAsleep(t *testing.T, stored records, id string) {
	t.Helper()
	d.await(t, id, "asleep", func(a answer) bool {
		config, _ := a.body["config"].(map[string]any)
		return a.body["status"] == "paused" && config["status_reason"] == "idle"
	})
	stored.awaitConverged(t, d, id)
	checkEqual(t, "pods of an agent that sleeps", d.countPods(t, id), 0)
}

// browseAsleep opens the dashboard of an agent that sleeps, as a browser with the password does: it may read a page
// that reloads itself.
func (d deployment) browseAsleep(t *testing.T, url string, own credentials) {
	t.Helper()
	open := func(r *http.Request) {
		r.SetBasicAuth(own.user, own.password)
		r.Header.Set("Accept", "text/html")
	}
	deadline := time.Now().Add(patience)
	for {
		res := d.callAgent(t, http.MethodGet, url, open)
		page, err := io.ReadAll(res.Body)
		if err := res.Body.Close(); err != nil {
			t.Error(err)
		}
		switch {
		case err != nil || time.Now().After(deadline):
			t.Fatalf("the dashboard answers %d %s (%v)", res.StatusCode, page, err)
		case res.StatusCode == http.StatusOK:
			return
		case res.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(page), "http-equiv"):
			t.Fatalf("a browser reads %d %s, want a page that reloads itself", res.StatusCode, page)
		}
		again := time.NewTimer(pollInterval)
		<-again.C
	}
}

// awaitConverged waits until the workers have done everything that was asked of an agent.
func (r records) awaitConverged(t *testing.T, d deployment, id string) {
	t.Helper()
	d.await(t, id, "converged", func(answer) bool { return r.converged(t, id) })
}
