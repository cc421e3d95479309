package provisioning

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/logevent"
)

// OrphanCollector deletes what agents without a record left behind: namespaces, such as one that a worker created after
// its agent was removed, and secrets, such as credentials that were stored after the agent's secrets were destroyed.
//
// A wrong database makes every agent look like an orphan. Therefore:
//   - The listers return only what is labeled with the identity of the collector's own database.
//   - A cell in which no listed agent has a record is left alone. So are secrets if no owner of them has a record.
//   - If there are more orphans than the limit, none is touched.
//   - An orphan is first marked and stopped. It is deleted a day later if it still is an orphan. A record that comes
//     back clears the mark, and the health controller replaces the pod.
//
// The lists only propose orphans. A list may miss new objects and show deleted ones; the record of the agent decides.
type OrphanCollector struct {
	Agents     agent.RecordIndex
	Namespaces NamespaceLister
	Secrets    SecretLister
	// Now is the clock.
	Now func() time.Time
}

const (
	// minOrphanAge protects young objects, whose record may not be visible yet.
	minOrphanAge = time.Hour
	// orphanGrace is how long an orphan stays marked before it is deleted.
	orphanGrace = 24 * time.Hour
	// orphanLimit and orphansPerListed limit the orphans of one run: the limit is 5, or one of 100 if that is more.
	orphanLimit      = 5
	orphansPerListed = 100
)

// Collect marks new orphans, deletes those that have been marked for a day, and clears the marks of agents whose record
// came back. Namespaces, secrets and the sources of volumes are independent: a failure of one does not stop the others.
func (c *OrphanCollector) Collect(ctx context.Context) error {
	errs := []error{c.Namespaces.DeleteSources(ctx)}
	for _, list := range []func(context.Context) ([]belonging, error){c.listNamespaces, c.listSecrets} {
		all, err := list(ctx)
		if err == nil {
			err = c.collect(ctx, all)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// belonging is what one agent has in one place: its namespace on a cluster, or its secrets.
type belonging struct {
	kind, place, agentID string
	createdAt            time.Time
	orphanedSince        time.Time
	mark                 func(ctx context.Context, orphanedSince time.Time) error
	remove               func(ctx context.Context) error
}

func (c *OrphanCollector) listNamespaces(ctx context.Context) ([]belonging, error) {
	listed, err := c.Namespaces.Namespaces(ctx)
	all := make([]belonging, len(listed))
	for i, p := range listed {
		all[i] = belonging{
			kind: "namespace", place: p.Cell, agentID: p.AgentID, createdAt: p.CreatedAt,
			orphanedSince: p.OrphanedSince,
			mark: func(ctx context.Context, since time.Time) error {
				return c.Namespaces.MarkNamespace(ctx, p, since)
			},
			remove: func(ctx context.Context) error { return c.Namespaces.DeleteNamespace(ctx, p) },
		}
	}
	return all, err
}

func (c *OrphanCollector) listSecrets(ctx context.Context) ([]belonging, error) {
	listed, err := c.Secrets.SecretOwners(ctx)
	all := make([]belonging, len(listed))
	for i, o := range listed {
		all[i] = belonging{
			kind: "secrets", place: "secret store", agentID: o.AgentID, createdAt: o.CreatedAt,
			orphanedSince: o.OrphanedSince,
			mark: func(ctx context.Context, since time.Time) error {
				return c.Secrets.MarkSecrets(ctx, o, since)
			},
			remove: func(ctx context.Context) error { return c.Secrets.DeleteSecrets(ctx, o) },
		}
	}
	return all, err
}

// collect treats all belongings of one kind.
func (c *OrphanCollector) collect(ctx context.Context, all []belonging) error {
	ids := make([]string, len(all))
	for i, b := range all {
		ids[i] = b.agentID
	}
	exists, err := c.Agents.Exists(ctx, ids)
	if err != nil {
		return fmt.Errorf("look up the owners of %d belongings: %w", len(all), err)
	}
	var orphans, returned []belonging
	known := map[string]int{}
	for _, b := range all {
		switch {
		case exists[b.agentID]:
			known[b.place]++
			if !b.orphanedSince.IsZero() {
				returned = append(returned, b)
			}
		case c.Now().Sub(b.createdAt) >= minOrphanAge:
			orphans = append(orphans, b)
		}
	}
	var errs []error
	for _, b := range returned {
		errs = append(errs, c.clear(ctx, b))
	}
	if limit := max(orphanLimit, len(all)/orphansPerListed); len(orphans) > limit {
		slog.ErrorContext(ctx, "too many orphans: none was marked or deleted; check the control plane's database",
			logevent.Key, logevent.OrphanLimitExceeded, "kind", orphans[0].kind, "orphans", len(orphans),
			"limit", limit, "listed", len(all))
		return errors.Join(errs...)
	}
	for _, b := range orphans {
		if known[b.place] == 0 {
			slog.ErrorContext(ctx, "orphan left alone: no listed agent of its place has a record; check the control "+
				"plane's database", logevent.Key, logevent.OrphanUnproven, b.attributes())
			continue
		}
		errs = append(errs, c.treat(ctx, b))
	}
	return errors.Join(errs...)
}

// clear removes the mark of an agent whose record came back.
func (c *OrphanCollector) clear(ctx context.Context, b belonging) error {
	if err := b.mark(ctx, time.Time{}); err != nil {
		return fmt.Errorf("clear the orphan mark of the %s of agent %s: %w", b.kind, b.agentID, err)
	}
	slog.WarnContext(ctx, "orphan mark cleared: the agent has a record again", b.attributes())
	return nil
}

// treat deletes an orphan that has been marked for long enough, and marks any other. A mark that exists is written
// again, so that a pod that was started in between is stopped.
func (c *OrphanCollector) treat(ctx context.Context, b belonging) error {
	now, since := c.Now(), b.orphanedSince
	if !since.IsZero() && now.Sub(since) >= orphanGrace {
		if err := b.remove(ctx); err != nil {
			return fmt.Errorf("delete the orphaned %s of agent %s: %w", b.kind, b.agentID, err)
		}
		slog.WarnContext(ctx, "orphan deleted", b.attributes())
		return nil
	}
	if since.IsZero() {
		since = now
	}
	if err := b.mark(ctx, since); err != nil {
		return fmt.Errorf("mark the orphaned %s of agent %s: %w", b.kind, b.agentID, err)
	}
	if b.orphanedSince.IsZero() {
		slog.WarnContext(ctx, "orphan marked and stopped", b.attributes(), "delete_after", since.Add(orphanGrace))
	}
	return nil
}

// attributes are what log lines say about a belonging.
func (b belonging) attributes() slog.Attr {
	return slog.Group("", "kind", b.kind, "place", b.place, "agent_id", b.agentID, "created_at", b.createdAt,
		"orphaned_since", b.orphanedSince)
}
