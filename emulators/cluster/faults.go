//go:build unix

package cluster

import (
	"encoding/json"
	"time"

	"agents.example/controlplane/emulators/simulator"
)

// FaultAnnotation on a Namespace makes all its pods suffer the Fault in its value. Setting it breaks running pods
// immediately; removing it heals them.
const FaultAnnotation = simulator.FaultAnnotation

// The ConfigMap that declares faults of namespaces that do not exist yet. Its data maps names of namespaces to faults.
// Patch single entries, so that tests do not disturb each other. FaultAnnotation takes precedence.
const (
	FaultsNamespace = "kube-system"
	FaultsConfigMap = simulator.FaultsConfigMap
)

// Fault is a failure of all pods of a namespace.
type Fault string

// The faults, and what clients see of them. Back-off doubles from 250 ms to 7.5 s, 40 times faster than a kubelet's.
const (
	ImagePull     Fault = "image-pull"    // waiting with ErrImagePull, then ImagePullBackOff; running containers stop
	CrashLoop     Fault = "crash-loop"    // exit code 1 soon after each start, CrashLoopBackOff, restartCount rises
	OutOfMemory   Fault = "oom"           // the same with OOMKilled and exit code 137
	Unschedulable Fault = "unschedulable" // PodScheduled is False with reason Unschedulable; running pods are evicted
	NotReady      Fault = "not-ready"     // containers run and never become ready
)

// Faults lists the faults that have no parameter.
func Faults() []Fault { return []Fault{CrashLoop, ImagePull, OutOfMemory, Unschedulable, NotReady} }

// FaultPatch is the merge patch of FaultsConfigMap that declares the fault of a namespace. An empty fault heals it.
func FaultPatch(namespace string, f Fault) []byte {
	var fault *Fault
	if f != "" {
		fault = &f
	}
	patch, _ := json.Marshal(map[string]map[string]*Fault{"data": {namespace: fault}}) // texts always encode
	return patch
}

// Slow is the fault of containers that become ready only a delay after their start. Ready pods stay ready.
func Slow(delay time.Duration) Fault { return Fault("slow=" + delay.String()) }
