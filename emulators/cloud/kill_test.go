package cloud_test

import (
	"flag"
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/google/uuid"

	"agents.example/controlplane/shared/secret"
	"agents.example/controlplane/shared/testtier"
)

// everyEffect makes TestKill kill the processes at each of their changes, which takes minutes.
var everyEffect = flag.Bool("every-effect", false, "kill the processes at every change instead of at a few")

const (
	// maxRedeliveries is how often Pub/Sub may repeat a message before the work is done.
	maxRedeliveries = 3
	// maxRepeats is how often a client may repeat a request before it is answered.
	maxRepeats = 3
	// laneCount is how many lives run concurrently. They wait for back-offs most of the time.
	laneCount = 4
)

// TestKill kills the processes of the worker and of the API with SIGKILL, before and after their changes of Firestore,
// Secret Manager, Pub/Sub and the cluster. Each time, redeliveries, the client's repeats or the sweep lead to the same
// end as without the kill.
func TestKill(t *testing.T) {
	t.Parallel()
	testtier.RequireFull(t, "kills processes")
	l := startLanes(t)
	open := make([]*lane, laneCount)
	for i := range open {
		open[i] = l.openLane(t, fmt.Sprint("org_lane_", i))
	}
	t.Run("worker", func(t *testing.T) {
		killEverywhere(t, open, 4, func(n *lane) murder {
			return murder{lane: n, victim: n.worker, send: n.sendOnce}
		})
	})
	t.Run("API", func(t *testing.T) {
		killEverywhere(t, open, 4, func(n *lane) murder {
			return murder{lane: n, victim: n.api, send: n.insist}
		})
	})
	checkEqual(t, "namespaces of agents at the end", l.countNamespaces(t, ""), 0)
}

// sendOnce sends a request to an API that is not killed.
func (n *lane) sendOnce(t *testing.T, c chapter, id string) answer {
	t.Helper()
	return n.must(t, c.status, c.method, n.fill(c.path, id), n.fill(c.body, id))
}

// insist sends a request to the API that is killed, and repeats it with its key until it is answered. Then the sweep
// makes up for a lost nudge.
func (n *lane) insist(t *testing.T, c chapter, id string) answer {
	t.Helper()
	key := uuid.NewString()
	for repeat := range 1 + maxRepeats {
		if err := n.api.await(t.Context()); err != nil {
			t.Fatal(err)
		}
		a, err := n.trySend(t, c.method, n.api.url+n.fill(c.path, id), n.fill(c.body, id), http.Header{
			"Authorization": {"Bearer " + n.Ready.APIKey}, "Idempotency-Key": {key},
		})
		if err == nil && a.status == c.status {
			if repeat > 0 {
				n.sweep(t)
			}
			return a
		}
		if err == nil && a.status != http.StatusServiceUnavailable && a.body["code"] != "idempotency_in_progress" {
			t.Fatalf("%s, repeat %d: got %d %s, want %d", c.name, repeat, a.status, a.text, c.status)
		}
		n.age(t, secret.StoringTime)
	}
	t.Fatalf("%s: no answer after %d repeats", c.name, maxRepeats)
	return answer{}
}

// killEverywhere runs a life for each point at which a process can be killed, or for a sample of them.
func killEverywhere(t *testing.T, open []*lane, sample int, plan func(*lane) murder) {
	t.Helper()
	uncut, longest, sum := lengths(t, plan(open[0]).live(t))
	var mu sync.Mutex
	killed := deaths{}
	all := killPoints(longest, sample)
	points := make(chan killPoint, len(all))
	for _, at := range all {
		points <- at
	}
	close(points)
	var lives sync.WaitGroup
	for _, n := range open {
		lives.Go(func() {
			for at := range points {
				passed := t.Run(at.String(), func(t *testing.T) {
					m := plan(n)
					m.at, m.lengths = at, uncut
					seen := m.live(t)
					mu.Lock()
					defer mu.Unlock()
					killed.add(at, seen)
				})
				if !passed {
					return // the next life needs a lane without an agent
				}
			}
		})
	}
	lives.Wait()
	t.Logf("%d lives, %s", len(all), killed)
	// The number of writes varies a little with the time that a pod takes.
	if least := 2 * sum * 9 / 10; *everyEffect && killed.sum() < least {
		t.Errorf("%d kills for %d changes, want at least %d", killed.sum(), sum, least)
	}
}

// killPoints lists the points of lives with a number of changes: all, or a sample.
func killPoints(changes, sample int) (points []killPoint) {
	if *everyEffect {
		sample = 2 * changes
	}
	for i := range sample {
		points = append(points, killPoint{1 + i*changes/sample, i%2 == 1})
	}
	return points
}
