package kubeletserver

import (
	"context"
	"io"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// runtimeService tells the reader of a log whether the container still writes to it, and nothing else.
type runtimeService struct {
	internalapi.RuntimeService // nil: the reader calls only ContainerStatus
	done                       <-chan struct{}
}

// ContainerStatus returns the state of the container, whatever the id.
func (s runtimeService) ContainerStatus(context.Context, string, bool) (*runtimeapi.ContainerStatusResponse, error) {
	state := runtimeapi.ContainerState_CONTAINER_RUNNING
	select {
	case <-s.done:
		state = runtimeapi.ContainerState_CONTAINER_EXITED
	default:
	}
	return &runtimeapi.ContainerStatusResponse{Status: &runtimeapi.ContainerStatus{State: state}}, nil
}

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
