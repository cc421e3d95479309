package agents

import (
	"context"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/metrics"
)

const (
	// metricsKeptFor is how long a process answers with what it has read. Monitoring systems ask every 15 to 60 s, and
	// collections are a minute apart at least.
	metricsKeptFor = 15 * time.Second
	// mostMetricsKept bounds the organizations whose figures are kept. One with 100 agents takes about 50 KB.
	mostMetricsKept = 200
)

// AllMetrics reads the current figures of all agents of the caller's organization. It does not record a view, which
// would make the service collect every minute for as long as a monitoring system asks.
func AllMetrics(snapshots metrics.Store) function.Route {
	kept := keptMetrics{snapshots: snapshots, last: map[string]readMetrics{}, now: time.Now}
	return function.Route{
		Name: "GetOrganizationMetrics", Method: http.MethodGet, Path: "/api/v1/metrics",
		Access: function.Member, Needs: []function.Need{function.Firestore},
		Status: http.StatusOK, Summary: "Get the metrics of all agents",
		Handle: function.Handle(func(ctx context.Context, _ struct{}) (metrics.OrganizationView, error) {
			all, err := kept.get(ctx)
			return metrics.ShowAll(all, time.Now()), err
		}),
	}
}

// keptMetrics reads the figures of each organization at most once in metricsKeptFor, however many callers ask. The
// guard has checked each of them.
type keptMetrics struct {
	snapshots metrics.Store
	now       func() time.Time
	reads     singleflight.Group

	mu   sync.Mutex
	last map[string]readMetrics
}

type readMetrics struct {
	all []metrics.Current
	at  time.Time
}

// get returns the figures of the caller's organization, which nothing changes.
func (k *keptMetrics) get(ctx context.Context) ([]metrics.Current, error) {
	organizationID := call.From(ctx).Caller.OrganizationID
	if last, ok := k.recent(organizationID); ok {
		return last.all, nil
	}
	found, err, _ := k.reads.Do(organizationID, func() (any, error) {
		if last, ok := k.recent(organizationID); ok { // another caller has just read them
			return last.all, nil
		}
		// The other callers get the answer, too, if the first one is gone. The store ends the call in time.
		all, err := k.snapshots.ListCurrent(context.WithoutCancel(ctx))
		if err == nil {
			k.keep(organizationID, readMetrics{all, k.now()})
		}
		return all, err
	})
	all, _ := found.([]metrics.Current)
	return all, err
}

func (k *keptMetrics) recent(organizationID string) (readMetrics, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	last, ok := k.last[organizationID]
	return last, ok && k.now().Sub(last.at) < metricsKeptFor
}

// keep forgets all organizations when there are too many. That costs each of them one more read.
func (k *keptMetrics) keep(organizationID string, r readMetrics) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.last) >= mostMetricsKept {
		clear(k.last)
	}
	k.last[organizationID] = r
}
