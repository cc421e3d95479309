package simulationtest

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/provisioning"
	"agents.example/controlplane/shared/secret"
)

// Namespaces implements provisioning.NamespaceLister.
func (c PodClient) Namespaces(ctx context.Context) (all []provisioning.Placement, err error) {
	err = ClusterClient(c).look(ctx, agent.Agent{Cell: cell}, "list namespaces", func() error {
		all = c.Cluster.placements(all)
		if c.Other != nil {
			all = c.Other.placements(all)
		}
		return nil
	})
	return all, err
}

func (c *Cluster) placements(all []provisioning.Placement) []provisioning.Placement {
	for _, id := range c.ids() {
		if n := c.namespaces[id]; !n.terminating {
			all = append(all, provisioning.Placement{
				Cell: c.name, AgentID: id, UID: n.uid, CreatedAt: n.createdAt, OrphanedSince: n.orphanedSince,
			})
		}
	}
	return all
}

// MarkNamespace implements provisioning.NamespaceLister.
func (c PodClient) MarkNamespace(ctx context.Context, p provisioning.Placement, since time.Time) error {
	c = PodClient(ClusterClient(c).in(p.Cell))
	return ClusterClient(c).call(ctx, agent.Agent{Cell: p.Cell}, "mark orphan", func() error {
		n := c.Cluster.namespaces[p.AgentID]
		if n == nil || n.uid != p.UID {
			return nil
		}
		n.orphanedSince = since
		if n.set != nil && !since.IsZero() {
			n.set.replicas = 0
			c.Cluster.notify()
		}
		return nil
	})
}

// DeleteSources implements provisioning.NamespaceLister. The model's sources go with their namespaces.
func (c PodClient) DeleteSources(context.Context) error { return nil }

// DeleteNamespace implements provisioning.NamespaceLister.
func (c PodClient) DeleteNamespace(ctx context.Context, p provisioning.Placement) error {
	c = PodClient(ClusterClient(c).in(p.Cell))
	return ClusterClient(c).call(ctx, agent.Agent{Cell: p.Cell}, "delete orphan", func() error {
		c.Cluster.deleteNamespace(p.AgentID, p.UID, c.Name)
		return nil
	})
}

var _ provisioning.SecretLister = SecretClient{}

// SecretOwners implements provisioning.SecretLister.
func (c SecretClient) SecretOwners(ctx context.Context) (owners []provisioning.SecretOwner, err error) {
	err = c.look(ctx, "list owners", func() error {
		if c.Store.Rules.HideOwners {
			return nil
		}
		found := map[string]provisioning.SecretOwner{}
		for _, ref := range slices.Sorted(maps.Keys(c.Store.secrets)) {
			each := c.Store.secrets[ref]
			o, known := found[each.agentID]
			if !known {
				o = provisioning.SecretOwner{AgentID: each.agentID, OrphanedSince: each.orphanedSince}
			}
			if each.createdAt.After(o.CreatedAt) {
				o.CreatedAt = each.createdAt
			}
			switch {
			case each.orphanedSince.IsZero():
				o.OrphanedSince = time.Time{}
			case known && !o.OrphanedSince.IsZero() && each.orphanedSince.After(o.OrphanedSince):
				o.OrphanedSince = each.orphanedSince
			}
			o.Secrets = append(o.Secrets, provisioning.ListedSecret{
				Name: each.key, Version: each.revision(), OrphanedSince: each.orphanedSince,
			})
			found[each.agentID] = o
		}
		for _, id := range slices.Sorted(maps.Keys(found)) {
			owners = append(owners, found[id])
		}
		return nil
	})
	return owners, err
}

// revision is the revision of a secret's labels.
func (s *storedSecret) revision() string { return strconv.FormatInt(s.orphanedSince.UnixNano(), 36) }

// MarkSecrets implements provisioning.SecretLister.
func (c SecretClient) MarkSecrets(ctx context.Context, o provisioning.SecretOwner, since time.Time) error {
	return c.forEachListed(ctx, "mark orphan", o, func(ref string) { c.Store.secrets[ref].orphanedSince = since })
}

// DeleteSecrets implements provisioning.SecretLister.
func (c SecretClient) DeleteSecrets(ctx context.Context, o provisioning.SecretOwner) error {
	return c.forEachListed(ctx, "delete orphan", o, func(ref string) { c.Store.remove(ref) })
}

// forEachListed does something to the listed secrets that have not changed, one call each.
func (c SecretClient) forEachListed(ctx context.Context, name string, o provisioning.SecretOwner,
	do func(ref string),
) error {
	for _, each := range o.Secrets {
		if err := c.call(ctx, name, func() error {
			ref := secret.Ref(o.AgentID, each.Name)
			if found := c.Store.secrets[ref]; found != nil && found.revision() == each.Version {
				do(ref)
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// remove deletes a secret with all its versions.
func (s *SecretStore) remove(ref string) {
	if found := s.secrets[ref]; found != nil {
		s.removed = append(s.removed, found.agentID)
	}
	s.changes++
	delete(s.secrets, ref)
}

// Exists implements agent.RecordIndex.
func (s WorkerStore) Exists(ctx context.Context, ids []string) (exists map[string]bool, err error) {
	exists = map[string]bool{}
	err = s.Process.Look(ctx, DatabaseService, "look up agents", func() error {
		for _, id := range ids {
			if _, ok := s.Database.agents[id]; ok {
				exists[id] = true
			}
		}
		return nil
	})
	return exists, read(err)
}

// orphans reports whether something belongs to an agent without a record.
func (w *World) orphans() bool {
	for _, c := range w.cells() {
		for id, n := range c.namespaces {
			if _, ok := w.Database.agents[id]; !ok && !n.terminating {
				return true
			}
		}
	}
	for _, found := range w.Secrets.secrets {
		if _, ok := w.Database.agents[found.agentID]; !ok {
			return true
		}
	}
	return false
}

// collect starts the collector of orphans.
func (w *World) collect() {
	w.start("collector", func(ctx context.Context, p *Process) error {
		if w.Plant.Collect != nil {
			return w.Plant.Collect(ctx, w, p)
		}
		return (&provisioning.OrphanCollector{
			Agents: w.index(p), Namespaces: PodClient(w.clusterClient(p)), Secrets: w.secretClient(p), Now: p.Now,
		}).Collect(ctx)
	})
}

// index is the collector's view of the records.
func (w *World) index(p Stepper) agent.RecordIndex {
	if w.setup.WrongDatabase {
		return WorkerStore{Database: NewDatabase(), Process: p}
	}
	return WorkerStore{Database: w.Database, Process: p}
}
