package provisioning

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/logevent"
	"agents.example/controlplane/shared/secret"
)

// look looks once at an agent whose objects are applied, and ends the work if it is ready. Otherwise the record shows
// that the agent waits. That is no failure: a nudge brings the work back when the pod changes, or else the sweep.
//
// If someone deleted objects after they were applied, waiting does not help, so look applies them again.
func (w *run) look(ctx context.Context, a agent.Agent) (agent.Agent, error) {
	err := w.checkReady(ctx, a)
	if err == nil {
		if err := w.growVolume(ctx, a); err != nil {
			return a, w.failed(ctx, a, agent.StageStorage, err)
		}
		return w.becameReady(ctx, a)
	}
	reason := waitReason(err)
	w.keepSeen(ctx, a, reason)
	f, permanent := describe(a, agent.StageReady, err, w.Now())
	switch {
	case reason == nil, permanent:
		return a, w.failed(ctx, a, agent.StageReady, err)
	case w.begun: // the pod needs a moment, even after the deadline
	case reason.Repairable && w.Now().Sub(a.AppliedAt) >= agent.NudgeGrace && (!a.Expired(w.Now()) || !a.Reapplied()):
		return w.bringUp(ctx, a)
	case a.Expired(w.Now()):
		return a, w.failed(ctx, a, agent.StageReady, err)
	}
	shown := &f
	if !tellsSoon(f.Code) && (a.WaitingSince.IsZero() || w.Now().Sub(a.WaitingSince) < agent.NudgeGrace) {
		shown = nil // most pods need a moment
	}
	last, cancel := w.record(ctx)
	defer cancel()
	return w.progress(last, a, func(a *agent.Agent) { a.AwaitReady(shown, reason.relocationEnds(*a), w.Now()) })
}

// growVolume applies the volume again if that could not grow before: since the pod has a machine, it can.
func (w *run) growVolume(ctx context.Context, a agent.Agent) error {
	seen := a.Clone()
	seen.Learn(w.unrecorded...)
	if !slices.Contains(seen.Unfinished(), agent.StageStorage) {
		return nil
	}
	return w.Cluster.Apply(ctx, a, agent.StageStorage, RuntimeInput{})
}

// becameReady ends the work on an agent that is ready.
func (w *run) becameReady(ctx context.Context, a agent.Agent) (agent.Agent, error) {
	last, cancel := w.record(ctx)
	defer cancel()
	first := a.ObservedGeneration == 0
	a, err := w.progress(last, a, func(a *agent.Agent) {
		a.EndStage(agent.StageReady, agent.StageSucceeded, w.Now())
		a.BecameReady(w.Now())
	})
	if err != nil {
		return a, err
	}
	if first && a.Status == agent.Running {
		slog.InfoContext(ctx, "a new agent runs", logevent.Key, logevent.AgentStarted, "agent_id", a.ID, "cell", a.Cell,
			"seconds", w.Now().Sub(a.CreatedAt).Seconds())
	}
	w.prune(ctx, a)
	return a, nil
}

// prune deletes the configuration objects of former generations. The agent does not depend on that: if it fails, the
// drift check finds the objects and makes a worker apply and prune again.
func (w *run) prune(ctx context.Context, a agent.Agent) {
	if err := w.Cluster.Prune(ctx, a); err != nil {
		slog.WarnContext(ctx, "configuration objects of former generations could not be deleted", "agent_id", a.ID,
			"cell", a.Cell, "error", err)
	}
}

// unanswered is the error of an agent whose pod is Ready and does not answer as it must.
type unanswered struct{ error }

// Unwrap returns the answer.
func (e unanswered) Unwrap() error { return e.error }

// waitReason returns why a worker waits for an agent; nil if the error says nothing about the agent.
func waitReason(err error) *PodFailure {
	var silent unanswered
	if errors.As(err, &silent) {
		return &PodFailure{Code: fault.Code(err), Repairable: true}
	}
	var pod *PodFailure
	_ = errors.As(err, &pod)
	return pod
}

// tellsSoon reports whether a failure is worth showing as soon as it is seen. The other ones are part of an ordinary
// start, or end by themselves.
func tellsSoon(code string) bool {
	return slices.Contains([]string{
		CodeImagePull, "pod_crash_loop", "out_of_memory", "container_start_failed",
		"scratch_full",
	}, code)
}

// checkReady checks that the pod is Ready and the agent answers on its hostname. After a rotation, the agent must also
// accept the new credentials.
func (w *run) checkReady(ctx context.Context, a agent.Agent) (err error) {
	if err := w.Cluster.CheckReady(ctx, a); err != nil {
		return err
	}
	probe, rotates := w.Prober.Probe, a.Rotating() || w.begun && syncsRotation(a)
	if rotates {
		if probe, err = w.proof(ctx, a); err != nil {
			return err
		}
	}
	begun := time.Now()
	for pause := minProbePause; ; pause = min(2*pause, maxProbePause) {
		err := probe(ctx, a)
		if err == nil && rotates {
			w.learn(agent.RotationProved{At: w.Now()})
		}
		if err == nil {
			return nil
		}
		if time.Since(begun) >= probeTime || sleep(ctx, pause) != nil {
			return unanswered{err}
		}
	}
}

// syncsRotation reports whether a run that applies objects brings new credentials, which its next write records.
func syncsRotation(a agent.Agent) bool {
	return slices.ContainsFunc(a.OperationsAt(secret.Sync), func(o secret.Operation) bool {
		return o.Action == secret.Rotate
	})
}

// A router learns of a Ready pod about when its worker does, and reports nothing later. So a run probes an agent whose
// pod is Ready again, for at most this time.
const (
	minProbePause = 25 * time.Millisecond
	maxProbePause = 200 * time.Millisecond
	probeTime     = 4 * time.Second
)
