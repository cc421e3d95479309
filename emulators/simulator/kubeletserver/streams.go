package kubeletserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"

	"agents.example/controlplane/emulators/simulator/containerlog"
	"agents.example/controlplane/emulators/simulator/podworker"
	"agents.example/controlplane/emulators/simulator/process"
)

const (
	// streamIdle is how long a connection without traffic stays open, as with a kubelet.
	streamIdle = 4 * time.Hour
	// streamCreation bounds the time until the client has opened its streams.
	streamCreation = 30 * time.Second
)

// streams serves the requests that take over their connection.
type streams struct{ options Options }

// target returns the pod of a request and the status of its container, or answers the request.
func (s streams) target(w http.ResponseWriter, r *http.Request) (name types.NamespacedName,
	status *corev1.ContainerStatus, ok bool,
) {
	name = types.NamespacedName{Namespace: r.PathValue("namespace"), Name: r.PathValue("pod")}
	pod, err := s.options.Pods.Pod(name)
	if err != nil {
		http.Error(w, fmt.Sprintf("pod %q does not exist", name.Name), http.StatusNotFound)
		return name, nil, false
	}
	container := r.PathValue("container")
	if container == "" && len(pod.Status.ContainerStatuses) > 0 { // of a whole pod
		container = pod.Status.ContainerStatuses[0].Name
	}
	status, ok = statusOf(pod, container)
	if !ok || status.ContainerID == "" {
		http.Error(w, fmt.Sprintf("container %q in pod %q is not available", container, name.Name),
			http.StatusBadRequest)
		return name, nil, false
	}
	return name, status, true
}

func (s streams) exec(w http.ResponseWriter, r *http.Request) {
	name, status, ok := s.target(w, r)
	if !ok {
		return
	}
	command := r.URL.Query()["command"]
	options, err := remotecommand.NewOptions(r)
	if err == nil && len(command) == 0 {
		err = errors.New("you must specify a command")
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	e := executor{s.options.Pods, name}
	if isWebSocket(r) {
		serveWebSocket(w, r, options, func(ctx context.Context, in io.Reader, out, errs io.WriteCloser, terminal bool,
			sizes <-chan remotecommand.TerminalSize,
		) error {
			return e.ExecInContainer(ctx, "", "", status.Name, command, in, out, errs, terminal, sizes, 0)
		})
		return
	}
	remotecommand.ServeExec(w, r, e, name.Name, "", status.Name, command, options,
		streamIdle, streamCreation, remotecommand.SupportedStreamingProtocols)
}

// executor runs commands in containers of a pod.
type executor struct {
	pods Pods
	name types.NamespacedName
}

// ExecInContainer implements remotecommand.Executor.
//
//nolint:revive // the library's signature
func (e executor) ExecInContainer(ctx context.Context, _, _, container string, command []string, in io.Reader,
	out, errs io.WriteCloser, terminal bool, sizes <-chan remotecommand.TerminalSize, _ time.Duration,
) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c := podworker.Command{
		Args: command, Stdin: in, Stdout: out, Stderr: errs, Terminal: terminal, Sizes: sizesOf(ctx, sizes),
	}
	code, err := e.pods.Exec(ctx, e.name, container, c)
	if err == nil && code != 0 {
		err = utilexec.CodeExitError{Err: fmt.Errorf("exit status %d", code), Code: code}
	}
	return err
}

// sizesOf returns the sizes of a terminal, until ctx ends.
func sizesOf(ctx context.Context, from <-chan remotecommand.TerminalSize) <-chan process.Size {
	sizes := make(chan process.Size)
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case size, ok := <-from:
				if !ok {
					return
				}
				select {
				case sizes <- process.Size{Columns: size.Width, Rows: size.Height}:
				case <-ctx.Done():
					return
				}
			}
		}
	}()
	return sizes
}

func (s streams) attach(w http.ResponseWriter, r *http.Request) {
	name, status, ok := s.target(w, r)
	if !ok {
		return
	}
	options, err := remotecommand.NewOptions(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	log, _ := s.options.Pods.Log(name, status.ContainerID) // the stream has the error: the API server drops others
	if isWebSocket(r) {
		serveWebSocket(w, r, options, func(ctx context.Context, in io.Reader, out, errs io.WriteCloser, terminal bool,
			sizes <-chan remotecommand.TerminalSize,
		) error {
			return attacher(log).AttachContainer(ctx, "", "", status.Name, in, out, errs, terminal, sizes)
		})
		return
	}
	remotecommand.ServeAttach(w, r, attacher(log), name.Name, "", status.Name, options, streamIdle, streamCreation,
		remotecommand.SupportedStreamingProtocols)
}

// attacher shows the output of a container, whose input is empty.
type attacher podworker.Log

// AttachContainer implements remotecommand.Attacher.
//
//nolint:revive // the library's signature
func (a attacher) AttachContainer(ctx context.Context, _, _, _ string, _ io.Reader, out, errs io.WriteCloser,
	_ bool, _ <-chan remotecommand.TerminalSize,
) error {
	if a.Path == "" {
		return errors.New("the container is simulated: no process runs that has output")
	}
	o := containerlog.ReadOptions{Follow: true, Done: a.Done, Tail: 0, Limit: -1}
	if out != nil {
		o.Stdout, o.Stderr = out, out // a terminal shows both
	}
	if errs != nil {
		o.Stderr = errs
	}
	return containerlog.Read(ctx, a.Path, o)
}

func (s streams) portForward(w http.ResponseWriter, r *http.Request) {
	name, _, ok := s.target(w, r)
	if !ok {
		return
	}
	options, err := portforward.NewV4Options(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	portforward.ServePortForward(w, r, forwarder{s.options.Pods, name}, name.Name, "", options, streamIdle,
		streamCreation, portforward.SupportedProtocols)
}

// forwarder connects to ports of a pod.
type forwarder struct {
	pods Pods
	name types.NamespacedName
}

// PortForward implements portforward.PortForwarder.
func (f forwarder) PortForward(ctx context.Context, _, _ string, port int32, stream io.ReadWriteCloser) error {
	connection, err := f.pods.Dial(ctx, f.name, int(port))
	if err != nil {
		return fmt.Errorf("connect to port %d of pod %s: %w", port, f.name, err)
	}
	defer func() { _ = connection.Close() }()
	defer context.AfterFunc(ctx, func() { _ = connection.Close() })()
	go func() { // ends with the stream, which the caller closes
		_, _ = io.Copy(connection, stream)
		if tcp, ok := connection.(*net.TCPConn); ok {
			_ = tcp.CloseWrite() // the server may still answer
		}
	}()
	_, err = io.Copy(stream, connection)
	return err
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
