package gateway

import (
	"maps"
	"net/http"
	"slices"
	"sort"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Traffic is what one agent's container counted of the requests to one host, as its image does for whoever scrapes it.
// The counters begin anew with the pod.
type Traffic struct {
	Namespace, Pod, Host string
	// Since is when the counters began.
	Since time.Time
	// Codes counts answers by their status.
	Codes map[int]int64
	// Durations counts answers by how long they took: up to each of DurationBounds, and longer.
	Durations []int64
}

// DurationBounds are the limits between the buckets of durations, in seconds.
func DurationBounds() []float64 {
	return []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10}
}

// counters are those of all pods, by pod and host.
type counters struct {
	mu sync.Mutex
	of map[types.UID]map[string]*Traffic
}

// count counts an answer of a pod.
func (c *counters) count(a running, host string, status int, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = map[types.UID]map[string]*Traffic{}
	}
	if c.of[a.uid] == nil {
		c.of[a.uid] = map[string]*Traffic{}
	}
	t := c.of[a.uid][host]
	if t == nil {
		t = &Traffic{
			Namespace: a.namespace, Pod: a.pod, Host: host, Since: a.since, Codes: map[int]int64{},
			Durations: make([]int64, len(DurationBounds())+1),
		}
		c.of[a.uid][host] = t
	}
	t.Codes[status]++
	t.Durations[sort.SearchFloat64s(DurationBounds(), took.Seconds())]++
}

// forget drops the counters of a pod that is gone.
func (c *counters) forget(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.of, uid)
}

// Traffic lists what the agents that run have counted.
func (g *Gateway) Traffic() []Traffic {
	g.counters.mu.Lock()
	defer g.counters.mu.Unlock()
	var all []Traffic
	for _, hosts := range g.counters.of {
		for _, t := range hosts {
			copied := *t
			copied.Codes, copied.Durations = maps.Clone(t.Codes), slices.Clone(t.Durations)
			all = append(all, copied)
		}
	}
	return all
}

// answered remembers the status of an answer.
type answered struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (a *answered) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (a *answered) Write(b []byte) (int, error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	return a.ResponseWriter.Write(b)
}
