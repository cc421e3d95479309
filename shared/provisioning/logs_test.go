package provisioning_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agentlog"
	"agents.example/controlplane/shared/provisioning"
)

// keeper records what it is asked to do.
type keeper struct {
	mu    sync.Mutex
	calls []string
	err   error
}

func (k *keeper) add(call string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.calls = append(k.calls, call)
	return k.err
}

// take returns the calls since the last time.
func (k *keeper) take() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	slices.Sort(k.calls)
	all := strings.Join(k.calls, ", ")
	k.calls = nil
	return all
}

func (k *keeper) KeepLogs(_ context.Context, cell, id string, ended []provisioning.EndedContainer) error {
	return k.add("keep " + cell + " " + id + " " + ended[0].Container)
}

func (k *keeper) KeepLastLogs(_ context.Context, a agent.Agent) error { return k.add("look " + a.ID) }

func (k *keeper) DropLog(_ context.Context, cell string, l provisioning.KeptLog) error {
	return k.add("drop " + cell + " " + l.Name)
}

func ended(container string) []provisioning.EndedContainer {
	return []provisioning.EndedContainer{{Ended: agentlog.Ended{Container: container}}}
}

func TestCheckHealth_KeepsTheLogsOfContainersThatEnded(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{"works": nil, "is down": errDown} {
		s, logs := newHealthFixture(), &keeper{err: err}
		crashed := readyPod(own, time.Hour)
		crashed.Ended = ended("c1")
		s.pods["cell-1"] = append(s.pods["cell-1"], crashed)
		c := s.controller()
		c.Logs = logs
		if err := c.CheckHealth(t.Context()); err != nil {
			t.Errorf("keeping %s: error %v, want none: the next run tries again", name, err)
		}
		if got := logs.take(); got != "keep cell-1 "+own+" c1" {
			t.Errorf("keeping %s: calls %q, want those about the container that ended", name, got)
		}
	}
}

func TestCheckDrift_DropsLogsAfterSevenDays(t *testing.T) {
	t.Parallel()
	s, logs := newDriftFixture(), &keeper{}
	s.logs = []provisioning.KeptLog{
		{AgentID: own, Name: "old", EndedAt: checkedAt.Add(-agentlog.KeptFor - time.Second)},
		{AgentID: own, Name: "young", EndedAt: checkedAt.Add(-agentlog.KeptFor)},
	}
	s.failing["objects cell-2"] = true // its snapshot would be the same one
	c := s.checker()
	c.Logs = logs
	_ = c.CheckDrift(t.Context())
	if got := logs.take(); got != "drop cell-1 old" {
		t.Errorf("calls %q, want that the old log is dropped", got)
	}
}

func TestReconcile_KeepsLogsBeforeItStopsAPod(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		before func(*agent.Agent)
		want   bool
	}{
		"never restarted": {before: func(*agent.Agent) {}},
		"restarted before": {
			before: func(a *agent.Agent) { a.See(agent.PodSight{UID: "pod-1", Restarts: 1, Ready: true}) }, want: true,
		},
	} {
		for _, trigger := range []agent.Trigger{agent.Stop, agent.Restart} {
			w, logs := newWorld(t), &keeper{}
			w.settle()
			w.change(row.before)
			w.change(act(trigger))
			r := w.reconciler()
			r.Logs = logs
			must(t, r.Reconcile(t.Context(), w.id))
			if got := logs.take(); got != map[bool]string{true: "look " + w.id}[row.want] {
				t.Errorf("%s, then %s: calls %q, want a look at the pod: %t", name, trigger, got, row.want)
			}
		}
	}
}

func TestReconcile_KeepsTheLogsThatALookSees(t *testing.T) {
	t.Parallel()
	w, logs := newWorld(t), &keeper{err: errDown}
	r := w.reconciler()
	r.Logs = logs
	r.Cluster = &pendingCluster{w.objects(), provisioning.PodFailure{Code: notReady, Ended: ended("c1")}}
	if err := r.Reconcile(t.Context(), w.id); err != nil {
		t.Fatalf("Reconcile = %v, want nil: no state depends on a log", err)
	}
	if got := logs.take(); got != "keep "+w.record().Cell+" "+w.id+" c1" {
		t.Errorf("calls %q, want the log of the container that ended", got)
	}
}
