// Package kubeletserver serves the part of the kubelets' HTTPS API that kubectl's logs, exec, attach and port-forward
// need, for all nodes of the cluster at one address. Clients need a certificate of the API server. It does not serve
// metrics.
//
// Containers that run as processes have the logs of their current and their previous run, and run commands. A container
// that is only simulated has a log of one line that says so, and refuses everything else.
package kubeletserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"agents.example/controlplane/emulators/cluster/pki"
	"agents.example/controlplane/emulators/simulator/containerlog"
	"agents.example/controlplane/emulators/simulator/podworker"
)

// Pods are the pods of the nodes.
type Pods interface {
	// Pod returns a pod by name.
	Pod(name types.NamespacedName) (*corev1.Pod, error)
	// Log returns the log of one run of a container, unless it is only simulated.
	Log(name types.NamespacedName, containerID string) (podworker.Log, bool)
	// Exec runs a command in a container that runs as a process, and returns the exit code.
	Exec(ctx context.Context, pod types.NamespacedName, container string, c podworker.Command) (int, error)
	// Dial connects to a port of a pod that runs as processes.
	Dial(ctx context.Context, pod types.NamespacedName, port int) (net.Conn, error)
}

// Options configure Serve; all are required.
type Options struct {
	Files pki.KubeletFiles
	Pods  Pods
	Log   *slog.Logger
}

// Serve serves until ctx ends.
func Serve(ctx context.Context, listener net.Listener, o Options) error {
	config, err := tlsConfig(o.Files)
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler: handler(o), TLSConfig: config, ReadHeaderTimeout: 10 * time.Second,
		BaseContext: func(net.Listener) context.Context { return ctx }, // ends the streams of logs, too
		ConnState: func(c net.Conn, state http.ConnState) {
			if state == http.StateHijacked { // by a stream, which the server does not end
				context.AfterFunc(ctx, func() { _ = c.Close() })
			}
		},
		ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelInfo),
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.ServeTLS(lingering{listener, ctx}, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the kubelets' API: %w", err)
	}
	return nil
}

func tlsConfig(files pki.KubeletFiles) (*tls.Config, error) {
	certificate, clients, err := pki.Read(files.ServingCert, files.ServingKey, files.CA)
	if err != nil {
		return nil, fmt.Errorf("serve the kubelets' API: %w", err)
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{certificate},
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients,
	}, nil
}

func handler(o Options) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", func(w http.ResponseWriter, r *http.Request) {
		serveLog(w, r, o)
	})
	streams := streams{o}
	for path, serve := range map[string]http.HandlerFunc{
		"/exec/{namespace}/{pod}/{container}":         streams.exec,
		"/exec/{namespace}/{pod}/{uid}/{container}":   streams.exec,
		"/attach/{namespace}/{pod}/{container}":       streams.attach,
		"/attach/{namespace}/{pod}/{uid}/{container}": streams.attach,
		"/portForward/{namespace}/{pod}":              streams.portForward,
		"/portForward/{namespace}/{pod}/{uid}":        streams.portForward,
	} {
		mux.HandleFunc("GET "+path, serve)
		mux.HandleFunc("POST "+path, serve)
	}
	return mux
}

// serveLog writes the log of a container with the options, errors and formats of a kubelet.
func serveLog(w http.ResponseWriter, r *http.Request, o Options) {
	options, err := parseLogOptions(r.URL.Query())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	name := types.NamespacedName{Namespace: r.PathValue("namespace"), Name: r.PathValue("pod")}
	pod, err := o.Pods.Pod(name)
	if err != nil {
		http.Error(w, fmt.Sprintf("pod %q does not exist", name.Name), http.StatusNotFound)
		return
	}
	container := r.PathValue("container")
	status, ok := statusOf(pod, container)
	if !ok {
		http.Error(w, fmt.Sprintf("container %q in pod %q is not available", container, name.Name),
			http.StatusBadRequest)
		return
	}
	id, err := runToRead(pod.Name, status, options.Previous)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	stdout, stderr := outputs(flushing(w, options.Follow), options.Stream)
	log, ok := o.Pods.Log(name, id)
	switch {
	case !ok && strings.HasPrefix(id, "simulated://"):
		writeSimulated(stdout, status, options)
		if options.Follow {
			awaitExit(r.Context(), o.Pods, name, id)
		}
	case !ok:
		_, _ = io.WriteString(w, "unable to retrieve container logs for "+id) // in place of the log, as a kubelet does
	default:
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		read := containerlog.ReadOptions{
			Follow: options.Follow, Done: log.Done, Since: since(options), Tail: orAll(options.TailLines),
			Limit: int64(orAll(options.LimitBytes)), Timestamps: options.Timestamps, Stdout: stdout, Stderr: stderr,
		}
		if err := containerlog.Read(r.Context(), log.Path, read); err != nil && r.Context().Err() == nil {
			o.Log.ErrorContext(r.Context(), "log could not be read", "pod", name, "container", container, "error", err)
		}
	}
}

