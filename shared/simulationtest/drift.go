package simulationtest

import (
	"context"
	"maps"
	"slices"
	"strings"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/provisioning"
)

var _ provisioning.ObjectLister = PodClient{}

// snapshot implements provisioning.Snapshot: copies of the objects of all agents, each kind as it was when it was
// listed.
type snapshot struct {
	cluster    *Cluster
	namespaces map[string]*namespace
	leftovers  bool
}

// Objects implements provisioning.ObjectLister: one call for each kind of object.
func (c PodClient) Objects(ctx context.Context, in string) (provisioning.Snapshot, error) {
	c = PodClient(ClusterClient(c).in(in))
	s := snapshot{cluster: c.Cluster, namespaces: map[string]*namespace{}, leftovers: !c.Cluster.Rules.KeepLeftovers}
	for _, kind := range []struct {
		name string
		copy func(to, from *namespace)
	}{
		{"namespaces", func(to, _ *namespace) { to.uid = "seen" }},
		{"volumes", func(to, from *namespace) { to.claims = from.claims }},
		{"policies and routes", func(to, from *namespace) {
			to.stages, to.room, to.starter, to.way = maps.Clone(from.stages), from.room, from.starter, from.way
		}},
		{"config maps", func(to, from *namespace) { to.configs = maps.Clone(from.configs) }},
		{"stateful sets", func(to, from *namespace) {
			if from.set != nil {
				set := *from.set
				to.set = &set
			}
		}},
	} {
		err := ClusterClient(c).look(ctx, agent.Agent{Cell: in}, "list "+kind.name, func() error {
			for _, id := range c.Cluster.ids() {
				n := c.Cluster.namespaces[id]
				if n.terminating {
					continue
				}
				if s.namespaces[id] == nil {
					s.namespaces[id] = &namespace{}
				}
				kind.copy(s.namespaces[id], n)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return s, nil
}

// KeptLogs implements provisioning.Snapshot. The simulation has no logs.
func (snapshot) KeptLogs() []provisioning.KeptLog { return nil }

// Differences implements provisioning.Snapshot.
func (s snapshot) Differences(a agent.Agent) (found []provisioning.Difference) {
	add := func(object string, p provisioning.Problem) {
		found = append(found, provisioning.Difference{Object: object, Problem: p})
	}
	n := s.namespaces[a.ID]
	if n == nil {
		n = &namespace{}
	}
	_, configName := s.cluster.names(Hash(a))
	changed := n.set != nil && !n.set.matches(a, s.cluster.templateOf(a))
	route := n.starter != starterOf(a) || n.way.policy != policyOf(&a)
	if n.stages[agent.StageRoute] && route && !s.cluster.Rules.OverlookRoute {
		add("service", provisioning.Changed)
	}
	if !a.WantsPod() {
		if changed {
			add("stateful set", provisioning.Changed)
		}
		return found
	}
	if n.uid == "" || n.present() == nil {
		add("namespace or volume", provisioning.Lost)
	}
	for _, stage := range []agent.StageName{agent.StagePolicy, agent.StageIdentity, agent.StageRoute} {
		if !n.stages[stage] {
			add(string(stage), provisioning.Missing)
		}
	}
	if n.stages[agent.StagePolicy] && n.room != a.Plan {
		add("quota", provisioning.Changed)
	}
	if n.stages[agent.StagePolicy] && n.way.restricted != a.Egress.Restricted() {
		add("network policy", provisioning.Changed)
	}
	if _, ok := n.configs[configName]; !ok {
		add(configName, provisioning.Missing)
	}
	switch {
	case n.set == nil:
		add("stateful set", provisioning.Missing)
	case changed:
		add("stateful set", provisioning.Changed)
	}
	for _, name := range slices.Sorted(maps.Keys(n.configs)) {
		if s.leftovers && isFormer(n, name, a) {
			add(name, provisioning.Leftover)
		}
	}
	return found
}

// matches reports whether a workload is as the agent's record demands.
func (s *statefulSet) matches(a agent.Agent, t template) bool {
	replicas := 0
	if a.WantsPod() {
		replicas = 1
	}
	return s.generation == a.Generation && s.replicas == replicas && s.template == t
}

// isFormer reports whether an object is the ConfigMap of a former generation of an agent. The control plane may not
// list Secrets, so a Secret without its ConfigMap is not found.
func isFormer(n *namespace, name string, a agent.Agent) bool {
	return strings.HasPrefix(name, configPrefix) && name != configPrefix+Hash(a) &&
		n.configs[name].generation < a.Generation
}

// checkDrift starts the check of the objects of all agents.
func (w *World) checkDrift() {
	if w.Plant.NoDriftCheck {
		return
	}
	w.start("drift", func(ctx context.Context, p *Process) error {
		return (&provisioning.DriftChecker{
			Records: w.records("drift", p), Objects: PodClient(w.clusterClient(p)),
			Nudger: w.publisher(p), Now: p.Now,
		}).CheckDrift(ctx)
	})
}

// handiwork lists the objects that a person can delete or change by hand: those of an agent that runs.
func (w *World) handiwork(actions []Action) []Action {
	id := agentID(1)
	a, _ := w.Database.Agent(id)
	n := w.home(id).namespaces[id]
	if n == nil || n.set == nil || n.terminating || a.Status != agent.Running || !a.Converged() {
		return actions
	}
	add := func(object string, harm func()) {
		actions = append(actions, Action{"a person deletes the " + object, short(id), func() {
			w.setup.DeletedObjects--
			harm()
			w.Cluster.notify()
		}})
	}
	for _, stage := range []agent.StageName{agent.StagePolicy, agent.StageIdentity, agent.StageRoute} {
		if n.stages[stage] {
			add(string(stage), func() { delete(n.stages, stage) })
		}
	}
	if _, ok := n.configs[n.set.template.configMap]; ok {
		add("config map", func() { delete(n.configs, n.set.template.configMap) })
	}
	add("stateful set", func() { n.set, n.pod = nil, nil })
	add("replica", func() { n.set.replicas = 0 })
	return actions
}

// checkDriftAtRest checks that the objects of a running agent are those of its record, and that none of former
// generations is left.
func (w *World) checkDriftAtRest(a agent.Agent) {
	n := w.home(a.ID).namespaces[a.ID]
	if a.Status != agent.Running || n == nil || n.set == nil || n.present() == nil {
		return // checked with the other objects, or left to a person because of the loss
	}
	if _, ok := n.configs[n.set.template.configMap]; !ok {
		w.violate("objects", "agent %s runs without its config map", short(a.ID))
	}
	for _, name := range slices.Sorted(maps.Keys(n.configs)) {
		if !w.Cluster.Rules.FixedNames && isFormer(n, name, a) {
			w.violate("leftovers", "agent %s has generation %d, and the object %q of generation %d is left",
				short(a.ID), a.Generation, name, n.configs[name].generation)
		}
	}
}
