package function

import (
	"net/http"
	"slices"
	"sync"
	"time"

	"agents.example/controlplane/shared/fault"
)

const (
	// maxPublicBodies is how many requests of a public route a process receives at the same time. It is well below the
	// number of requests that an instance serves, so that strangers who send slowly leave room for other routes.
	maxPublicBodies = 16
	// minReceiving is how long a request is received before another one may take its place. A body mostly arrives with
	// its header.
	minReceiving = 100 * time.Millisecond

	codeInFlight = "too_many_requests_in_flight"
)

// limitReceiving returns decode for a route that does not authenticate: it receives at most maxPublicBodies requests at
// the same time. Callers of other routes are authenticated before their bodies are read. Errors: those of decode,
// Unavailable.
func (r *Route) limitReceiving() func(w http.ResponseWriter, req *http.Request) ([]byte, error) {
	var all receiving
	return func(w http.ResponseWriter, req *http.Request) ([]byte, error) {
		leave, ok := all.enter(req)
		if !ok {
			return nil, fault.New(fault.Unavailable, codeInFlight,
				"The service is receiving too many requests of this kind. Retry.")
		}
		defer leave()
		return r.decode(w, req)
	}
}

// receiving are the requests that are being received, the oldest first.
type receiving struct {
	mu   sync.Mutex
	open []*reception
}

type reception struct {
	began time.Time
	body  *boundedBody // nil for a request whose body cannot be ended
}

// enter takes a place for a request, which must leave. If there is none, it takes that of the oldest request: strangers
// who send slowly must not keep out the payment provider, or the agents that ask about sessions.
func (r *receiving) enter(req *http.Request) (leave func(), ok bool) {
	body, _ := req.Body.(*boundedBody)
	x := &reception{began: time.Now(), body: body}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.open) >= maxPublicBodies {
		oldest := r.open[0]
		if oldest.body == nil || x.began.Sub(oldest.began) < minReceiving {
			return nil, false
		}
		oldest.body.giveUp()
		r.open = slices.Delete(r.open, 0, 1)
	}
	r.open = append(r.open, x)
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.open = slices.DeleteFunc(r.open, func(other *reception) bool { return other == x })
	}, true
}
