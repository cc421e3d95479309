//go:build unix

package proxy_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"agents.example/controlplane/emulators/proxy"
	"agents.example/controlplane/emulators/rpc"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"))
}

// tap ends the calls before or after the service, and remembers what it saw.
type tap struct {
	mu                sync.Mutex
	dropped, withheld bool
	seen              []string
}

func (p *tap) see(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = append(p.seen, what)
}

func (p *tap) Before(call string) bool { p.see("before " + call); return !p.dropped }

func (p *tap) After(call string) bool { p.see("after " + call); return !p.withheld }

func (p *tap) check(t *testing.T, want ...string) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Equal(p.seen, want) {
		t.Errorf("the tap saw %q, want %q", p.seen, want)
	}
}

func closeLater(t *testing.T, c io.Closer) {
	t.Helper()
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
}

func TestGRPC_ShowsEveryChangeToTheTap(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		tap       *tap
		wantCalls int
		want      codes.Code
		wantSeen  []string
	}{
		"forwarded": {tap: &tap{}, wantCalls: 1, want: codes.OK, wantSeen: []string{"before Check", "after Check"}},
		"dropped":   {tap: &tap{dropped: true}, want: codes.Unavailable, wantSeen: []string{"before Check"}},
		"withheld": {
			tap: &tap{withheld: true}, wantCalls: 1, want: codes.Unavailable,
			wantSeen: []string{"before Check", "after Check"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			service, client := startGRPC(t, row.tap)
			_, err := client.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
			if status.Code(err) != row.want {
				t.Errorf("Check = %v, want %s", err, row.want)
			}
			if got := service.Calls()["Check"]; got != row.wantCalls {
				t.Errorf("the service got %d calls, want %d", got, row.wantCalls)
			}
			row.tap.check(t, row.wantSeen...)
		})
	}
}

func TestGRPC_ReturnsTheErrorOfTheService(t *testing.T) {
	t.Parallel()
	_, client := startGRPC(t, &tap{})
	_, err := client.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: "unknown"})
	if status.Code(err) != codes.NotFound {
		t.Errorf("Check of an unknown service = %v, want NotFound", err)
	}
}

// startGRPC serves gRPC's health service behind a proxy.
func startGRPC(t *testing.T, p *tap) (*rpc.Server, grpc_health_v1.HealthClient) {
	t.Helper()
	service, err := rpc.Start(t.Context(), "",
		func(r grpc.ServiceRegistrar) { grpc_health_v1.RegisterHealthServer(r, health.NewServer()) },
		func(any) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, service)
	forwarding, err := proxy.StartGRPC(service.Addr, p)
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, forwarding)
	connection, err := grpc.NewClient(forwarding.Addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, connection)
	return service, grpc_health_v1.NewHealthClient(connection)
}

func TestKubernetes_ShowsEveryChangeToTheTap(t *testing.T) {
	t.Parallel()
	const path = "/apis/apps/v1/namespaces/n/statefulsets/agent"
	for name, row := range map[string]struct {
		tap      *tap
		method   string
		want     string // the answer; empty if there is none
		wantBody string // of the request, at the service
		wantSeen []string
	}{
		"read": {tap: &tap{dropped: true}, method: http.MethodGet, want: "answer"},
		"forwarded": {
			tap: &tap{}, method: http.MethodPatch, want: "answer", wantBody: "body",
			wantSeen: []string{"before PATCH statefulsets", "after PATCH statefulsets"},
		},
		"dropped": {
			tap: &tap{dropped: true}, method: http.MethodDelete, wantSeen: []string{"before DELETE statefulsets"},
		},
		"withheld": {
			tap: &tap{withheld: true}, method: http.MethodPatch, wantBody: "body",
			wantSeen: []string{"before PATCH statefulsets", "after PATCH statefulsets"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var body []byte
			service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ = io.ReadAll(r.Body)
				_, _ = io.WriteString(w, "answer")
			}))
			t.Cleanup(service.Close)
			client, host := startKubernetes(t, service.URL, row.tap)
			got, err := request(t, client, row.method, host+path)
			if got != row.want || (err == nil) != (row.want != "") {
				t.Errorf("answer = %q, %v; want %q", got, err, row.want)
			}
			if string(body) != row.wantBody {
				t.Errorf("the service got the body %q, want %q", body, row.wantBody)
			}
			row.tap.check(t, row.wantSeen...)
		})
	}
}

// startKubernetes starts a proxy in front of an API server, and returns a client and the address of its kubeconfig.
func startKubernetes(t *testing.T, server string, p *tap) (*http.Client, string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	config := api.NewConfig()
	config.Clusters["c"], config.Contexts["c"] = &api.Cluster{Server: server}, &api.Context{Cluster: "c"}
	config.CurrentContext = "c"
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
	forwarding, err := proxy.StartKubernetes(file, p)
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, forwarding)
	if err := forwarding.WriteKubeconfig(file); err != nil {
		t.Fatal(err)
	}
	read, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}, read.Host
}

func request(t *testing.T, client *http.Client, method, url string) (string, error) {
	t.Helper()
	var body io.Reader
	if method == http.MethodPatch {
		body = bufio.NewReader(&io.LimitedReader{R: endless{}, N: 4})
	}
	r, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := client.Do(r)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close() //nolint:errcheck // reading is over
	if answer.StatusCode != http.StatusOK {
		return "", fmt.Errorf("status %d", answer.StatusCode)
	}
	text, err := io.ReadAll(answer.Body)
	return string(text), err
}

// endless reads "body" again and again.
type endless struct{}

func (endless) Read(b []byte) (int, error) { return copy(b, "body"), nil }

func TestTCP_RefusesAndHangsUntilRestored(t *testing.T) {
	t.Parallel()
	service, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var echoing sync.WaitGroup
	echoing.Go(func() {
		for {
			c, err := service.Accept()
			if err != nil {
				return
			}
			echoing.Go(func() { _, _ = io.Copy(c, c); _ = c.Close() })
		}
	})
	p, err := proxy.StartTCP(service.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(p.Close(), service.Close()); err != nil {
			t.Error(err)
		}
		echoing.Wait()
	})

	first := dial(t, p.Addr)
	say(t, first, "forwarded")
	hear(t, first, "forwarded")

	p.Hang()
	second := dial(t, p.Addr)
	say(t, first, "held")
	say(t, second, "held, too")
	heard := make(chan string, 1)
	go func() {
		text, _ := bufio.NewReader(first).ReadString('\n')
		heard <- text
	}()
	p.Refuse()
	if text := <-heard; text != "" {
		t.Errorf("heard %q through a proxy that hangs, want the end of the connection", text)
	}
	if c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", p.Addr); err == nil {
		t.Error("a proxy that refuses accepted a connection")
		_ = c.Close()
	}
	if err := p.Restore(); err != nil {
		t.Fatal(err)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.AwaitConnection(canceled); err == nil {
		t.Error("AwaitConnection returned nil without a connection")
	}
	p.Hang()
	third := dial(t, p.Addr)
	if err := p.AwaitConnection(t.Context()); err != nil {
		t.Error(err)
	}
	say(t, third, "late")
	if err := p.Restore(); err != nil {
		t.Fatal(err)
	}
	hear(t, third, "late")
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func say(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := fmt.Fprintln(c, text); err != nil {
		t.Fatal(err)
	}
}

func hear(t *testing.T, c net.Conn, want string) {
	t.Helper()
	if got, err := bufio.NewReader(c).ReadString('\n'); got != want+"\n" {
		t.Errorf("heard %q, %v; want %q", got, err, want)
	}
}
