package kubeletserver

import (
	"context"
	"io"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// followPeriod is how often the state of a followed container is checked that is only simulated.
const followPeriod = time.Second

// awaitExit waits while a simulated container runs.
func awaitExit(ctx context.Context, pods Pods, name types.NamespacedName, containerID string) {
	tick := time.NewTicker(followPeriod)
	defer tick.Stop()
	for {
		pod, err := pods.Pod(name)
		if err != nil || !slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
			return s.ContainerID == containerID && s.State.Running != nil
		}) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// flushing returns w, which sends every line immediately if the log is followed.
func flushing(w http.ResponseWriter, follow bool) io.Writer {
	if !follow {
		return w
	}
	flusher := http.NewResponseController(w)
	_ = flusher.Flush() // the client learns that the stream began
	return flushWriter{w: w, flusher: flusher}
}

type flushWriter struct {
	w       io.Writer
	flusher *http.ResponseController
}

// Write writes and flushes.
func (f flushWriter) Write(line []byte) (int, error) {
	n, err := f.w.Write(line)
	if err == nil {
		err = f.flusher.Flush()
	}
	return n, err
}
