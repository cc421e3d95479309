//go:build unix

package cluster

import "time"

// FaultAnnotation on a Namespace makes all its pods suffer the Fault that is its value. Setting it breaks pods that
// run, taking it away heals them, at once.
const FaultAnnotation = "simulator.agents.example/fault"

// Where a fault is told before its namespace exists: a ConfigMap, which every cluster has, whose data maps names of
// namespaces to faults. Patch single entries, so that tests do not disturb each other. FaultAnnotation wins over it.
const (
	FaultsNamespace = "kube-system"
	FaultsConfigMap = "simulator-faults"
)

// Fault is what goes wrong with all pods of a namespace.
type Fault string

// The faults, with what clients see. Back-off is a kubelet's, 40 times faster: from 250 ms doubling to 7.5 s.
const (
	ImagePull     Fault = "image-pull"    // waiting with ErrImagePull, then ImagePullBackOff; containers that run stop
	CrashLoop     Fault = "crash-loop"    // exit code 1 soon after each start, CrashLoopBackOff, restartCount rises
	OutOfMemory   Fault = "oom"           // the same with OOMKilled and exit code 137
	Unschedulable Fault = "unschedulable" // PodScheduled is False with reason Unschedulable; pods that run are evicted
	NotReady      Fault = "not-ready"     // containers run and never become ready
)

// Slow is the fault of containers that become ready only delay after they started. Pods that are ready stay so.
func Slow(delay time.Duration) Fault { return Fault("slow=" + delay.String()) }
