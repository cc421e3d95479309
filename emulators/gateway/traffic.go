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

// Traffic counts the requests to one host that one agent's container served, as the agent's image does for Prometheus.
// A new pod starts from zero.
type Traffic struct {
	Namespace, Pod, Host string
	// Since is the time at which the counters started.
	Since time.Time
	// Codes counts responses by status.
	Codes map[int]int64
	// Durations counts responses by duration: one bucket up to each of DurationBounds, and one above.
	Durations []int64
}

// DurationBounds are the upper bounds of the buckets of durations, in seconds.
func DurationBounds() []float64 {
	return []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10}
}

// counters are the counters of all pods, by pod and host.
type counters struct {
	mu    sync.Mutex
	byPod map[types.UID]map[string]*Traffic
}

// record counts a response of a pod.
func (c *counters) record(a servingAgent, host string, status int, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byPod == nil {
		c.byPod = map[types.UID]map[string]*Traffic{}
	}
	if c.byPod[a.uid] == nil {
		c.byPod[a.uid] = map[string]*Traffic{}
	}
	t := c.byPod[a.uid][host]
	if t == nil {
		t = &Traffic{
			Namespace: a.namespace, Pod: a.pod, Host: host, Since: a.since, Codes: map[int]int64{},
			Durations: make([]int64, len(DurationBounds())+1),
		}
		c.byPod[a.uid][host] = t
	}
	t.Codes[status]++
	t.Durations[sort.SearchFloat64s(DurationBounds(), took.Seconds())]++
}

// forget drops the counters of a deleted pod.
func (c *counters) forget(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.byPod, uid)
}

// Traffic returns the counters of the running agents.
func (g *Gateway) Traffic() []Traffic {
	g.counters.mu.Lock()
	defer g.counters.mu.Unlock()
	var all []Traffic
	for _, hosts := range g.counters.byPod {
		for _, t := range hosts {
			copied := *t
			copied.Codes, copied.Durations = maps.Clone(t.Codes), slices.Clone(t.Durations)
			all = append(all, copied)
		}
	}
	return all
}

// statusRecorder remembers the status of a response.
type statusRecorder struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (a *statusRecorder) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (a *statusRecorder) Write(b []byte) (int, error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	return a.ResponseWriter.Write(b)
}
