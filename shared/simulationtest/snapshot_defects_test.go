package simulationtest

import (
	"time"

	"agents.example/controlplane/shared/agent"
)

// snapshotDefects undo guards of snapshots and restores.
func snapshotDefects() []defect {
	cluster := func(rules ClusterRules) Plant { return Plant{Focus: arrangeSnapshots, Cluster: rules} }
	worker := func(also func(w *World, before agent.Agent, a *agent.Agent)) Plant {
		return focused(arrangeSnapshots, afterWorker("worker", also))
	}
	client := func(also func(w *World, before agent.Agent, a *agent.Agent)) Plant {
		return focused(arrangeSnapshots, afterRequest(also))
	}
	return []defect{
		{
			name:   "a pod that runs although it is stopped for a snapshot",
			undoes: "no pod runs while its volume must be quiet", plant: cluster(ClusterRules{NoHold: true}),
		},
		{
			name: "a snapshot of a volume in use", undoes: "a quiet snapshot is asked for once no pod uses the volume",
			plant: cluster(ClusterRules{NeverQuiet: true}),
		},
		{
			name: "a snapshot that is cut when it is asked for", undoes: "the pod starts once the snapshot is cut",
			plant: cluster(ClusterRules{CutEarly: true}),
		},
		{
			name: "a former volume that is not kept", undoes: "a former volume is deleted once a snapshot has its data",
			plant: client(func(_ *World, before agent.Agent, a *agent.Agent) {
				if a.Volume.Number > before.Volume.Number {
					a.Snapshots = a.Snapshots[:len(a.Snapshots)-1]
				}
			}),
		},
		{
			name: "a restore under the same name", undoes: "each volume of an agent has another name",
			plant: client(func(_ *World, before agent.Agent, a *agent.Agent) {
				if a.Volume.Number > before.Volume.Number {
					a.Volume.Number = before.Volume.Number
				}
			}),
		},
		{
			name:   "a deleted snapshot that is forgotten immediately",
			undoes: "a snapshot is deleted again after the time that a late call takes",
			plant: worker(func(_ *World, _ agent.Agent, a *agent.Agent) {
				for i, s := range a.Snapshots {
					if s.Status == agent.SnapshotDeleting && !s.GoneAt.IsZero() {
						a.Snapshots = append(a.Snapshots[:i:i], a.Snapshots[i+1:]...)
						return
					}
				}
			}),
		},
		{
			name: "a hold that never ends", undoes: "a snapshot that is cut lets the pod start again",
			plant: worker(func(_ *World, before agent.Agent, a *agent.Agent) {
				if before.StoppedFor != "" && a.StoppedFor == "" && a.WantsPod() {
					a.StoppedFor = before.StoppedFor
				}
			}),
		},
		{
			name: "a stop that leaves the hold", undoes: "an agent without a pod is stopped for no snapshot",
			plant: client(func(_ *World, before agent.Agent, a *agent.Agent) {
				if !a.WantsPod() && a.Status != agent.Deleting {
					a.StoppedFor = before.StoppedFor
				}
			}),
		},
		{
			name: "a start that does not wait", undoes: "a start waits for a snapshot of the quiet volume",
			plant: focused(
				func(_ *Scheduler, u *Setup) {
					*u = Setup{
						Start: agent.Stopped, Scripts: [][]string{{"snapshot", "start"}}, Workers: 1, Steps: 150,
						CutTime: time.Minute,
					}
				},
				afterRequest(func(_ *World, before agent.Agent, a *agent.Agent) {
					if before.Status == agent.Stopped && a.BeingProvisioned() {
						a.StoppedFor = ""
					}
				})),
		},
		{
			name:   "a copy that is forgotten immediately",
			undoes: "the copy of a snapshot is deleted again after the time that a late call takes",
			plant: focused(arrangeExports, afterWorker("worker", func(_ *World, _ agent.Agent, a *agent.Agent) {
				if !a.Reader.GoneAt.IsZero() {
					a.Reader = agent.Reader{Number: a.Reader.Number}
				}
			})),
		},
		{
			name: "snapshots are not swept", undoes: "the sweep lists the agents whose snapshots are due",
			plant: focused(arrangeSnapshots, unscheduled()),
		},
	}
}
