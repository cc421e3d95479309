package prices

import "agents.example/controlplane/shared/plan"

// Pod is what the containers of a pod request together. Autopilot bills it, whatever the pod uses.
type Pod struct{ Millicores, MemoryMiB, ScratchMiB int64 }

// Requests of an agent's pod in addition to its plan: those of the front, and scratch space. A test of infra/gke
// compares them with the pod's.
const (
	frontMillicores = 10
	frontMemoryMiB  = 32
	scratchMiB      = 1024 + 64
)

// AgentPod is the pod of an agent on a plan.
func AgentPod(p plan.Plan) Pod {
	return Pod{
		Millicores: p.CPURequestMillicores + frontMillicores, MemoryMiB: p.MemoryRequestMiB + frontMemoryMiB,
		ScratchMiB: scratchMiB,
	}
}

// Autopilot's limits of a general-purpose pod in a cluster with bursting.
const (
	leastMillicores = 50
	leastMemoryMiB  = 52
	// mostMiBPerCore is the memory that a core may come with: 6.5 GiB.
	mostMiBPerCore = 6656
)

// Billed returns the requests to which Autopilot raises a pod: a core comes with 1 to 6.5 GiB of memory.
func (p Pod) Billed() Pod {
	p.Millicores, p.MemoryMiB = max(p.Millicores, leastMillicores), max(p.MemoryMiB, leastMemoryMiB)
	p.Millicores = max(p.Millicores, (p.MemoryMiB*1000+mostMiBPerCore-1)/mostMiBPerCore)
	p.MemoryMiB = max(p.MemoryMiB, (p.Millicores*1024+999)/1000)
	return p
}

// plus adds a number of pods.
func (p Pod) plus(n int64, other Pod) Pod {
	return Pod{
		Millicores: p.Millicores + n*other.Millicores, MemoryMiB: p.MemoryMiB + n*other.MemoryMiB,
		ScratchMiB: p.ScratchMiB + n*other.ScratchMiB,
	}
}

// Pod returns the price of a pod that runs for a month with these requests.
func (l List) Pod(p Pod) float64 {
	return hoursOfMonth * (l.Of("pod_vcpu", float64(p.Millicores)/1000) + l.Of("pod_gib", float64(p.MemoryMiB)/1024) +
		l.Of("pod_scratch_gib", float64(p.ScratchMiB)/1024))
}

// versionsPerAgent is the number of secret versions of an agent: its credentials, and three variables.
const versionsPerAgent = 4

// Agent is what a running agent of a plan costs in a month.
type Agent struct {
	// Requested is the price of its pod as the control plane requests it and of its volume, and Billed that of the pod
	// as Autopilot raises it.
	Requested, Billed float64
	// Volume is the part of both that an agent costs while it sleeps.
	Volume float64
	// Snapshots is the price of its daily snapshots, and Secrets that of its secrets.
	Snapshots, Secrets float64
}

// Agent returns what an agent of a plan costs.
func (l List) Agent(p plan.Plan) Agent {
	pod, volume := AgentPod(p), l.Of("disk_gib", float64(p.StorageGiB))
	a := Agent{
		Requested: l.Pod(pod) + volume, Billed: l.Pod(pod.Billed()) + volume, Volume: volume,
		Secrets: l.Of("secret_version", versionsPerAgent),
	}
	if p.DailySnapshots > 0 {
		a.Snapshots = l.Of("snapshot_gib", SnapshotGiB(p))
	}
	return a
}

const (
	// usedShare is the part of a volume that has data, and changedDaily the part of the data that changes in a day.
	usedShare    = 0.5
	changedDaily = 0.02
)

// SnapshotGiB is what storage keeps of an agent's daily snapshots: the first one has all data, and each other one what
// has changed.
func SnapshotGiB(p plan.Plan) float64 {
	return float64(p.StorageGiB) * usedShare * (1 + changedDaily*float64(p.DailySnapshots))
}

// Backup returns what Backup for GKE costs for an agent of a plan, whether or not it is used.
func (l List) Backup(p plan.Plan) float64 {
	return l.Of("backup", 1) + l.Of("backup_gib", float64(p.StorageGiB))
}

// Total is everything that an agent costs without traffic.
func (a Agent) Total() float64 { return a.Billed + a.Snapshots + a.Secrets }
