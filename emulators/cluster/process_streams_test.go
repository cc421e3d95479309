//go:build linux

package cluster_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/httpstream" //nolint:staticcheck // client-go's dialers have its types
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/client-go/util/exec"
	streaming "k8s.io/streaming/pkg/httpstream"

	"agents.example/controlplane/emulators/cluster"
	"agents.example/controlplane/emulators/clustertest"
)

// testExec runs commands in a container, as kubectl exec does with both of its protocols.
func testExec(t *testing.T, a *processAgent) {
	a.create(t)
	for protocol, connect := range map[string]func(*url.URL) (remotecommand.Executor, error){
		"WebSocket": func(u *url.URL) (remotecommand.Executor, error) {
			return remotecommand.NewWebSocketExecutor(a.config, http.MethodGet, u.String())
		},
		"SPDY": func(u *url.URL) (remotecommand.Executor, error) {
			return remotecommand.NewSPDYExecutor(a.config, http.MethodPost, u)
		},
	} {
		for range 5 {
			if err := a.readLine(t, connect); err != nil {
				t.Errorf("%s: %v", protocol, err)
				break
			}
		}
	}
}

// readLine runs a command that ends before it has read all of its input, which must not cost its output.
func (a *processAgent) readLine(t *testing.T, connect func(*url.URL) (remotecommand.Executor, error)) error {
	t.Helper()
	executor, err := connect(a.subresource("exec", &corev1.PodExecOptions{
		Container: "agent", Command: []string{"sh", "-c", `read line; echo "$line in $DATA_DIR"; echo oops >&2; exit 3`},
		Stdin: true, Stdout: true, Stderr: true,
	}))
	if err != nil {
		return err
	}
	var stdout, stderr bytes.Buffer
	err = executor.StreamWithContext(t.Context(), remotecommand.StreamOptions{
		Stdin: strings.NewReader("hello\n" + strings.Repeat("x", 1<<20)), Stdout: &stdout, Stderr: &stderr,
	})
	if exit, ok := errors.AsType[exec.CodeExitError](err); !ok || exit.Code != 3 {
		return fmt.Errorf("error = %v, want exit code 3", err) //nolint:errorlint // it may be nil
	}
	want := "hello in " + a.environment(t)["DATA_DIR"] + "\n"
	if stdout.String() != want || stderr.String() != "oops\n" {
		return fmt.Errorf("output %q, errors %q, want %q and %q", &stdout, &stderr, want, "oops\n")
	}
	return nil
}

// testPortForward reads a page of the agent through the API server, as kubectl port-forward does.
func testPortForward(t *testing.T, a *processAgent) {
	a.create(t)
	u := a.subresource("portforward", &corev1.PodPortForwardOptions{})
	transport, upgrader, err := spdy.RoundTripperFor(a.config)
	if err != nil {
		t.Fatal(err)
	}
	webSocket, err := portforward.NewSPDYOverWebsocketDialer(u, a.config)
	if err != nil {
		t.Fatal(err)
	}
	overSPDY := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, u)
	if clustertest.Kind() == cluster.Embedded { // as kubectl does
		webSocket = portforward.NewFallbackDialer(webSocket, overSPDY, streaming.IsUpgradeFailure)
	}
	for protocol, dialer := range map[string]httpstream.Dialer{"WebSocket": webSocket, "SPDY": overSPDY} {
		if err := forward(t, dialer); err != nil {
			t.Errorf("%s: %v", protocol, err)
		}
	}
}

// forward forwards a free port to the agent's declared one, and requests a page there.
func forward(t *testing.T, dialer httpstream.Dialer) error {
	t.Helper()
	stop, ready := make(chan struct{}), make(chan struct{})
	forwarder, err := portforward.New(dialer, []string{"0:3000"}, stop, ready, io.Discard, io.Discard)
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- forwarder.ForwardPorts() }()
	select {
	case <-ready:
	case err := <-done:
		return fmt.Errorf("forwarding ended: %w", err)
	}
	defer func() { close(stop); <-done }() //nolint:errcheck // it ends because the test is over
	ports, err := forwarder.GetPorts()
	if err != nil {
		return err
	}
	return getHealth(t.Context(), ports[0].Local)
}

func getHealth(ctx context.Context, port uint16) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/health", port),
		http.NoBody)
	if err != nil {
		return err
	}
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("status %s", response.Status)
	}
	return nil
}

// subresource returns the URL of a subresource of the agent's pod.
func (a *processAgent) subresource(name string, options runtime.Object) *url.URL {
	return a.client.Subresource(a.namespace, "agent-0", name, options).URL()
}
