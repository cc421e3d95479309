//go:build unix

package run

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"agents.example/controlplane/shared/function"
)

// asProcess is set in the environment of a child process that runs the service instead of the tests.
const asProcess = "RUN_TEST_AS_PROCESS"

// patience bounds every wait. Only a failing test reaches it.
const patience = 2 * time.Minute

func TestMain(m *testing.M) {
	if os.Getenv(asProcess) != "" {
		Main(func(context.Context) (Service, error) { return slowService(), nil })
	}
	os.Exit(m.Run())
}

// slowService answers at /quick and, when it has read the body, at /body. It prints a line when a
// request at /slow has arrived, answers it after a line on standard input, and prints a line when it closes.
func slowService() Service {
	stdin := bufio.NewReader(os.Stdin)
	mux := http.NewServeMux()
	mux.HandleFunc("/quick", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "quick") })
	mux.HandleFunc("/body", func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); errors.Is(err, os.ErrDeadlineExceeded) {
			w.WriteHeader(http.StatusRequestTimeout)
		}
	})
	mux.HandleFunc("/slow", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Println("arrived")
		_, _ = stdin.ReadString('\n')
		fmt.Fprint(w, strings.Repeat("answer ", 1000))
	})
	mux.HandleFunc("/events", func(w http.ResponseWriter, r *http.Request) {
		fmt.Println("waiting")
		<-function.Shutdown(r.Context())
		fmt.Fprint(w, "the end")
	})
	return Service{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if req.URL.Path == "//raw/../path" { // the mux would redirect
				fmt.Fprint(w, "raw")
				return
			}
			mux.ServeHTTP(w, req)
		}),
		Host: "127.0.0.1", Port: "0",
		Close: func() error { fmt.Println("closed"); return nil },
	}
}

// child is a process that runs the service.
type child struct {
	cmd    *exec.Cmd
	addr   string
	stdin  io.Writer
	stdout *bufio.Scanner
}

func start(t *testing.T) *child {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), asProcess+"=1")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return &child{cmd, servingAddress(t, stderr), stdin, bufio.NewScanner(stdout)}
}

// servingAddress reads the log of a process until it serves.
func servingAddress(t *testing.T, log io.Reader) string {
	t.Helper()
	var lines strings.Builder
	for scanner := bufio.NewScanner(io.TeeReader(log, &lines)); scanner.Scan(); {
		var entry struct{ Message, Address string }
		if json.Unmarshal(scanner.Bytes(), &entry) == nil && entry.Message == "serving" {
			go io.Copy(io.Discard, log) //nolint:errcheck // it ends with the process
			return entry.Address
		}
	}
	t.Fatalf("the process does not serve:\n%s", &lines)
	return ""
}

func (p *child) get(ctx context.Context, path string) (string, error) {
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
	defer res.Body.Close() //nolint:errcheck // only read
	b, err := io.ReadAll(res.Body)
	if res.StatusCode != http.StatusOK {
		return "", fmt.Errorf("status %d", res.StatusCode)
	}
	return string(b), err
}

// waitForLine reads the output until a line equals word. The framework also prints lines.
func (p *child) waitForLine(t *testing.T, word string) {
	t.Helper()
	for p.stdout.Scan() {
		if p.stdout.Text() == word {
			return
		}
	}
	t.Fatalf("the output ended without the line %q", word)
}

// waitFor waits until a condition holds.
func waitFor(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-ctx.Done():
			t.Fatalf("timed out after %s waiting for %s", patience, what)
		case <-tick.C:
		}
	}
}

// TestMain_FinishesRequestsInFlight: on SIGTERM the process refuses new requests, completes the one in flight, closes
// its clients and exits with 0.
func TestMain_FinishesRequestsInFlight(t *testing.T) {
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
	p.waitForLine(t, "arrived")
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "new requests to be refused", func() bool {
		_, err := p.get(t.Context(), "/quick")
		return errors.Is(err, syscall.ECONNREFUSED)
	})
	select {
	case a := <-answered:
		t.Fatalf("the request in flight ended early: %+v", a)
	default:
	}
	fmt.Fprintln(p.stdin)
	if a := <-answered; a.err != nil || a.body != strings.Repeat("answer ", 1000) {
		t.Errorf("request in flight = %d bytes, %v; want the complete body", len(a.body), a.err)
	}
	p.waitForLine(t, "closed")
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("exit of the process: %v, want 0", err)
	}
}

// TestMain_PassesPathsUnchanged: functions-framework must not redirect, because clients then drop bodies and headers.
func TestMain_PassesPathsUnchanged(t *testing.T) {
	t.Parallel()
	if got, err := start(t).get(t.Context(), "//raw/../path"); got != "raw" || err != nil {
		t.Errorf("answer = %q, %v; want that of the handler", got, err)
	}
}

func TestMain_EndsWithoutRequests(t *testing.T) {
	t.Parallel()
	p := start(t)
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.waitForLine(t, "closed")
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("exit of the process: %v, want 0", err)
	}
}

// TestMain_EndsAnswersThatWait: an answer that waits for events ends when the shutdown begins.
func TestMain_EndsAnswersThatWait(t *testing.T) {
	t.Parallel()
	p := start(t)
	answered := make(chan string, 1)
	go func() {
		body, _ := p.get(context.Background(), "/events")
		answered <- body
	}()
	p.waitForLine(t, "waiting")
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.waitForLine(t, "closed")
	if body := <-answered; body != "the end" {
		t.Errorf("answer %q, want %q", body, "the end")
	}
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("the process ended with %v, want success", err)
	}
}
