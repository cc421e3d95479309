package front_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/dataplane/front"
)

// callReport asks the front about calls.
func (f *fixture) callReport(t *testing.T, ids ...string) (r dataplane.CallReport) {
	t.Helper()
	status, body := f.get(t, dataplane.PathCalls+"?id="+strings.Join(ids, "&id="), bearer)
	if err := json.Unmarshal([]byte(body), &r); err != nil || status != http.StatusOK || r.Front == "" {
		t.Fatalf("a report on calls is %d %s", status, body)
	}
	return r
}

// order orders a call and returns the status of the answer.
func (f *fixture) order(t *testing.T, id string, o dataplane.CallOrder) int {
	t.Helper()
	body, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return f.request(t, http.MethodPut, dataplane.PathCalls+"/"+id, bearer, func(r *http.Request) {
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(string(body))), int64(len(body))
	}).StatusCode
}

// result waits for the result of a call.
func (f *fixture) result(t *testing.T, id string) dataplane.CallResult {
	t.Helper()
	var r dataplane.CallResult
	waitUntil(t, "the end of the call "+id, func() bool {
		r = f.callReport(t, id).Calls[id]
		return r.Outcome != "" && r.Outcome != dataplane.CallRunning
	})
	return r
}

func orderOf(front string) dataplane.CallOrder {
	return dataplane.CallOrder{Front: front, Schedule: "daily", Path: "/v1/run", Body: `{"prompt":"report"}`}
}

func TestCalls_ReachTheContainerAsThoseOfACaller(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		forward bool
		body    string
		want    map[string]string
	}{
		"JSON": {body: `{"prompt":"report"}`, want: map[string]string{"Content-Type": "application/json", "Authorization": ""}},
		"text": {body: "report", want: map[string]string{"Content-Type": "text/plain; charset=utf-8"}},
		"an image that checks credentials": {
			forward: true, body: "", want: map[string]string{"Authorization": "Bearer " + apiKey},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := make(chan *http.Request, 1)
			port := serveContainer(t, func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				r.Header.Set("Body", string(body))
				got <- r
				w.WriteHeader(http.StatusTeapot)
			})
			f := start(t, port, func(o *front.Options) { o.ForwardCredentials = row.forward })
			o := orderOf(f.callReport(t).Front)
			o.Body = row.body
			if status := f.order(t, "c1", o); status != http.StatusAccepted {
				t.Fatalf("an order is answered with %d", status)
			}
			r := <-got
			row.want["Body"] = row.body
			row.want["X-Agent-Schedule"], row.want["Idempotency-Key"] = "daily", "c1"
			row.want["X-Forwarded-Auth"], row.want["X-Forwarded-User"] = "api", "api"
			for h, want := range row.want {
				if r.Header.Get(h) != want {
					t.Errorf("%s is %q, want %q", h, r.Header.Get(h), want)
				}
			}
			if r.Method != http.MethodPost || r.URL.Path != "/v1/run" || r.Host != hostname {
				t.Errorf("the container got %s %s of %s", r.Method, r.URL.Path, r.Host)
			}
			if end := f.result(t, "c1"); end.Outcome != dataplane.CallAnswered || end.Status != http.StatusTeapot {
				t.Errorf("the result is %+v", end)
			}
		})
	}
}

