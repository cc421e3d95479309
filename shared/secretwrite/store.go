package secretwrite

import (
	"context"
	"errors"
	"slices"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/credential"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/secret"
)

// storeAndRecord adds the values of recorded operations, each once, and records the outcomes in one write, so that one
// rollout serves all of them. It continues if the client disconnects.
func (d Service) storeAndRecord(
	ctx context.Context, a agent.Agent, begun []secret.Operation, values map[string][]byte,
) (agent.Agent, []secret.Operation, error) {
	ctx = context.WithoutCancel(ctx)
	outcomes, failure := d.addValues(ctx, begun, values)
	now := d.now()
	after, err := d.Agents.Change(ctx, a.ID, func(a *agent.Agent) error {
		return a.RecordStored(outcomes, now)
	})
	if err != nil {
		return agent.Agent{}, nil, err
	}
	operations := d.currentOperations(after, begun)
	if failure != nil && !slices.ContainsFunc(operations,
		func(o secret.Operation) bool { return o.Stage != secret.Store }) {
		return after, operations, withOperations(failure, operations)
	}
	return after, operations, nil
}

// addValues adds the values. The error is that of the first value that may not have been added.
func (d Service) addValues(
	ctx context.Context, begun []secret.Operation, values map[string][]byte,
) (outcomes []agent.Outcome, failure error) {
	now := d.now()
	until := now.Add(secret.StoringTime)
	var adding []secret.Operation
	for _, o := range begun {
		if o.Stage == secret.Store {
			adding = append(adding, o)
			if o.StoringUntil.Before(until) {
				until = o.StoringUntil
			}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, secret.AddingUntil(until).Sub(now))
	defer cancel()
	outcomes = make([]agent.Outcome, len(adding))
	failure = forEach(len(adding), func(i int) (err error) {
		outcomes[i].OperationID = adding[i].ID
		outcomes[i].Version, err = d.addValue(ctx, adding[i], values[adding[i].Key])
		if err != nil {
			outcomes[i].Version, outcomes[i].Code = 0, code(err)
			outcomes[i].Refused = errors.Is(err, credential.ErrRefused)
		}
		return err
	})
	return outcomes, failure
}

// addValue adds the value of an operation. A rehearsed call adds none: its version is the one that would follow.
func (d Service) addValue(ctx context.Context, o secret.Operation, value []byte) (version int64, err error) {
	switch {
	case call.From(ctx).Rehearsal != nil:
		return o.LatestBefore + 1, nil
	case o.Action == secret.Rotate:
		return d.Secrets.AddCredentials(ctx, o.AgentID, agent.DashboardUsername)
	case o.LatestBefore == 0:
		return d.Secrets.PutFirst(ctx, o.AgentID, o.Key, value)
	default:
		return d.Secrets.Put(ctx, o.AgentID, o.Key, value)
	}
}

// currentOperations returns the present state of operations. One that is no longer in the agent's record was
// superseded.
func (d Service) currentOperations(a agent.Agent, begun []secret.Operation) []secret.Operation {
	now := make([]secret.Operation, len(begun))
	for i, o := range begun {
		if found := a.Operation(o.ID); found != nil {
			o = *found
		} else {
			o.Apply(secret.EventSuperseded, "", d.now())
		}
		now[i] = o
	}
	return now
}

// code is the error code of an operation whose value could not be added.
func code(err error) string {
	switch code := fault.From(err).Code; code {
	case "secret_store_unavailable", "secret_store_denied", "secret_quota_exceeded":
		return code
	case "timeout":
		return "secret_store_unavailable"
	default:
		return "internal_error"
	}
}

// withOperations adds the ids of the operations to the error.
func withOperations(failure error, operations []secret.Operation) error {
	ids := make([]string, len(operations))
	for i, o := range operations {
		ids[i] = o.ID
	}
	return fault.From(failure).WithMeta(map[string]any{"operations": ids})
}
