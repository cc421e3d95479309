package simulationtest

import (
	"context"
	"slices"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/secret"
)

// egressDefects undo guards of what agents may reach, and of brokered secrets.
func egressDefects() []defect {
	client := func(also func(w *World, before agent.Agent, a *agent.Agent)) Plant {
		return focused(arrangeEgress, afterRequest(also))
	}
	worker := func(wrap func(inner agent.WorkerStore) agent.WorkerStore) Plant {
		return Plant{
			Focus: arrangeEgress,
			Records: func(_ *World, process string, inner agent.WorkerStore) agent.WorkerStore {
				if process != "worker" {
					return inner
				}
				return wrap(inner)
			},
		}
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
			plant: worker(func(inner agent.WorkerStore) agent.WorkerStore { return pruner{inner} }),
		},
		{
			name: "a brokered value that a worker reads", undoes: "a brokered secret is no variable of the agent",
			plant: worker(func(inner agent.WorkerStore) agent.WorkerStore { return curious{inner} }),
		},
	}
}

// lateEgress makes calls of the cluster take place late while a client changes a list.
func lateEgress(s *Scheduler, u *Setup) {
	lateCalls(ClusterService, "restrict", "allow")(s, u)
	u.Scripts[0] = append(u.Scripts[0], "allow")
}

// pruner shows workers the brokered secrets of an agent without a pod with later versions than the agent has.
type pruner struct{ agent.WorkerStore }

func (p pruner) Load(ctx context.Context, id string) (agent.Agent, error) {
	a, err := p.WorkerStore.Load(ctx, id)
	return withLater(a), err
}

func (p pruner) Update(ctx context.Context, a agent.Agent, change func(*agent.Agent)) (agent.Agent, error) {
	present, err := p.WorkerStore.Update(ctx, a, change)
	return withLater(present), err
}

func withLater(a agent.Agent) agent.Agent {
	a.Injected = slices.Clone(a.Injected)
	for i := range a.Injected {
		if !a.WantsPod() {
			a.Injected[i].Version++
		}
	}
	return a
}

// curious shows workers brokered secrets as variables.
type curious struct{ agent.WorkerStore }

func (c curious) Load(ctx context.Context, id string) (agent.Agent, error) {
	a, err := c.WorkerStore.Load(ctx, id)
	a.Env = slices.Clone(a.Env)
	for _, s := range a.Injected {
		a.Env = append(a.Env, agent.EnvVar{Key: secret.BrokeredKey(s.Key), SecretVersion: s.Version})
	}
	return a, err
}
