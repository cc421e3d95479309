package secretwrite

import (
	"cmp"
	"context"
	"errors"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/parallel"
	"agents.example/controlplane/shared/secret"
)

// Reconcile retries the present stage of an operation. At the store stage it adds nothing: it finds out whether the
// request had added the value. It returns nil if the agent has no open operation with this id. Errors: NotFound for the
// agent, Conflict, BadRequest if the value was not stored, RateLimited, Unavailable.
func (d Service) Reconcile(ctx context.Context, agentID, operationID string) (*secret.Operation, error) {
	a, err := d.Agents.Get(ctx, agentID)
	for range maxTries {
		if err != nil {
			return nil, err
		}
		o := a.Operation(operationID)
		if o == nil {
			return nil, nil
		}
		change, err := d.retry(ctx, a, *o)
		if err != nil {
			return nil, err
		}
		after, err := d.Agents.Change(ctx, agentID, change)
		switch {
		case errors.Is(err, agent.ErrSecretsChanged):
			if a, err = d.reload(ctx, agentID); err != nil {
				return nil, err
			}
		case err != nil:
			return nil, err
		default:
			return &d.currentOperations(after, []secret.Operation{*o})[0], nil
		}
	}
	return nil, a.OperationInProgress()
}

// retry makes the change that reconciles an operation.
func (d Service) retry(ctx context.Context, a agent.Agent, o secret.Operation) (func(*agent.Agent) error, error) {
	now := d.now()
	switch {
	case o.Storing(now):
		return nil, a.OperationInProgress()
	case o.Stage != secret.Store || a.Status == agent.Deleting:
		return func(a *agent.Agent) error { return a.RetryOperation(o.ID, now) }, nil
	}
	switch kept, err := d.charge(ctx, Cost{Secrets: 1, Calls: 1}); {
	case err != nil:
		return nil, err
	case kept: // the store replays the answer without running the change
		return func(*agent.Agent) error { return agent.ErrSecretsChanged }, nil
	}
	added, err := d.findAdded(ctx, a, o)
	if err != nil {
		return nil, err
	}
	return func(present *agent.Agent) error {
		if present.SecretsRevision != a.SecretsRevision {
			return agent.ErrSecretsChanged
		}
		return present.RecordStored([]agent.Outcome{{OperationID: o.ID, Version: added}}, now)
	}, nil
}

// findAdded returns the version that an operation's request added. Any version up to the highest that the record knows
// belongs to another operation, and so does any version that is older than this operation. The numbers after that are
// looked up one by one, because a list may be hours old. Errors: BadRequest unless there is exactly one such version;
// Unavailable.
func (d Service) findAdded(ctx context.Context, a agent.Agent, o secret.Operation) (int64, error) {
	var added []int64
	for version := a.HighestVersion(o.Key) + 1; ; version++ {
		created, found, err := d.Secrets.VersionCreated(ctx, a.ID, o.Key, version)
		switch {
		case err != nil:
			return 0, err
		case found && !created.Before(o.CreatedAt):
			added = append(added, version)
		case !found && len(added) == 1:
			return added[0], nil
		case !found:
			return 0, fault.New(fault.BadRequest, "secret_value_unavailable",
				"The value did not reach the secret store. "+
					"Set it again with PUT secrets, or rotate the credentials again.")
		}
	}
}

// concurrency bounds the concurrent calls of the secret store per request: all requests of a project share its quota.
const concurrency = 4

// forEach calls f for the numbers below n, with bounded concurrency, and returns the error of the lowest number that
// failed.
func forEach(n int, f func(i int) error) error {
	numbers := make([]int, n)
	for i := range numbers {
		numbers[i] = i
	}
	return cmp.Or(parallel.ForEach(numbers, concurrency, f)...)
}
