package containers

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agentexec"
	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/document"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/logevent"
)

const (
	// MaxExport bounds an export. Cloud Run ends a request after an hour.
	MaxExport = 55 * time.Minute
	// readerWait is how long a call waits for the copy of a snapshot, and readerPause how often it looks.
	readerWait  = 45 * time.Second
	readerPause = time.Second
	// readerRenewal is how often a call asks for more time.
	readerRenewal = 30 * time.Second
	// retryExport is when a client should try again whose copy was not ready in time.
	retryExport = 10 * time.Second
	// maxShare is how many times the size of its volume an archive may have. Holes of sparse files are sent as zeros,
	// so that the files of a small volume may have terabytes. The rest is for the headers of many small files.
	maxShare = 2
	// releaseTime bounds the last writes of a call.
	releaseTime = 5 * time.Second
)

type exportInput struct {
	Path struct {
		AgentID    function.UUID    `json:"agent_id" jsonschema:"The agent's id."`
		SnapshotID agent.SnapshotID `json:"snapshot_id"`
	} `json:"path"`
}

// Export sends an archive of a snapshot. It reads a copy of the snapshot in a separate pod, so the agent may run,
// sleep or be stopped. Package archive describes the archive.
func Export(s Service) function.Route {
	return function.Route{
		Name: "ExportSnapshot", Method: http.MethodGet,
		Path: "/api/v1/agents/{agent_id}/snapshots/{snapshot_id}/export", Summary: "Export a snapshot as an archive",
		Role: function.RoleExec, Access: function.Admin,
		Needs:  []function.Need{function.Firestore, function.Publish, function.PodExec},
		Reads:  func(path func(string) string) document.Ref { return agent.Document(path("agent_id")) },
		Status: http.StatusOK, Holds: MaxExport, Audited: true,
		// Conflict: the snapshot is not ready, or another export runs. RateLimited: of slots, or of a day.
		Errors: []fault.Kind{fault.Conflict, fault.RateLimited},
		Handle: function.Handle(func(ctx context.Context, in exportInput) (exported, error) {
			e, err := s.beginExport(ctx, string(in.Path.AgentID), string(in.Path.SnapshotID))
			return exported{e}, err
		}),
	}
}

// export is one that gets a reader once it is sent.
type export struct {
	Service
	ctx      context.Context //nolint:containedctx // of the request
	agent    agent.Agent
	snapshot agent.Snapshot
	holder   string
}

// beginExport admits an export. Only what sends the archive asks for the reader: nothing would release the one of a
// request that wants no body.
func (s Service) beginExport(ctx context.Context, agentID, snapshotID string) (*export, error) {
	a, err := s.Agents.Get(ctx, agentID)
	if err != nil {
		return nil, err
	}
	e := &export{Service: s, ctx: ctx, agent: a, holder: uuid.NewString()}
	if e.snapshot, err = a.Snapshot(snapshotID); err != nil {
		return nil, err
	}
	if err := s.takeSlot(ctx); err != nil {
		return nil, err
	}
	entry := call.From(ctx).Entry
	entry.SetTarget(audit.Target{Type: "agent", ID: a.ID, Name: a.Name})
	entry.AddFact("snapshot_id", snapshotID)
	return e, call.From(ctx).BeginEntry(ctx, s.Audit)
}

// takeReader asks for the reader, counts the export and nudges a worker that makes the reader. The sweep makes up for a
// lost nudge.
func (e *export) takeReader(ctx context.Context) error {
	held, err := e.Exports.AdmitExport(ctx, e.agent, e.snapshot.ID, e.holder)
	if err != nil {
		return err
	}
	if held.Reader.Number != e.agent.Reader.Number {
		if err := e.Nudger.Nudge(ctx, held.ID); err != nil {
			slog.WarnContext(ctx, "nudge not published; the sweep will repeat it", logevent.Key,
				logevent.NudgeNotPublished, "agent_id", held.ID, "error", err)
		}
	}
	e.agent = held
	return nil
}

// keepReader asks for more time.
func (e *export) keepReader(ctx context.Context, a agent.Agent) (agent.Agent, error) {
	now, id := time.Now().UTC(), e.snapshot.ID
	var refusal error
	latest, err := e.update(ctx, a, func(a *agent.Agent) { refusal = a.HoldReader(id, e.holder, now) })
	return latest, errors.Join(err, refusal)
}