func TestCalls_AreMadeOnceEach(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	release := make(chan struct{})
	port := serveContainer(t, func(http.ResponseWriter, *http.Request) { calls.Add(1); <-release })
	f := start(t, port, nil)
	name := f.callReport(t).Front
	for range 3 {
		if status := f.order(t, "c1", orderOf(name)); status != http.StatusAccepted {
			t.Errorf("an order of a call that runs is answered with %d", status)
		}
	}
	if r := f.callReport(t, "c1", "c2"); r.Calls["c1"].Outcome != dataplane.CallRunning || len(r.Calls) != 1 {
		t.Errorf("the front reports %+v", r)
	}
	close(release)
	f.result(t, "c1")
	f.order(t, "c1", orderOf(name))
	if status := f.order(t, "c2", orderOf("another")); status != http.StatusConflict {
		t.Errorf("an order for another process is answered with %d", status)
	}
	f.order(t, "c3", orderOf(name))
	f.result(t, "c3")
	if got := calls.Load(); got != 2 {
		t.Errorf("the container was called %d times, want 2", got)
	}
	if other := start(t, port, nil).callReport(t, "c1"); other.Front == name || len(other.Calls) > 0 {
		t.Errorf("another process reports %+v", other)
	}
}

// A client that keeps connections sends a request with an Idempotency-Key again if its connection closes.
func TestCalls_AreNotRepeatedIfTheContainerClosesTheConnection(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	port := serveContainer(t, func(w http.ResponseWriter, _ *http.Request) {
		if calls.Add(1) > 1 {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_ = conn.Close()
			}
		}
	})
	f := start(t, port, nil)
	name := f.callReport(t).Front
	f.order(t, "c1", orderOf(name))
	f.result(t, "c1")
	f.order(t, "c2", orderOf(name))
	if end := f.result(t, "c2"); end.Outcome != dataplane.CallFailed || end.Status != 0 || calls.Load() != 2 {
		t.Errorf("the result is %+v after %d calls, want a failure after 2", end, calls.Load())
	}
}

func TestCalls_AreForTheAPIKeyOnly(t *testing.T) {
	t.Parallel()
	f := start(t, refusingPort(t), nil)
	for name, prepare := range map[string]func(*http.Request){
		"no credential": func(*http.Request) {}, "the dashboard's": basic,
		"another key": header("Authorization", "Bearer x"),
	} {
		for _, method := range []string{http.MethodGet, http.MethodPut} {
			res := f.request(t, method, dataplane.PathCalls+map[string]string{http.MethodPut: "/c1"}[method], prepare)
			if res.StatusCode != http.StatusUnauthorized {
				t.Errorf("%s with %s is answered with %d", method, name, res.StatusCode)
			}
		}
	}
	if f.order(t, "c1", orderOf(f.callReport(t).Front)); f.result(t, "c1").Outcome != dataplane.CallFailed {
		t.Error("a container that refuses connections answered")
	}
}

func TestCalls_RefuseWhatIsNoOrder(t *testing.T) {
	t.Parallel()
	f := start(t, refusingPort(t), nil)
	name := f.callReport(t).Front
	for reason, change := range map[string]func(*dataplane.CallOrder){
		"the front's path":    func(o *dataplane.CallOrder) { o.Path = "/handoff" },
		"no path":             func(o *dataplane.CallOrder) { o.Path = "http://example.com/" },
		"a line in a header":  func(o *dataplane.CallOrder) { o.Schedule = "a\nb" },
		"more than it stores": func(o *dataplane.CallOrder) { o.Body = strings.Repeat("a", dataplane.MaxOrderBytes) },
	} {
		o := orderOf(name)
		if change(&o); f.order(t, "c1", o) != http.StatusBadRequest {
			t.Errorf("%s is taken", reason)
		}
	}
	if status := f.order(t, strings.Repeat("c", 65), orderOf(name)); status != http.StatusNotFound {
		t.Errorf("a long id is answered with %d", status)
	}
}

func TestCalls_AreBounded(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	f := start(t, serveContainer(t, func(http.ResponseWriter, *http.Request) { <-release }), nil)
	t.Cleanup(func() { close(release) })
	name := f.callReport(t).Front
	taken := 0
	for i := range 40 {
		if f.order(t, "c"+string(rune('A'+i)), orderOf(name)) == http.StatusAccepted {
			taken++
		}
	}
	if taken != 32 {
		t.Errorf("the front makes %d calls concurrently, want 32", taken)
	}
}
