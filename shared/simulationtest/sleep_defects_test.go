package simulationtest

import (
	"context"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/provisioning"
)

// sleepDefects undo guards of agents that fall asleep and are woken.
func sleepDefects() []defect {
	return []defect{
		{
			name: "an open door", undoes: "a closed door admits no request",
			plant: Plant{Focus: sleeping(), Sleep: SleepRules{OpenDoor: true}},
		},
		{
			name: "a door closed behind a request", undoes: "a front with a request in flight is not idle",
			plant: Plant{Focus: sleeping(), Sleep: SleepRules{CloseBusy: true}},
		},
		{
			name: "a door closed again", undoes: "a door that opened without an answer stays open",
			plant: Plant{Focus: sleeping(), Sleep: SleepRules{Reclose: true}},
		},
		{
			name: "one request for a wake", undoes: "the router asks again while it holds requests",
			plant: Plant{Focus: sleeping(), Sleep: SleepRules{AskOnce: true}},
		},
		{
			name: "a wake like any nudge", undoes: "a worker wakes the agent before it looks",
			plant: Plant{Focus: sleeping(), Sleep: SleepRules{DropWakes: true}},
		},
		{
			name: "no second look at the door", undoes: "a worker asks the front before it takes the pod away",
			plant: Plant{Focus: sleeping(), Prober: func(inner provisioning.AgentProber) provisioning.AgentProber {
				return believer{inner}
			}},
		},
		{
			name: "the door opens too early", undoes: "the door is closed until the woken agent's workload is applied",
			plant: Plant{Focus: sleeping(), Sleepers: sleeper("front", func(before agent.Agent, _ *agent.Agent) error {
				if before.BeingProvisioned() {
					return fault.New(fault.Conflict, "agent_in_use", "The agent is awake.")
				}
				return nil
			})},
		},
		{
			name: "the same door twice", undoes: "a late report does not put a woken agent to sleep again",
			plant: Plant{Focus: sleeping(), Sleepers: sleeper("front", func(_ agent.Agent, a *agent.Agent) error {
				a.Door = ""
				return nil
			})},
		},
		{
			name: "any paused agent is woken", undoes: "a wake concerns agents that sleep only",
			plant: Plant{
				Focus: sleeping("pause"), Sleepers: sleeper("wake", func(_ agent.Agent, a *agent.Agent) error {
					if a.Status == agent.Paused {
						a.StatusReason = agent.ReasonIdle
					}
					return nil
				}),
			},
		},
		{
			name: "a pause that sleep undoes", undoes: "a client's pause of an agent that sleeps lasts",
			plant: focused(sleeping("pause"), afterRequest(func(_ *World, before agent.Agent, a *agent.Agent) {
				if before.Asleep() && a.Status == agent.Paused {
					*a = before
				}
			})),
		},
		{
			name:   "a route that turns visitors away",
			undoes: "the route of an agent that sleeps says that requests start it",
			plant:  Plant{Focus: sleeping(), Cluster: ClusterRules{OwnerStarts: true, OverlookRoute: true}},
		},
	}
}

// believer takes each door for closed.
type believer struct{ provisioning.AgentProber }

func (b believer) Door(_ context.Context, a agent.Agent) (provisioning.Door, error) {
	return provisioning.Door{Closed: a.Door, Left: dataplane.DoorTime}, nil
}

// sleeper makes the changes of one kind of process begin with another one.
func sleeper(kind string, first func(before agent.Agent, a *agent.Agent) error) func(string, agent.Store) agent.Store {
	return func(of string, inner agent.Store) agent.Store {
		if of != kind {
			return inner
		}
		return early{inner, first}
	}
}

// early is a store whose changes begin with another one.
type early struct {
	agent.Store
	first func(before agent.Agent, a *agent.Agent) error
}

func (e early) Change(ctx context.Context, id string, change func(*agent.Agent) error) (agent.Agent, error) {
	return e.Store.Change(ctx, id, func(a *agent.Agent) error {
		if err := e.first(a.Clone(), a); err != nil {
			return err
		}
		return change(a)
	})
}

// sleeping makes an agent fall asleep and wake while a client sends calls.
func sleeping(script ...string) func(*Scheduler, *Setup) {
	return func(s *Scheduler, u *Setup) {
		*u = Setup{
			Start: agent.Running, Workers: 1 + s.Choose(3), Stalls: s.Choose(4), Faults: s.Choose(5), Ticks: 2,
			Visitors: 1 + s.Choose(4), Idles: 1 + s.Choose(3), Steps: 200,
		}
		if len(script) > 0 {
			u.Scripts = [][]string{script}
		}
	}
}
