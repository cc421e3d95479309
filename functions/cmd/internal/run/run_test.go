//go:build unix

package run

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// asProcess is set in the environment of a process that is to be a service instead of a test.
const asProcess = "RUN_TEST_PORT"

// patience is how long a test waits for what takes a moment on an idle machine.
const patience = 30 * time.Second

func TestMain(m *testing.M) {
	if port := os.Getenv(asProcess); port != "" {
		Main(func(context.Context) (Service, error) { return slowService(port), nil })
	}
	os.Exit(m.Run())
}

// slowService says on standard output when a request has arrived, answers it when it is told to on standard input, and
// says when it closes.
func slowService(port string) Service {
	stdin := bufio.NewReader(os.Stdin)
	mux := http.NewServeMux()
	mux.HandleFunc("/quick", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "quick") })
	mux.HandleFunc("/slow", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Println("arrived")
		_, _ = stdin.ReadString('\n')
		fmt.Fprint(w, strings.Repeat("answer ", 1000))
	})
	return Service{Handler: mux, Host: "127.0.0.1", Port: port,
		Close: func() error { fmt.Println("closed"); return nil }}
}

// process is a running service.
type process struct {
	cmd    *exec.Cmd
	addr   string
	stdin  io.Writer
	stdout *bufio.Scanner
}

func start(t *testing.T) *process {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	_ = l.Close()
	_, port, _ := net.SplitHostPort(addr)
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), asProcess+"="+port)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	p := &process{cmd, addr, stdin, bufio.NewScanner(stdout)}
	until(t, "the process serves", func() bool { _, err := p.get(t.Context(), "/quick"); return err == nil })
	return p
}

func (p *process) get(ctx context.Context, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.addr+path, nil)
	if err != nil {
		return "", err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close() //nolint:errcheck // reading is over
	b, err := io.ReadAll(res.Body)
	if res.StatusCode != http.StatusOK {
		return "", fmt.Errorf("status %d", res.StatusCode)
	}
	return string(b), err
}

// says reads what the process prints until it says a word. The framework prints, too.
func (p *process) says(t *testing.T, word string) {
	t.Helper()
	for p.stdout.Scan() {
		if p.stdout.Text() == word {
			return
		}
	}
	t.Fatalf("the process ended its output without saying %q", word)
}

// until waits for a condition.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-ctx.Done():
			t.Fatalf("after %s it is still not so that %s", patience, what)
		case <-tick.C:
		}
	}
}

// TestRequestsInFlightFinish tells a process to end while a request is in flight: it takes no more, answers that one
// whole, closes what it works with, and ends well.
func TestRequestsInFlightFinish(t *testing.T) {
	t.Parallel()
	p := start(t)
	type answer struct {
		body string
		err  error
	}
	answered := make(chan answer, 1)
	go func() {
		body, err := p.get(context.Background(), "/slow")
		answered <- answer{body, err}
	}()
	p.says(t, "arrived")
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	until(t, "no new request is taken", func() bool {
		_, err := p.get(t.Context(), "/quick")
		return errors.Is(err, syscall.ECONNREFUSED)
	})
	select {
	case a := <-answered:
		t.Fatalf("the request in flight ended before it was answered: %+v", a)
	default:
	}
	fmt.Fprintln(p.stdin)
	if a := <-answered; a.err != nil || a.body != strings.Repeat("answer ", 1000) {
		t.Errorf("the request in flight was answered with %d bytes: %v", len(a.body), a.err)
	}
	p.says(t, "closed")
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("the process ended with %v", err)
	}
}

// TestEndsWithoutRequests ends a process that nobody has asked anything.
func TestEndsWithoutRequests(t *testing.T) {
	t.Parallel()
	p := start(t)
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.says(t, "closed")
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("the process ended with %v", err)
	}
}
