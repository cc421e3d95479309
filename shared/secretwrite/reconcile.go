package secretwrite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/secret"
)

// Reconcile retries the present stage of an operation. At the store stage it adds nothing: it finds out whether the
// request had added the value. It returns nil if the agent has no open operation with this id. Errors: NotFound for the
// agent, Conflict, BadRequest if the value was not stored, Unavailable.
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
			a, err = d.awaitOtherWriters(ctx, agentID, nil)
			if err != nil {
				return nil, err
			}
		case err != nil:
			return nil, err
		default:
			return &d.currentOperations(after, []secret.Operation{*o})[0], nil
		}
	}
	return nil, agent.ErrOperationInProgress()
}

// retry makes the change that reconciles an operation.
func (d Service) retry(ctx context.Context, a agent.Agent, o secret.Operation) (func(*agent.Agent) error, error) {
	now := d.now()
	switch {
	case o.Storing(now):
		return nil, agent.ErrOperationInProgress()
	case o.Stage != secret.Store || a.Status == agent.Deleting:
		return func(a *agent.Agent) error { return a.RetryOperation(o.ID, now) }, nil
	}
	added, err := d.Secrets.VersionsAfter(ctx, a.ID, o.Key, o.LatestBefore)
	if err != nil {
		return nil, err
	}
	if len(added) != 1 {
		return nil, fault.New(fault.BadRequest, "secret_value_unavailable",
			"The value did not reach the secret store. "+
				"Set it again with PUT secrets, or rotate the credentials again.")
	}
	return func(present *agent.Agent) error {
		if present.SecretsRevision != a.SecretsRevision {
			return agent.ErrSecretsChanged
		}
		return present.RecordStored([]agent.Outcome{{OperationID: o.ID, Version: added[0]}}, now)
	}, nil
}

// forEach calls f for the numbers below n, with bounded concurrency, and returns the error of the lowest number that
// failed.
func (d Service) forEach(n int, f func(i int) error) error {
	errs := make([]error, n)
	if d.Concurrency == 1 {
		for i := range n {
			errs[i] = f(i)
		}
		return first(errs)
	}
	var all sync.WaitGroup
	free := make(chan struct{}, cmp.Or(d.Concurrency, defaultConcurrency))
	for i := range n {
		free <- struct{}{}
		all.Go(func() {
			defer func() {
				// An uncaught panic would end the process. Its value is not reported: it may hold a secret.
				if p := recover(); p != nil {
					errs[i] = fmt.Errorf("panic of type %T\n%s", p, debug.Stack())
				}
				<-free
			}()
			errs[i] = f(i)
		})
	}
	all.Wait()
	return first(errs)
}

func first(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