// orAll returns a limit, or a negative number if there is none.
func orAll(limit *int64) int {
	if limit == nil {
		return -1
	}
	return int(*limit)
}

// statusOf returns the status of a container.
func statusOf(pod *corev1.Pod, container string) (*corev1.ContainerStatus, bool) {
	for _, list := range [][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses} {
		for i := range list {
			if list[i].Name == container {
				return &list[i], true
			}
		}
	}
	return nil, false
}

// runToRead returns the id of the run of a container whose log is requested, as a kubelet chooses it.
func runToRead(pod string, status *corev1.ContainerStatus, previous bool) (containerID string, err error) {
	state, last := status.State, status.LastTerminationState.Terminated
	switch {
	case previous && (last == nil || last.ContainerID == ""):
		return "", fmt.Errorf("previous terminated container %q in pod %q not found", status.Name, pod)
	case previous:
		return last.ContainerID, nil
	case state.Running != nil:
		return status.ContainerID, nil
	case state.Terminated != nil && state.Terminated.ContainerID != "":
		return state.Terminated.ContainerID, nil
	case last != nil && last.ContainerID != "":
		return last.ContainerID, nil
	case state.Waiting != nil:
		return "", fmt.Errorf("container %q in pod %q is waiting to start: %s", status.Name, pod, waiting(state))
	}
	return "", fmt.Errorf("container %q in pod %q is terminated", status.Name, pod)
}

func waiting(state corev1.ContainerState) string {
	switch reason := state.Waiting.Reason; reason {
	case "ErrImagePull":
		return "image can't be pulled"
	case "ImagePullBackOff":
		return "trying and failing to pull image"
	default:
		return reason
	}
}

// outputs returns the writers of the requested streams; nil leaves one out.
func outputs(w io.Writer, stream *string) (stdout, stderr io.Writer) {
	switch {
	case stream == nil, *stream == corev1.LogStreamAll:
		return w, w
	case *stream == corev1.LogStreamStderr:
		return nil, w
	}
	return w, nil
}

// writeSimulated writes the log of a container that no process runs for.
func writeSimulated(stdout io.Writer, status *corev1.ContainerStatus, o *corev1.PodLogOptions) {
	started := startOf(status, o.Previous)
	if stdout != nil && !started.Time.Before(since(o)) && (o.TailLines == nil || *o.TailLines > 0) {
		line := fmt.Sprintf("container %s of image %s is simulated and writes no log\n", status.Name, status.Image)
		if o.Timestamps {
			line = started.UTC().Format("2006-01-02T15:04:05.000000000Z07:00") + " " + line
		}
		if o.LimitBytes != nil && int64(len(line)) > *o.LimitBytes {
			line = line[:*o.LimitBytes]
		}
		_, _ = io.WriteString(stdout, line)
	}
}

func startOf(status *corev1.ContainerStatus, previous bool) metav1.Time {
	switch last := status.LastTerminationState.Terminated; {
	case previous && last != nil:
		return last.StartedAt
	case status.State.Running != nil:
		return status.State.Running.StartedAt
	case status.State.Terminated != nil:
		return status.State.Terminated.StartedAt
	case last != nil:
		return last.StartedAt
	}
	return metav1.Time{}
}

// parseLogOptions reads the options of a log, which the API server has checked, from a query.
func parseLogOptions(query url.Values) (*corev1.PodLogOptions, error) {
	o := &corev1.PodLogOptions{}
	for name, set := range map[string]func(string) error{
		"follow":       func(text string) (err error) { o.Follow, err = strconv.ParseBool(text); return err },
		"previous":     func(text string) (err error) { o.Previous, err = strconv.ParseBool(text); return err },
		"timestamps":   func(text string) (err error) { o.Timestamps, err = strconv.ParseBool(text); return err },
		"sinceSeconds": func(text string) (err error) { o.SinceSeconds, err = parseInt(text); return err },
		"tailLines":    func(text string) (err error) { o.TailLines, err = parseInt(text); return err },
		"limitBytes":   func(text string) (err error) { o.LimitBytes, err = parseInt(text); return err },
		"stream":       func(text string) error { o.Stream = &text; return nil },
		"sinceTime": func(text string) error {
			since, err := time.Parse(time.RFC3339, text)
			o.SinceTime = &metav1.Time{Time: since}
			return err
		},
	} {
		if text := query.Get(name); text != "" {
			if err := set(text); err != nil {
				return nil, fmt.Errorf("parameter %s: %w", name, err)
			}
		}
	}
	return o, nil
}

func parseInt(text string) (*int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	return &n, err
}

// since returns the time before which output is left out.
func since(o *corev1.PodLogOptions) time.Time {
	switch {
	case o.SinceSeconds != nil:
		return time.Now().Add(-time.Duration(*o.SinceSeconds) * time.Second)
	case o.SinceTime != nil:
		return o.SinceTime.Time
	}
	return time.Time{}
}
