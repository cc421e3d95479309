package simulationtest

import (
	"slices"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/secret"
)

// egressDefects undo guards of what agents may reach, and of brokered secrets.
func egressDefects() []defect {
	client := func(also func(w *World, before agent.Agent, a *agent.Agent)) Plant {
		return focused(arrangeEgress, afterRequest(also))
	}
	return []defect{
		{
			name: "a stale policy", undoes: "a change of the lists applies the route again",
			plant: client(func(w *World, before agent.Agent, a *agent.Agent) {
				if before.Egress.Restricted() && a.Egress.Restricted() && !a.Egress.Equal(before.Egress) {
					a.EndStage(agent.StageRoute, agent.StageSucceeded, w.Now())
				}
			}),
		},
		{
			name: "a former way out", undoes: "a change of the mode applies the network policy again",
			plant: client(func(w *World, before agent.Agent, a *agent.Agent) {
				if before.Egress.Restricted() != a.Egress.Restricted() {
					a.EndStage(agent.StagePolicy, agent.StageSucceeded, w.Now())
				}
			}),
		},
		{
			name: "a policy without its secrets", undoes: "a brokered secret that is bound applies the route again",
			plant: focused(arrangeEgress, afterWorker("worker", func(w *World, before agent.Agent, a *agent.Agent) {
				if !slices.Equal(before.Injected, a.Injected) {
					a.EndStage(agent.StageRoute, agent.StageSucceeded, w.Now())
				}
			})),
		},
		{
			name: "a way out of a former generation", undoes: "the fence of network policies and routes",
			plant: Plant{Cluster: ClusterRules{AnyWayOut: true}, Focus: lateEgress},
		},
		{
			name: "a pruned brokered version", undoes: "an agent at rest keeps the version that its policy names",
			plant: focused(arrangeEgress, shows("worker", withLater)),
		},
		{
			name: "a brokered value that a worker reads", undoes: "a brokered secret is no variable of the agent",
			plant: focused(arrangeEgress, loads("worker", func(a *agent.Agent) {
				a.Env = slices.Clone(a.Env)
				for _, s := range a.Injected {
					a.Env = append(a.Env, agent.EnvVar{Key: secret.BrokeredKey(s.Key), SecretVersion: s.Version})
				}
			})),
		},
	}
}

// lateEgress makes calls of the cluster take place late while a client changes a list.
func lateEgress(s *Scheduler, u *Setup) {
	lateCalls(ClusterService, "restrict", "allow")(s, u)
	u.Scripts[0] = append(u.Scripts[0], "allow")
}

// withLater shows the brokered secrets of an agent without a pod with later versions than the agent has.
func withLater(a *agent.Agent) {
	a.Injected = slices.Clone(a.Injected)
	for i := range a.Injected {
		if !a.WantsPod() {
			a.Injected[i].Version++
		}
	}
}
