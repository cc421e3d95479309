package kubeletserver

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"agents.example/controlplane/emulators/cluster/pki"
	"agents.example/controlplane/emulators/simulator/podworker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// onePod is a node with the pod n/p, which is only simulated.
type onePod struct{ status corev1.ContainerStatus }

// Pod returns the pod.
func (o onePod) Pod(name types.NamespacedName) (*corev1.Pod, error) {
	if name.Name != "p" {
		return nil, errors.New("not found")
	}
	pod := &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{o.status}}}
	pod.Name = name.Name
	return pod, nil
}

// Log returns no log.
func (onePod) Log(types.NamespacedName, string) (podworker.Log, bool) { return podworker.Log{}, false }

// Exec runs nothing.
func (onePod) Exec(context.Context, types.NamespacedName, string, podworker.Command) (int, error) {
	return 0, errors.New("simulated")
}

// Dial connects to nothing.
func (onePod) Dial(context.Context, types.NamespacedName, int) (net.Conn, error) {
	return nil, errors.New("simulated")
}

func running() corev1.ContainerStatus {
	return corev1.ContainerStatus{
		Name: "main", Image: "i", ContainerID: "simulated://1",
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
	}
}

// serve serves the pod and returns the URL, the certificates' files and a client without a certificate.
func serve(t *testing.T, pods Pods) (string, pki.KubeletFiles, *tls.Config) {
	t.Helper()
	endpoint, err := Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	files, err := pki.Kubelet(t.TempDir(), endpoint.Address.Addr())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- Serve(ctx, endpoint.Listener, Options{Files: files, Pods: pods, Log: slog.New(slog.DiscardHandler)})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	ca, err := os.ReadFile(files.CA)
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool()}
	config.RootCAs.AppendCertsFromPEM(ca)
	return "https://" + endpoint.Address.String(), files, config
}

func get(t *testing.T, url string, config *tls.Config) (status int, body string, err error) {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: config}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}

func TestServe_NeedsTheAPIServersCertificate(t *testing.T) {
	t.Parallel()
	url, files, config := serve(t, onePod{status: running()})
	if status, _, err := get(t, url+"/containerLogs/n/p/main", config); err == nil {
		t.Errorf("answer to a client without a certificate: %d", status)
	}
	certificate, err := tls.LoadX509KeyPair(files.ClientCert, files.ClientKey)
	if err != nil {
		t.Fatal(err)
	}
	config.Certificates = []tls.Certificate{certificate}
	for path, want := range map[string]struct {
		status int
		body   string
	}{
		"/containerLogs/n/p/main":               {status: 200, body: "image i is simulated and writes no log\n"},
		"/containerLogs/n/p/main?tailLines=0":   {status: 200},
		"/containerLogs/n/p/main?previous=true": {status: 400, body: `previous terminated container "main"`},
		"/containerLogs/n/p/other":              {status: 400, body: `container "other" in pod "p" is not available`},
		"/containerLogs/n/q/main":               {status: 404, body: `pod "q" does not exist`},
		"/exec/n/p/main":                        {status: 400, body: "you must specify"},
	} {
		status, body, err := get(t, url+path, config)
		if err != nil || status != want.status || !strings.Contains(body, want.body) {
			t.Errorf("GET %s: %d, %q, %v; want %d, %q", path, status, body, err, want.status, want.body)
		}
	}
}

// A kubelet answers 200 for the log of a container that is gone.
func TestServe_SaysInALogThatItIsGone(t *testing.T) {
	t.Parallel()
	status := running()
	status.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ContainerID: "process://0"}
	url, files, config := serve(t, onePod{status: status})
	certificate, err := tls.LoadX509KeyPair(files.ClientCert, files.ClientKey)
	if err != nil {
		t.Fatal(err)
	}
	config.Certificates = []tls.Certificate{certificate}
	const want = "unable to retrieve container logs for process://0"
	if code, body, err := get(t, url+"/containerLogs/n/p/main?previous=true", config); err != nil ||
		code != http.StatusOK || body != want {
		t.Errorf("answer %d %q, %v; want 200 %q", code, body, err, want)
	}
}

func TestListen_GivesEachClusterItsOwnBlock(t *testing.T) {
	t.Parallel()
	first, err := Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = first.Listener.Close() }()
	second, err := Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = second.Listener.Close() }()
	if first.Block.Overlaps(second.Block) {
		t.Errorf("blocks %s and %s overlap", first.Block, second.Block)
	}
}