// update changes the present record, whatever its generation.
func (e *export) update(ctx context.Context, a agent.Agent, change func(*agent.Agent)) (agent.Agent, error) {
	for {
		latest, err := e.Records.Update(ctx, a, change)
		if !errors.Is(err, agent.ErrSuperseded) {
			return latest, err
		}
		a = latest
	}
}

// release ends what the call asked for, even if its client has gone.
func (e *export) release(sent int64, complete bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(e.ctx), releaseTime)
	defer cancel()
	now := time.Now().UTC()
	_, err := e.update(ctx, e.agent, func(a *agent.Agent) { a.ReleaseReader(e.holder, sent, complete, now) })
	if err == nil && complete {
		err = e.Nudger.Nudge(ctx, e.agent.ID)
	}
	if err != nil { // its time ends
		slog.WarnContext(ctx, "the reader of an export could not be released", "agent_id", e.agent.ID, "error", err)
	}
}

// exported is the answer with an archive.
type exported struct{ *export }

// Reply implements function.Reply.
func (e exported) Reply(http.Header) any {
	return function.Formats{{ContentType: tarType, Stream: func(w io.Writer) error { return e.send(w) }}}
}

// send sends the archive. An error after its first bytes breaks the connection; and a complete archive says so at its
// end.
func (e *export) send(w io.Writer) error {
	size, err := e.agent.VolumeBytes(e.snapshot)
	if err != nil {
		return err
	}
	if err := e.takeReader(e.ctx); err != nil {
		return err
	}
	complete, counted := false, &bounded{counter{to: w}, maxShare * size}
	defer func() { e.release(counted.bytes, complete) }() // also after a panic
	ctx, end := context.WithCancelCause(e.ctx)
	ctx, cancel := context.WithTimeout(ctx, MaxExport)
	var renewal sync.WaitGroup
	defer func() { // before the release, after which nothing may renew
		cancel()
		end(nil)
		renewal.Wait()
	}()
	renewal.Go(func() { e.renew(ctx, end) })
	began := time.Now()
	err = e.copy(ctx, counted)
	complete = err == nil
	entry := call.From(e.ctx).Entry
	entry.AddFact("output_bytes", number(counted.bytes))
	entry.AddFact("duration_ms", strconv.FormatInt(milliseconds(began), 10))
	return explain(err, e.agent)
}

// bounded is a counter of at most so many bytes.
type bounded struct {
	counter

	most int64
}

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	if b.bytes+int64(len(p)) > b.most {
		return 0, fault.New(fault.Conflict, "archive_too_large",
			"The files of the snapshot have more than %d times the size of its volume, because some have holes.",
			maxShare)
	}
	return b.counter.Write(p)
}

// renew keeps the reader until ctx ends, and ends the export if the agent, or its reader, is taken away.
func (e *export) renew(ctx context.Context, end context.CancelCauseFunc) {
	tick := time.NewTicker(readerRenewal)
	defer tick.Stop()
	a := e.agent
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			latest, err := e.keepReader(ctx, a)
			if fault.Is(err, fault.Conflict) || fault.Is(err, fault.NotFound) {
				end(err)
				return
			}
			if err == nil { // an outage ends no export
				a = latest
			}
		}
	}
}

// copy runs the program that writes the archive, once the reader runs.
func (e *export) copy(ctx context.Context, w *bounded) error {
	manifest, err := describeExport(e.agent, e.snapshot, time.Now().UTC())
	if err != nil {
		return err
	}
	pause := time.NewTicker(readerPause)
	defer pause.Stop()
	for deadline := time.Now().Add(readerWait); ; {
		code, err := agentexec.Run(ctx, e.Commands, e.agent, agentexec.Task{
			Args: []string{dataplane.FrontCommand, dataplane.ExportArg}, Input: bytes.NewReader(manifest), Output: w,
			Reader: true,
		})
		switch {
		case err == nil && code == 0:
			return nil
		case err == nil:
			return fault.New(fault.Unavailable, "export_failed",
				"The snapshot could not be read to its end. Retry, or export another snapshot.")
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case w.bytes > 0 || !notReady(err):
			return err
		case time.Now().After(deadline):
			refusal := fault.New(fault.Unavailable, "snapshot_copy_not_ready",
				"The copy of the snapshot is not ready yet: a large volume takes minutes. Retry in some seconds.")
			refusal.RetryAfter = retryExport
			return refusal.WithCause(err)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-pause.C:
		}
	}
}

// notReady reports whether a command may run later in a pod that is new.
func notReady(err error) bool {
	return fault.Code(err) == agentexec.CodeNotRunning || fault.Is(err, fault.Unavailable)
}
