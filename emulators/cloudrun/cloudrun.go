// Package cloudrun gives local processes the limits of an instance of Cloud Run, and adds instances as its autoscaler
// does. It starts no process.
package cloudrun

import (
	"time"

	"agents.example/controlplane/shared/function"
)

// CPU is the environment of a process on an instance with one CPU.
const CPU = "GOMAXPROCS=1"

// MaxInstances is how many instances a service of routes may have, as terraform/services.tf configures it.
const MaxInstances = 10

// HeldAnswers is how many answers an instance holds open for clients that wait, as terraform/environment.tf derives it
// from Concurrency.
const HeldAnswers = 175

// Concurrency returns how many requests an instance serves concurrently, as terraform/services.tf configures it.
func Concurrency(role function.Role) int {
	if role == function.RoleWorker {
		return 40
	}
	return 250
}

// Environment gives a process the CPU of an instance, and tells its garbage collector what terraform/services.tf tells
// it.
func Environment(role function.Role) []string {
	growth := "400"
	if role == function.RoleWorker {
		growth = "100"
	}
	return []string{CPU, "GOMEMLIMIT=400MiB", "GOGC=" + growth}
}

// QueueTime is how long a request waits for an instance. Cloud Run documents 10 s, or longer after slow starts.
const QueueTime = 10 * time.Second
