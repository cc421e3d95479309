package firestore

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/logevent"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/plan"
)

// freeAgents bounds how many organizations on free plans hold an agent, of all organizations of the database. A free
// plan allows one agent, so this is the number of free agents.
//
// The number is counted by a query, so that no document is written by all creations. A process counts again after
// countedFor and adds its own admissions in between. Other processes admit some in this time, too, and a count misses
// what is being committed: the maximum may be exceeded by what is admitted in countedFor. Organizations whose plan ends
// are counted when they are free again, and are never refused that.
type freeAgents struct {
	max int64

	mu      sync.Mutex
	counted int64
	at      time.Time
}

const (
	// countedFor is how long a process believes a count.
	countedFor = 10 * time.Second
	// freeWarning is the share of the maximum from which the log says so, in percent.
	freeWarning = 80
)

// admitFree checks that one more organization on a free plan may hold an agent, if the change makes it one. Errors:
// PaymentRequired, Unavailable.
func (ch *change) admitFree(ctx context.Context, before, after organization.Organization) error {
	f := &ch.client.freeAgents
	if f.max == 0 || ch.free || before.Usage.Agents > 0 || after.Usage.Agents <= 0 {
		return nil
	}
	free, err := plan.Get(after.Plan)
	if err != nil || !free.Free() {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.at.IsZero() || ch.at.Sub(f.at) >= countedFor {
		if f.counted, err = ch.client.countFreeAgents(ctx); err != nil {
			return err
		}
		f.at = ch.at
		if f.counted*100 >= f.max*freeWarning {
			slog.WarnContext(ctx, "agents on free plans are near their maximum", logevent.Key,
				logevent.FreeAgentsNearMaximum, "agents", f.counted, "maximum", f.max)
		}
	}
	if f.counted >= f.max {
		return fault.New(fault.PaymentRequired, "free_agents_exhausted",
			"All agents that the service offers for free are in use. Upgrade the plan, or try again later.").
			WithMeta(map[string]any{
				"limit": "free_agents", "current": f.counted, "max": f.max, "plan": after.Plan,
				"upgrade_to": free.Next(),
			})
	}
	if ch.call.Rehearsal == nil {
		f.counted++
		ch.free = true
	}
	return nil
}

// countFreeAgents counts the organizations on free plans that hold an agent.
func (c *Client) countFreeAgents(ctx context.Context) (sum int64, err error) {
	ctx, cancel := c.withTimeout(ctx)
	defer cancel()
	for _, p := range plan.All() {
		if !p.Free() {
			continue
		}
		holding := c.collection(organizationCollection).Where("plan", "==", string(p.ID)).Where("usage.agents", ">", 0)
		result, err := holding.NewAggregationQuery().WithCount(countAlias).GetResponse(ctx)
		if err != nil {
			return 0, faultOf("count", err)
		}
		n, ok := result.Result[countAlias].(*firestorepb.Value)
		if !ok {
			return 0, fmt.Errorf("count organizations: the answer has %T", result.Result[countAlias])
		}
		sum += n.GetIntegerValue()
	}
	return sum, nil
}

// countAlias names the count in an answer.
const countAlias = "n"
