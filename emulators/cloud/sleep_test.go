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

// sleeper is an agent that sleeps soon after its last request.
type sleeper struct {
	deployment
	t      *testing.T
	stored records
	id     string
	url    string
	own    credentials
}

func (d deployment) sleeper(t *testing.T, name string) sleeper {
	t.Helper()
	id := d.create(t, `{"name": "`+name+`", "resource_plan": "hobby", "public_paths": ["/healthz"]}`)
	a := d.awaitStatus(t, id, "running")
	url, _ := a.body["dashboard_url"].(string)
	s := sleeper{deployment: d, t: t, stored: openRecords(t, d.Cloud), id: id, url: url}
	s.own = d.revealCredentials(t, id)
	_, err := s.stored.db.Collection("agents").Doc(id).Update(t.Context(),
		[]firestore.Update{{Path: "sleep.after_seconds", Value: int64(sleepAfter / time.Second)}})
	if err != nil {
		t.Fatal(err)
	}
	d.must(t, http.StatusOK, http.MethodPost, "/agents/"+id+"/restart", "") // its front reads the time when it starts
	return s
}

// ask requests a path of the agent, and returns the status and Retry-After.
func (s sleeper) ask(path string, change func(*http.Request)) (status int, retryAfter string) {
	s.t.Helper()
	res := s.callAgent(s.t, http.MethodGet, s.url+path, change)
	if err := res.Body.Close(); err != nil {
		s.t.Error(err)
	}
	return res.StatusCode, res.Header.Get("Retry-After")
}

// want requests a path of the agent and checks the status.
func (s sleeper) want(what, path string, change func(*http.Request), want int) {
	s.t.Helper()
	status, _ := s.ask(path, change)
	checkEqual(s.t, "status "+what, status, want)
}

// stranger has no credential.
func (sleeper) stranger(*http.Request) {}

func (s sleeper) withKey(r *http.Request) { r.Header.Set("Authorization", "Bearer "+s.own.key) }

// awaitAsleep waits until the agent sleeps and has no pod.
func (s sleeper) awaitAsleep() {
	s.t.Helper()
	s.await(s.t, s.id, "asleep", func(a answer) bool {
		config, _ := a.body["config"].(map[string]any)
		return a.body["status"] == "paused" && config["status_reason"] == "idle"
	})
	s.awaitConverged()
	s.await(s.t, s.id, "without a pod", func(answer) bool { return s.countPods(s.t, s.id) == 0 })
}

// awaitConverged waits until the workers have done everything that was asked of the agent.
func (s sleeper) awaitConverged() {
	s.t.Helper()
	s.await(s.t, s.id, "converged", func(answer) bool { return s.stored.converged(s.t, s.id) })
}

// testSleep lets an agent fall asleep, and shows what wakes it and what does not.
func testSleep(t *testing.T, d deployment) {
	s := d.sleeper(t, "drowsy")
	s.awaitAsleep()
	checkEqual(t, "an agent that sleeps is reachable", d.readReachability(t, s.id).Reachable, false)
	s.want("without a credential", "", s.stranger, http.StatusUnauthorized)
	s.want("of the front's own path", "health/ready", s.withKey, http.StatusServiceUnavailable)
	a := d.must(t, http.StatusOK, http.MethodGet, "/agents/"+s.id, "")
	checkEqual(t, "status after requests that wake nothing", a.body["status"], "paused")
	s.want("of the request that woke the agent", "v1/models", s.withKey, http.StatusOK)

	s.awaitAsleep()
	d.must(t, http.StatusOK, http.MethodPost, "/agents/"+s.id+"/pause", "")
	s.awaitConverged()
	status, retryAfter := s.ask("v1/models", s.withKey)
	checkEqual(t, "status of an agent that its owner paused", status, http.StatusServiceUnavailable)
	checkEqual(t, "Retry-After of an agent that its owner paused", retryAfter, "")
	d.must(t, http.StatusAccepted, http.MethodDelete, "/agents/"+s.id, "")
}

// testSleepInUse lets an agent fall asleep about when its next request arrives. None is lost.
func testSleepInUse(t *testing.T, d deployment) {
	s := d.sleeper(t, "nodding")
	s.awaitAsleep()
	s.want("of a public path that woke the agent", "healthz", s.stranger, http.StatusOK)
	s.awaitAsleep()
	s.browse()
	for range 10 {
		pause := time.NewTimer(sleepAfter*3/4 + rand.N(sleepAfter))
		<-pause.C
		s.want("of a request while the agent falls asleep", "v1/models", s.withKey, http.StatusOK)
	}
	d.must(t, http.StatusAccepted, http.MethodDelete, "/agents/"+s.id, "")
}

// sleepAfter is how long the agents of these tests are idle before they sleep. Clients cannot ask for so little.
const sleepAfter = 2 * time.Second

// browse opens the dashboard of an agent that sleeps, as a browser with the password does: it may read a page that
// reloads itself.
func (s sleeper) browse() {
	t := s.t
	t.Helper()
	open := func(r *http.Request) {
		r.SetBasicAuth(s.own.user, s.own.password)
		r.Header.Set("Accept", "text/html")
	}
	deadline := time.Now().Add(patience)
	for {
		res := s.callAgent(t, http.MethodGet, s.url, open)
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
