package auditlog_test

import (
	"context"
	"iter"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"agents.example/controlplane/functions/auditlog"
	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/audit/seal"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/ratelimit"
)

// endlessLog is a log whose read takes as long as its context lasts.
type endlessLog struct{ fakeLog }

func readUntilDone(ctx context.Context) error {
	<-ctx.Done()
	return fault.New(fault.Unavailable, "store_unavailable", "Later.")
}

func (*endlessLog) Each(ctx context.Context, _ audit.Filter, _ func(audit.Entry) error) error {
	return readUntilDone(ctx)
}

// endlessSeals is the same of the seals.
type endlessSeals struct{ seal.Log }

func (endlessSeals) Seals(ctx context.Context, _ string) iter.Seq2[seal.Seal, error] {
	return func(yield func(seal.Seal, error) bool) { yield(seal.Seal{}, readUntilDone(ctx)) }
}

func (endlessSeals) Entries(ctx context.Context, _ string, _, _ time.Time) iter.Seq2[seal.Entry, error] {
	return func(yield func(seal.Entry, error) bool) { yield(seal.Entry{}, readUntilDone(ctx)) }
}

// TestHeldAnswers_EndByThemselves: an answer that reads the whole log goes on for as long as the route declares, so
// that Cloud Run lets it, and then ends.
func TestHeldAnswers_EndByThemselves(t *testing.T) {
	t.Parallel()
	for _, r := range []function.Route{
		auditlog.ExportAll(&endlessLog{}, nil), auditlog.ExportSeals(endlessSeals{}, nil),
		auditlog.Verify(endlessSeals{}, nil),
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			send(t, http.MethodGet, r.Path, []functiontest.Option{functiontest.AsAdmin(enterprise)}, r).Want(t,
				http.StatusServiceUnavailable, "store_unavailable")
			if took := time.Since(began); took != r.Holds || took <= time.Minute {
				t.Errorf("%s ended after %v, want %v, and more than a minute", r.Name, took, r.Holds)
			}
		})
	}
}

// TestExports_HoldASlot: a client that reads slowly takes one of few places.
func TestExports_HoldASlot(t *testing.T) {
	t.Parallel()
	for _, export := range []func(*ratelimit.Slots) function.Route{
		func(s *ratelimit.Slots) function.Route { return auditlog.ExportAll(&endlessLog{}, s) },
		func(s *ratelimit.Slots) function.Route { return auditlog.ExportSeals(endlessSeals{}, s) },
	} {
		synctest.Test(t, func(t *testing.T) {
			slots := ratelimit.NewSlots(ratelimit.SlotLimits{Caller: 1, Organization: 1, Process: 8})
			r, ended := export(slots), make(chan struct{})
			get := func() functiontest.Response {
				return send(t, http.MethodGet, r.Path, []functiontest.Option{functiontest.AsAdmin(enterprise)}, r)
			}
			go func() {
				defer close(ended)
				get()
			}()
			synctest.Wait()
			get().Want(t, http.StatusTooManyRequests, "too_many_followers")
			<-ended
			synctest.Wait()
			if _, ok := slots.Acquire(enterprise, "caller"); !ok {
				t.Errorf("the slot is not free after %s", r.Name)
			}
		})
	}
}
