package simulationtest

import (
	"slices"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/egress"
	"agents.example/controlplane/shared/secret"
)

// wayOut is what an agent may reach, by the objects of its namespace.
type wayOut struct {
	// restricted: the network policy leads to the gate only.
	restricted bool
	// policy is the annotation of the route; empty for an agent without a gate.
	policy string
	// policied and routed are the generations of the two objects; 0 before the agent was restricted once.
	policied, routed int64
}

// policyOf is the policy of an agent as its route must have it.
func policyOf(a *agent.Agent) string {
	p, ok := a.EgressPolicy()
	if !ok {
		return ""
	}
	return p.Encode()
}

// put writes the object of a stage. The API server refuses an object of an older generation, or of none.
func (o *wayOut) put(a agent.Agent, stage agent.StageName, fenced bool) error {
	generation := &o.policied
	if stage == agent.StageRoute {
		generation = &o.routed
	}
	applied := int64(0)
	if a.Egress.Mode != "" {
		applied = a.Generation
	}
	if applied < *generation && fenced {
		return stale(*generation)
	}
	*generation = applied
	if stage == agent.StageRoute {
		o.policy = policyOf(&a)
	} else {
		o.restricted = a.Egress.Restricted()
	}
	return nil
}

// arrangeEgress chooses a schedule in which clients change what the agent may reach, and its brokered secrets.
func arrangeEgress(s *Scheduler, u *Setup) {
	*u = Setup{
		Start: []agent.Status{agent.Running, agent.Running, agent.Stopped}[s.Choose(3)], Workers: 1 + s.Choose(3),
		Steps: 60 + s.Choose(150), Faults: s.Choose(4), Stalls: s.Choose(3), Duplicates: s.Choose(3),
		Ticks: s.Choose(4), Restarts: s.Choose(2), Lags: s.Choose(2), Skew: []time.Duration{0, maxSkew}[s.Choose(2)],
	}
	actions := []string{
		"restrict", "open", "allow", "allow", "deny", "broker", "broker", "broker elsewhere", "unbroker", "put",
		"remove", "patch", "restart", "stop", "start", "pause", "resume", "migrate", "reconcile", "delete",
	}
	for range 1 + s.Choose(2) {
		script := []string{"restrict"}
		for range 1 + s.Choose(4) {
			script = append(script, actions[s.Choose(len(actions))])
		}
		u.Scripts = append(u.Scripts, script)
	}
	if s.Choose(8) == 0 {
		u.Outage = Service(s.Choose(4)) //nolint:gosec // below the number of services
		u.OutageTime = []time.Duration{2 * time.Minute, 12 * time.Minute}[s.Choose(2)]
		u.Scripts = u.Scripts[:1] // each call's message is delivered again
	}
	if s.Choose(8) == 0 {
		u.DeletedObjects, u.Stalls = 1+s.Choose(2), 0
	}
}

// The hosts that a restricted agent may reach at first.
const (
	firstHost  = "first.example"
	secondHost = "second.example"
)

// brokerTarget is where the gate adds the value of the brokered secret that a client sets.
func brokerTarget(action string) map[string]egress.Target {
	host := firstHost
	if action == "broker elsewhere" {
		host = secondHost
	}
	return map[string]egress.Target{"KEY": egress.Target{Hosts: []string{host}}.Canonical()}
}

// changeEgress is a client's change of what the agent may reach.
func changeEgress(a *agent.Agent, c *call, now time.Time) error {
	apply := func(change func(egress.Rules) egress.Rules) error {
		return a.Apply(agent.Patch{Egress: func(r egress.Rules) (egress.Rules, error) {
			return change(r).Canonical(), nil
		}}, now)
	}
	switch c.action {
	case "restrict":
		return apply(func(egress.Rules) egress.Rules {
			return egress.Rules{Mode: egress.AllowList, Allow: []string{firstHost, secondHost}}
		})
	case "open":
		return apply(func(r egress.Rules) egress.Rules { r.Mode = egress.Open; return r })
	case "deny":
		return apply(func(r egress.Rules) egress.Rules { r.Deny = []string{c.name + ".example"}; return r })
	default:
		return a.AllowHosts([]string{c.name + ".example"}, now)
	}
}

// checkEgress checks that the cluster enforces what the record of a running agent says, and that a pod of that
// configuration runs with it.
func (w *World) checkEgress(a *agent.Agent) {
	n := w.home(a.ID).namespaces[a.ID]
	if n == nil || n.terminating {
		return
	}
	id := short(a.ID)
	if want := policyOf(a); n.stages[agent.StageRoute] && n.way.policy != want {
		w.violate("egress", "agent %s may reach %s by its record, and by its route %s", id, want, n.way.policy)
	}
	if want := a.Egress.Restricted(); n.stages[agent.StagePolicy] && n.way.restricted != want {
		w.violate("egress", "agent %s is restricted by its record: %t, and by its network policy: %t", id, want,
			n.way.restricted)
	}
	if n.pod == nil || !n.pod.ready {
		return
	}
	if n.pod.gated != a.Egress.Restricted() {
		w.violate("egress", "agent %s is restricted by its record: %t, and its pod: %t", id, a.Egress.Restricted(),
			n.pod.gated)
	}
}

// checkGate checks that the secret store has the versions that the gate reads for a pod.
func (w *World) checkGate(a *agent.Agent) {
	n := w.home(a.ID).namespaces[a.ID]
	if a.Status != agent.Running || n == nil || n.way.policy == "" || n.pod == nil || !n.pod.ready {
		return
	}
	p, err := egress.Decode(n.way.policy)
	if err != nil {
		w.violate("egress", "the route of agent %s has no policy: %v", short(a.ID), err)
	}
	for _, s := range p.Inject {
		if v, ok := w.Secrets.access(a.ID, secret.BrokeredKey(s.Key), s.Version); !ok || v.destroyed {
			w.violate("destroyed", "version %d of the brokered secret %s of agent %s, which the gate reads, is gone",
				s.Version, s.Key, short(a.ID))
		}
	}
}

// checkRead checks that only the gate reads brokered values: no process of the control plane does.
func (w *World) checkRead(id, key string) {
	if name, brokered := secret.Name(key); brokered {
		w.violate("brokered values", "a process read the brokered secret %s of agent %s", name, short(id))
	}
}

// hasInjected reports whether an agent's record names a version of a brokered secret.
func hasInjected(a agent.Agent, key string, version int64) bool {
	return slices.ContainsFunc(a.Injected, func(s agent.InjectedSecret) bool {
		return secret.BrokeredKey(s.Key) == key && s.Version == version
	})
}
