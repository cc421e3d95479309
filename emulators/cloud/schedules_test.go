package cloud_test

import (
	"net/http"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
)

// testSchedules lets a schedule of an agent that sleeps be due: it is woken, called once, and falls asleep again.
func testSchedules(t *testing.T, d deployment) {
	s := d.sleeper(t, "punctual")
	due := time.Now().UTC().Add(-2 * time.Minute)
	d.must(t, http.StatusOK, http.MethodPatch, "/agents/"+s.id, `{"schedules": [{
		"id": "report", "cron": "`+due.Format("4 15")+` * * *", "path": "/v1/chat/completions",
		"body": "{\"model\": \"echo\", \"messages\": [{\"role\": \"user\", \"content\": \"report\"}]}"
	}]}`)
	s.awaitAsleep()
	s.passTime(6 * time.Minute)
	called := func(a answer) bool {
		last := lastCall(a)
		return last != nil && last["outcome"] != "running"
	}
	a := d.await(t, s.id, "called", called)
	checkEqual(t, "status of the call", lastCall(a)["status"], any(float64(http.StatusOK)))
	checkEqual(t, "outcome of the call", lastCall(a)["outcome"], any("answered"))
	s.awaitAsleep()
	again := d.must(t, http.StatusOK, http.MethodGet, "/agents/"+s.id, "")
	checkEqual(t, "due time of the latest call", lastCall(again)["due_at"], lastCall(a)["due_at"])
	d.must(t, http.StatusAccepted, http.MethodDelete, "/agents/"+s.id, "")
}

// passTime makes the record of the agent's schedule older, so that it is due.
func (s sleeper) passTime(by time.Duration) {
	s.t.Helper()
	ref := s.stored.db.Collection("agents").Doc(s.id)
	snap, err := ref.Get(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	schedules, _ := snap.Data()["schedules"].([]any)
	if len(schedules) != 1 {
		s.t.Fatalf("the record has the schedules %v, want one", schedules)
	}
	stored, _ := schedules[0].(map[string]any)
	stored["after"] = time.Now().Add(-by)
	if _, err := ref.Update(s.t.Context(), []firestore.Update{
		{Path: "schedules", Value: schedules}, {Path: "calls_due_at", Value: time.Now()},
	}); err != nil {
		s.t.Fatal(err)
	}
}

// lastCall is the latest call of the agent's only schedule, or nil.
func lastCall(a answer) map[string]any {
	schedules, _ := a.body["schedules"].([]any)
	if len(schedules) != 1 {
		return nil
	}
	schedule, _ := schedules[0].(map[string]any)
	last, _ := schedule["last"].(map[string]any)
	return last
}
