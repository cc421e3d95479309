package router_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/dataplane/router"
)

// alarm is a Waker that records whom it was asked to wake.
type alarm struct {
	mu     sync.Mutex
	asked  []string
	failed error
	// takes is how long a call takes; busy and most count those at a time.
	takes      time.Duration
	busy, most int
}

// Wake implements router.Waker.
func (a *alarm) Wake(ctx context.Context, agentID string) error {
	a.mu.Lock()
	a.asked = append(a.asked, agentID)
	a.busy++
	a.most = max(a.most, a.busy)
	failed := a.failed
	a.mu.Unlock()
	defer func() { a.mu.Lock(); a.busy--; a.mu.Unlock() }()
	if a.takes > 0 {
		select {
		case <-time.After(a.takes):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return failed
}

func (a *alarm) fail(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failed = err
}

// count returns how often the alarm was asked.
func (a *alarm) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.asked)
}

// sleep makes an agent one that has no pod and that requests wake.
func (w *world) sleep(a agent.Agent) {
	w.set(a, router.Endpoint{
		State: router.NotReady, Wakes: true, Organization: "org_1",
		Public: dataplane.PublicSetOf(dataplane.PublicPathLabels([]string{"/hooks/"})),
	})
}

// wake starts the pod of an agent that requests wake.
func (w *world) wake(a agent.Agent, h http.HandlerFunc) (kill func()) {
	kill = w.startAs(a, h)
	e := w.Lookup(a.Namespace())
	e.Wakes, e.Organization = true, "org_1"
	w.set(a, e)
	return kill
}

// bubble runs a test in virtual time, with a router that wakes agents.
func bubble(t *testing.T, test func(w *world, at *alarm), configure ...func(*router.Options)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		at := &alarm{}
		test(newMemoryWorld(t, append(configure, func(o *router.Options) { o.Waker = at })...), at)
	})
}

// asleep is a bubble with an agent that sleeps.
func asleep(t *testing.T, test func(w *world, at *alarm, a agent.Agent)) {
	t.Helper()
	bubble(t, func(w *world, at *alarm) {
		a := newAgent("a")
		w.sleep(a)
		test(w, at, a)
	})
}

// metric returns the value of a time series.
func (w *world) metric(series string) float64 { return w.valueOf(w.scrapeTwice(), series) }

// scrapeTwice returns what a second scrape finds: the first one has new series as zero.
func (w *world) scrapeTwice() string {
	var res *httptest.ResponseRecorder
	for range 2 {
		res = httptest.NewRecorder()
		w.router.Metrics().ServeHTTP(res, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	}
	return res.Body.String()
}

func (w *world) valueOf(scraped, series string) float64 {
	w.t.Helper()
	line := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(series) + ` (\S+)$`).FindStringSubmatch(scraped)
	if line == nil {
		return -1
	}
	value, err := strconv.ParseFloat(line[1], 64)
	if err != nil {
		w.t.Fatal(err)
	}
	return value
}

// later is what a request in the background got.
type later struct {
	answer
	body string
	took time.Duration
}

// background sends a request and returns a channel with its answer.
func (w *world) background(req *http.Request) <-chan later {
	got, c := make(chan later, 1), w.client()
	began := time.Now()
	go func() {
		res, body := w.do(c, req)
		got <- later{res, body, time.Since(began)}
	}()
	return got
}

// knock sends a request with a credential to an agent.
func (w *world) knock(a agent.Agent) <-chan later {
	return w.background(w.with(w.request(http.MethodGet, hostname(a), "/", nil), "Authorization", "x"))
}

func (w *world) with(req *http.Request, header ...string) *http.Request {
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	return req
}

func fine(w http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body)
	fmt.Fprint(w, req.Method, " ", req.URL.Path, " ", len(body))
}
