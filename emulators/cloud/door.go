package cloud

import (
	"net/http"
	"time"

	"agents.example/controlplane/shared/dataplane/duplex"
	"agents.example/controlplane/shared/function"
)

// concurrency returns how many requests an instance serves concurrently, as terraform/services.tf configures it.
func concurrency(role function.Role) int {
	if role == function.RoleWorker {
		return 40
	}
	return 80
}

// instanceEnvironment gives a process the CPU of an instance and the limit of its heap, as terraform/services.tf
// configures them.
func instanceEnvironment(role function.Role) []string {
	heap := "200MiB"
	if role == function.RoleWorker {
		heap = "400MiB"
	}
	return []string{"GOMAXPROCS=1", "GOMEMLIMIT=" + heap}
}

// queueTime is how long a request waits for an instance. Cloud Run documents 10 s, or longer after slow starts.
const queueTime = 10 * time.Second

// limitConcurrency passes at most a number of requests concurrently to an instance. Further ones wait. After the
// patience they are refused with 429, as Cloud Run refuses requests when no instance of a service is free.
func limitConcurrency(instance http.Handler, most int, patience time.Duration) http.Handler {
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
