package secretwrite

import (
	"context"
	"errors"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/idempotency"
	"agents.example/controlplane/shared/secret"
)

// replay answers a repeat. answered is the agent of the first request's answer. If the first request ended before it
// had stored its values, the repeat stores them: it brings the same ones. With an error, the agent is zero unless the
// repeat tried and recorded that. Errors: Conflict while a request stores them; those of Put.
func (d Service) replay(ctx context.Context, answered agent.Agent, batch string, values map[string][]byte) (agent.Agent,
	[]secret.Operation, error,
) {
	operations := inBatch(answered, batch)
	if len(atStore(operations)) == 0 {
		return answered, operations, nil
	}
	if call.From(ctx).Attempt.Replaying() {
		return agent.Agent{}, nil, idempotency.InProgress() // the kept answer is not the last one
	}
	a, err := d.reload(ctx, answered.ID)
	switch {
	case fault.Is(err, fault.NotFound):
		return answered, operations, nil
	case err != nil:
		return a, nil, err
	}
	left := atStore(inBatch(a, batch))
	if len(left) == 0 || a.Status == agent.Deleting {
		return d.rereadAnswer(ctx, answered, batch)
	}
	for _, o := range left {
		if o.Storing(d.now()) {
			return agent.Agent{}, nil, idempotency.InProgress()
		}
	}
	var total Cost
	for _, o := range left {
		total = total.Plus(cost(a, o))
	}
	if _, err := d.charge(ctx, total); err != nil {
		return agent.Agent{}, nil, err
	}
	call.From(ctx).Attempt.Resume()
	return d.resume(ctx, a, batch, values)
}

// rereadAnswer returns the kept answer as it is now: the first request may have amended it since it was read, and every
// repeat must get what that request got.
func (d Service) rereadAnswer(ctx context.Context, answered agent.Agent, batch string) (agent.Agent, []secret.Operation,
	error,
) {
	call.From(ctx).Attempt.BeginReplaying()
	if kept, err := d.Agents.Get(ctx, answered.ID); err == nil {
		answered = kept
	}
	return answered, inBatch(answered, batch), nil
}

// resume finishes the operations of a batch whose request ended: it adopts the versions that the request had added, and
// adds the other values.
func (d Service) resume(ctx context.Context, a agent.Agent, batch string, values map[string][]byte) (agent.Agent,
	[]secret.Operation, error,
) {
	for range maxTries {
		revision, outcomes, missing := a.SecretsRevision, []agent.Outcome(nil), []string(nil)
		for _, o := range atStore(inBatch(a, batch)) {
			version, err := d.findAdded(ctx, a, o)
			switch {
			case err == nil:
				outcomes = append(outcomes, agent.Outcome{OperationID: o.ID, Version: version})
			case fault.Is(err, fault.BadRequest):
				missing = append(missing, o.ID)
			default:
				return agent.Agent{}, nil, err
			}
		}
		now := d.now()
		var resumed []secret.Operation
		after, err := d.Agents.Change(ctx, a.ID, func(a *agent.Agent) (err error) {
			if resumed, err = a.ResumeStoring(revision, missing, now); err != nil {
				return err
			}
			return a.RecordStored(outcomes, now)
		})
		switch {
		case errors.Is(err, agent.ErrStoring):
			return agent.Agent{}, nil, idempotency.InProgress()
		case errors.Is(err, agent.ErrSecretsChanged):
			if a, err = d.reload(ctx, a.ID); err != nil {
				return a, nil, err
			}
		case err != nil:
			return agent.Agent{}, nil, err
		case len(resumed) == 0:
			return after, inBatch(after, batch), nil
		default:
			after, _, err = d.storeAndRecord(ctx, after, resumed, values)
			return after, inBatch(after, batch), err
		}
	}
	return agent.Agent{}, nil, a.OperationInProgress()
}

// inBatch returns the agent's operations of a request.
func inBatch(a agent.Agent, batch string) []secret.Operation {
	var found []secret.Operation
	for _, o := range a.Operations {
		if o.Batch == batch {
			found = append(found, o)
		}
	}
	return found
}

// atStore returns the operations whose values may not be stored.
func atStore(operations []secret.Operation) []secret.Operation {
	var found []secret.Operation
	for _, o := range operations {
		if o.Open() && o.Stage == secret.Store {
			found = append(found, o)
		}
	}
	return found
}
