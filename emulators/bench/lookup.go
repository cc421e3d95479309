package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"agents.example/controlplane/infra/gke/cellwatch"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/dataplane/router"
)

const (
	lookupRounds  = 9
	lookups       = 1 << 20 // in a round
	lookupAgents  = 5000
	lookupChanges = 1000 // a second
)

// measureLookups compares the 99th percentile of the router's lookups while endpoints change with that while none does.
func measureLookups(ctx context.Context, _ *environment) (_ Report, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	api := newSliceAPI(lookupAgents)
	server := httptest.NewServer(api)
	defer server.Close()
	defer cancel() // ends the watch, for which Close waits
	e, err := cellwatch.NewEndpoints(&rest.Config{Host: server.URL})
	if err != nil {
		return Report{}, err
	}
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	watching.Go(func() { e.Run(ctx) })
	if err := e.AwaitSync(ctx); err != nil {
		return Report{}, err
	}
	var r rounds
	for range lookupRounds {
		api.changing.Store(false)
		quiet, err := api.lookUp(e)
		if err != nil {
			return Report{}, err
		}
		before := api.sent.Load()
		api.changing.Store(true)
		if err := api.awaitChange(ctx, e, before); err != nil {
			return Report{}, err
		}
		changing, err := api.lookUp(e)
		if err != nil {
			return Report{}, err
		}
		r.add(changing, quiet)
	}
	row, err := r.row()
	row.ID, row.Unit, row.Most = "P13", "ns", 1.25
	row.What = fmt.Sprintf("lookup, p99, %d of %d endpoints change a second", lookupChanges, lookupAgents)
	row.Note = "limit: the same without changes"
	return Report{Rows: []Row{row}}, err
}

// sliceAPI answers lists and watches of the EndpointSlices of one cell. A local API server, with as many writes, would
// need the CPUs that serve the lookups.
type sliceAPI struct {
	slices   []discoveryv1.EndpointSlice
	changing atomic.Bool
	// sent counts the changes sent to the watch.
	sent atomic.Int64
}

func newSliceAPI(agents int) *sliceAPI {
	a := &sliceAPI{slices: make([]discoveryv1.EndpointSlice, agents)}
	for i := range a.slices {
		a.slices[i] = discoveryv1.EndpointSlice{
			TypeMeta: metav1.TypeMeta{Kind: "EndpointSlice", APIVersion: discoveryv1.SchemeGroupVersion.String()},
			ObjectMeta: metav1.ObjectMeta{
				Namespace: agent.Namespace(newID()), Name: "agent-x", ResourceVersion: "1",
				Labels: map[string]string{dataplane.LabelSlug: "support"},
			},
			Ports: []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8080))}},
			Endpoints: []discoveryv1.Endpoint{{
				Addresses: []string{address(i)}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)},
			}},
		}
	}
	return a
}

// address returns an address of a pod.
func address(i int) string {
	return netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}).String()
}

// ServeHTTP implements http.Handler.
func (a *sliceAPI) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	query := req.URL.Query()
	switch {
	case query.Has("sendInitialEvents"): // the client lists then, as with an older API server
		http.Error(w, "not supported", http.StatusBadRequest)
	case query.Has("watch"):
		a.watch(req.Context(), w)
	default:
		_ = json.NewEncoder(w).Encode(discoveryv1.EndpointSliceList{
			TypeMeta: metav1.TypeMeta{Kind: "EndpointSliceList", APIVersion: discoveryv1.SchemeGroupVersion.String()},
			ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: a.slices,
		})
	}
}

// watch sends a change of one agent's address after the other, while changes are on.
func (a *sliceAPI) watch(ctx context.Context, w http.ResponseWriter) {
	flush := http.NewResponseController(w)
	_ = flush.Flush()
	tick := time.NewTicker(time.Second / lookupChanges)
	defer tick.Stop()
	events := json.NewEncoder(w)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if !a.changing.Load() {
			continue
		}
		n := int(a.sent.Load())
		changed := a.slices[n%len(a.slices)].DeepCopy()
		changed.ResourceVersion = strconv.Itoa(n + 2)
		changed.Endpoints[0].Addresses[0] = address(n + len(a.slices))
		err := events.Encode(struct {
			Type   string                    `json:"type"`
			Object discoveryv1.EndpointSlice `json:"object"`
		}{"MODIFIED", *changed})
		if err = errors.Join(err, flush.Flush()); err != nil {
			return
		}
		a.sent.Add(1)
	}
}

// awaitChange waits until the router knows a change.
func (a *sliceAPI) awaitChange(ctx context.Context, e *cellwatch.Endpoints, n int64) error {
	namespace := a.slices[int(n)%len(a.slices)].Namespace
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for e.Lookup(namespace).Addr.Addr().String() != address(int(n)+len(a.slices)) {
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait until the router knows a change: %w", ctx.Err())
		case <-tick.C:
		}
	}
	return nil
}

// lookUp looks every agent up in turns, and returns the 99th percentile of the time of a lookup, in nanoseconds.
func (a *sliceAPI) lookUp(e *cellwatch.Endpoints) (float64, error) {
	took := make([]time.Duration, lookups)
	for i := range took {
		namespace := a.slices[i%len(a.slices)].Namespace
		began := time.Now()
		found := e.Lookup(namespace)
		took[i] = time.Since(began)
		if found.State != router.Ready {
			return 0, fmt.Errorf("the router does not know %s", namespace)
		}
	}
	slices.Sort(took)
	return float64(took[len(took)*99/100]), nil
}
