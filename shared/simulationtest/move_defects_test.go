package simulationtest

import (
	"time"

	"agents.example/controlplane/shared/agent"
)

// moveDefects undo guards of moves between cells.
func moveDefects() []defect {
	cluster := func(rules ClusterRules) Plant { return Plant{Focus: arrangeMoves, Cluster: rules} }
	worker := func(also func(w *World, before agent.Agent, a *agent.Agent)) Plant {
		return focused(arrangeMoves, afterWorker("worker", also))
	}
	return []defect{
		{
			name: "a move whose pod runs on", undoes: "no pod runs from the cut of the snapshot on",
			plant: cluster(ClusterRules{NoHold: true, NeverQuiet: true}),
		},
		{
			name: "a move without the data", undoes: "the volume in the new cell is made from the snapshot",
			plant: worker(func(_ *World, before agent.Agent, a *agent.Agent) {
				if before.Cell != a.Cell && a.Move.State == agent.MoveStarting {
					a.Volume.Source = agent.VolumeSource{}
				}
			}),
		},
		{
			name:   "a start that does not wait for a move",
			undoes: "an agent that starts waits for the snapshot that moves it",
			plant: focused(startingMoves, afterRequest(func(_ *World, before agent.Agent, a *agent.Agent) {
				if before.Status != a.Status && a.BeingProvisioned() && a.Move.State == agent.MoveCopying {
					a.StoppedFor = ""
				}
			})),
		},
		{
			name: "a return that does not wait", undoes: "the pod starts once nothing runs in the other cell",
			plant: focused(returning, afterWorker("worker", func(_ *World, _ agent.Agent, a *agent.Agent) {
				if a.Move.State == agent.MoveReturning {
					a.Move.Cleared = true
				}
			})),
		},
		{
			name: "a cell that is forgotten", undoes: "a worker deletes what is left in the former cell",
			plant: worker(func(_ *World, _ agent.Agent, a *agent.Agent) {
				if a.Move.State == agent.MoveLeaving {
					a.Move = agent.Move{}
				}
			}),
		},
		{
			name: "snapshots that go with the former cell", undoes: "the former cell gives up the data of snapshots",
			plant: cluster(ClusterRules{NeverRetain: true}),
		},
		{
			name: "snapshots that a return deletes", undoes: "a cell that may still be left owns no data",
			plant: cluster(ClusterRules{AdoptOwned: true}),
		},
		{
			name: "a snapshot that a cell forgets", undoes: "a cell deletes what it adopted once it has found the data",
			plant: cluster(ClusterRules{OwnUnbound: true}),
		},
		{
			name: "a deletion in one cell", undoes: "an agent that is deleted while it moves is gone from both cells",
			plant: focused(deletedMoves, loads("worker", func(a *agent.Agent) {
				if a.Status == agent.Deleting {
					a.Move = agent.Move{}
				}
			})),
		},
	}
}

// startingMoves starts and stops an agent that is about to move.
func startingMoves(s *Scheduler, u *Setup) {
	*u = Setup{
		Start: agent.Stopped, Scripts: [][]string{{"move", "start", "stop"}}, Workers: 2, Steps: 150,
		Ticks: s.Choose(3), Duplicates: s.Choose(3), Moves: true,
	}
}

// returning makes the pods of an agent fail in its new cell.
func returning(s *Scheduler, u *Setup) {
	service := ClusterService
	*u = Setup{
		Start: agent.Running, Scripts: [][]string{{"move"}}, Workers: 1 + s.Choose(3), Steps: 300,
		Ticks: 3, Moves: true, Trouble: []trouble{neverReady, crashLoop}[s.Choose(2)], TroubleTime: 20 * time.Hour,
		Elsewhere: true, Faults: 8, FaultRate: 0.3, FaultService: &service, Verdicts: []Verdict{Refused},
	}
}

// deletedMoves deletes an agent that moves.
func deletedMoves(s *Scheduler, u *Setup) {
	arrangeMoves(s, u)
	u.Scripts[0] = append([]string{"move"}, u.Scripts[0][:s.Choose(2)]...)
	u.Scripts[0] = append(u.Scripts[0], "delete")
}
