package secretwrite

import (
	"context"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/ratelimit"
	"agents.example/controlplane/shared/secret"
)

// Budget limits what requests spend of the secret store's quota.
type Budget interface {
	// Charge charges the caller's organization and the whole service for calls that a request is about to make. It
	// charges both or neither. If the answer to the request's Idempotency-Key is kept, it charges nothing and kept is
	// true: the request needs no call. Errors: RateLimited for the organization; Unavailable (secret_quota_exceeded)
	// for the service; Invalid for the Idempotency-Key of a different request.
	Charge(ctx context.Context, c Cost) (kept bool, err error)
}

// Cost is what a request costs.
type Cost struct {
	// Secrets is how many secrets it sets, deletes, rotates or looks up. It counts against the limit of the
	// organization.
	Secrets int
	// Calls is how many calls it makes that count against one quota of the secret store, of writes or of reads. It
	// counts against the limit of the service.
	Calls int
}

// Plus adds two costs.
func (c Cost) Plus(o Cost) Cost {
	return Cost{Secrets: c.Secrets + o.Secrets, Calls: c.Calls + o.Calls}
}

// cost is what an operation costs that is about to begin. A new secret is created before its version is added. A
// deletion only looks up the latest version: the destruction counts against the budget of workers.
func cost(a agent.Agent, o secret.Operation) Cost {
	if o.Action == secret.Set && a.HighestVersion(o.Key) == 0 {
		return Cost{Secrets: 1, Calls: 2}
	}
	return Cost{Secrets: 1, Calls: 1}
}

// CreationCost is what the creation of an agent costs, whose record holds the operations of its secrets.
func CreationCost(a agent.Agent) (total Cost) {
	for _, o := range a.Operations {
		if o.Stage == secret.Store {
			total = total.Plus(cost(agent.Agent{}, o))
		}
	}
	return total
}

// RequestLimit is the limit of all requests together for a secret store that allows a number of writes a minute, and
// as many reads. In every minute it allows less than half of them. The rest is for workers, which the requests of
// clients must not stop. The largest request, which creates an agent with secrets only, fits if the store allows 600.
func RequestLimit(writesPerMinute int) ratelimit.Limit {
	return ratelimit.Limit{Quota: (writesPerMinute - 1) / 3, Window: 2 * time.Minute}
}

// QuotaExceeded is the error of a request beyond the limit of all requests together.
func QuotaExceeded(wait time.Duration) *fault.Error {
	e := fault.New(fault.Unavailable, "secret_quota_exceeded",
		"The service has reached its limit of changes in the secret store. Retry in a few seconds.")
	e.RetryAfter = wait
	return e
}

// charge charges for operations that are about to begin. Without a budget, nothing is charged.
func (d Service) charge(ctx context.Context, c Cost) (kept bool, err error) {
	if d.Budget == nil || c == (Cost{}) {
		return false, nil
	}
	return d.Budget.Charge(ctx, c)
}
