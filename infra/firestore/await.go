package firestore

import (
	"context"
	"errors"
	"time"

	gcp "cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/document"
	"agents.example/controlplane/shared/identity"
)

// listenTries bounds how often Await listens.
const listenTries = 3

// agentWait is a call of Await. It hands agents on by pointer, because copies of them would be most of the stack of
// each goroutine that waits.
type agentWait struct {
	agents *Agents
	ref    *gcp.DocumentRef
	caller identity.Caller
	until  func(agent.Agent) bool
	// last is the newest agent that until was called with, and updated is when it was written. A listener that follows
	// another one may begin with a state that until has seen.
	last    *agent.Agent
	updated time.Time
}

// Await implements agent.Store. It listens to the document instead of polling it.
func (s *Agents) Await(ctx context.Context, id string, until func(agent.Agent) bool) (*agent.Agent, error) {
	ref, ok := s.client.agent(id)
	if !ok {
		return nil, agent.NotFound()
	}
	document.Forget(ctx)
	w := &agentWait{agents: s, ref: ref, caller: identity.From(ctx), until: until}
	if err := w.run(ctx); err != nil {
		return nil, err
	}
	return w.last, nil
}

// run waits until last is the answer. Where a listener fails, it listens again, on a separate stream, so that a
// document whose target fails the stream ends no wait for another document.
func (w *agentWait) run(ctx context.Context) error {
	for try := 1; ; try++ {
		err := w.listen(ctx, w.agents.client.listeners.watch(w.ref.Path, try > 1))
		var failed *listenError
		switch {
		case !errors.As(err, &failed):
			return err
		case ctx.Err() != nil && w.last != nil:
			return nil
		case ctx.Err() != nil:
			return w.get(context.WithoutCancel(ctx))
		case try == listenTries:
			return faultOf("listen", failed.error)
		}
		_ = pause(ctx, try) // if ctx ends it, the next listener ends immediately
	}
}

func (w *agentWait) get(ctx context.Context) error {
	a, err := w.agents.Get(identity.With(ctx, w.caller), w.ref.ID)
	w.last = &a
	return err
}

// listenError is the error of a listener, not that of the agent it listens to.
type listenError struct{ error }

// listen returns as soon as until is true for the agent. It stops the watch.
func (w *agentWait) listen(ctx context.Context, changes *watch) error {
	defer changes.stop()
	for {
		doc, err := changes.next(ctx)
		if err != nil {
			return &listenError{err}
		}
		if done, err := w.check(doc); err != nil || done {
			return err
		}
	}
}

// check reports whether until is true for the agent of a document, unless it has seen the agent. doc is nil if the
// document does not exist.
func (w *agentWait) check(doc *firestorepb.Document) (done bool, err error) {
	if doc == nil {
		return false, agent.NotFound()
	}
	updated := doc.GetUpdateTime().AsTime()
	if w.last != nil && !updated.After(w.updated) {
		return false, nil
	}
	a, err := agentFrom(w.ref.ID, inDocument(doc), updated)
	if err != nil {
		return false, err
	}
	if a, err = owned(a, w.caller); err != nil {
		return false, err
	}
	w.last, w.updated = &a, updated
	return w.until(a), nil
}
