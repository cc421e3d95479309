// Package cloudrun gives local processes the limits of an instance of Cloud Run.
package cloudrun

import (
	"net/http"
	"time"

	"agents.example/controlplane/shared/dataplane/duplex"
	"agents.example/controlplane/shared/function"
)

// CPU is the environment of a process on an instance with one CPU.
const CPU = "GOMAXPROCS=1"

// Concurrency returns how many requests an instance serves concurrently, as terraform/services.tf configures it.
func Concurrency(role function.Role) int {
	if role == function.RoleWorker {
		return 40
	}
	return 80
}

// Environment gives a process the CPU of an instance, and tells its garbage collector what terraform/services.tf tells
// it.
func Environment(role function.Role) []string {
	heap, growth := "200MiB", "400"
	if role == function.RoleWorker {
		heap, growth = "400MiB", "100"
	}
	return []string{CPU, "GOMEMLIMIT=" + heap, "GOGC=" + growth}
}

// QueueTime is how long a request waits for an instance. Cloud Run documents 10 s, or longer after slow starts.
const QueueTime = 10 * time.Second

// LimitConcurrency passes at most a number of requests concurrently to an instance. Further ones wait. After the
// patience they are refused with 429, as Cloud Run refuses requests when no instance of a service is free.
func LimitConcurrency(instance http.Handler, most int, patience time.Duration) http.Handler {
	slots := make(chan struct{}, most)
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		timer := time.NewTimer(patience)
		defer timer.Stop()
		select {
		case slots <- struct{}{}:
		case <-req.Context().Done():
			return
		case <-timer.C:
			w.Header().Set("Connection", "close") // the body is not read
			http.Error(w, "Rate exceeded.", http.StatusTooManyRequests)
			return
		}
		defer func() { <-slots }()
		// The slot is free when the instance has answered, whether or not the client still sends its body.
		answer, forwarded := duplex.Enable(w, req)
		defer answer.Finish()
		instance.ServeHTTP(answer, forwarded)
	})
}
