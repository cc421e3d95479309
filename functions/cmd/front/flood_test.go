package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/testtier"
)

// Variables that make the test binary the flood instead.
const (
	floodAddress = "FRONT_TEST_FLOOD_ADDRESS"
	floodHost    = "FRONT_TEST_FLOOD_HOST"
	floodKind    = "FRONT_TEST_FLOOD_KIND"

	floodClients = 512
)

func TestMain(m *testing.M) {
	if address := os.Getenv(floodAddress); address != "" {
		flood(address, os.Getenv(floodHost), floods[os.Getenv(floodKind)])
		return
	}
	os.Exit(m.Run())
}

// request is what a stranger sends: its first line without the protocol, and what follows the load balancer's lines.
type request struct{ line, rest string }

var floods = map[string]request{
	"no credential":      {"GET /x", "\r\n"},
	"wrong password":     {"GET /x", "Authorization: Basic eDp5\r\n\r\n"},
	"one line, 60 kB":    {"GET /x", headerLine(60_000) + "\r\n"},
	"one line, 15 kB":    {"GET /x", headerLine(15_000) + "\r\n"},
	"long lines, 15 kB":  {"GET /x", strings.Repeat(headerLine(600), 25) + "\r\n"},
	"short lines, 60 kB": {"GET /x", shortLines(60_000) + "\r\n"},
	"short lines, 15 kB": {"GET /x", shortLines(15_000) + "\r\n"},
	"unfinished, 60 kB":  {"GET /x", shortLines(60_000)},
	"unfinished, 15 kB":  {"GET /x", headerLine(15_000)},
	"slow bodies":        {"POST /x", headerLine(15_000) + "Content-Length: 100000\r\n\r\nx"},
	"readiness":          {"GET " + dataplane.PathReady, headerLine(15_000) + "\r\n"},
}

func headerLine(length int) string { return "X: " + strings.Repeat("y", length) + "\r\n" }

// shortLines returns as many header lines as fit, each with another name.
func shortLines(length int) string {
	var b strings.Builder
	for i := 0; b.Len() < length; i++ {
		fmt.Fprintf(&b, "x%x:\r\n", i)
	}
	return b.String()
}

// flood sends a request over and over from many clients until its input ends. It prints how often it got each answer.
func flood(address, host string, what request) {
	ctx, stop := context.WithCancel(context.Background())
	var mu sync.Mutex
	answers := map[string]int{}
	var clients sync.WaitGroup
	for i := range floodClients {
		clients.Go(func() {
			text := fmt.Sprintf("%s HTTP/1.1\r\nHost: %s\r\nX-Forwarded-For: 198.18.%d.%d, 192.0.2.1\r\n"+
				"X-Forwarded-Proto: https\r\n%s", what.line, host, i>>8, i&0xff, what.rest)
			for ctx.Err() == nil {
				for answer := range floodConnection(ctx, address, text) {
					mu.Lock()
					answers[answer]++
					mu.Unlock()
				}
			}
		})
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	stop()
	clients.Wait()
	_ = json.NewEncoder(os.Stdout).Encode(answers)
}

// floodConnection repeats a request on a connection until that ends.
func floodConnection(ctx context.Context, address, text string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err != nil {
			yield("no connection")
			<-time.After(10 * time.Millisecond)
			return
		}
		defer context.AfterFunc(ctx, func() { _ = c.Close() })()
		defer c.Close() //nolint:errcheck // nothing is lost
		for reader := bufio.NewReader(c); ; {
			_, sendErr := io.WriteString(c, text)
			res, err := http.ReadResponse(reader, nil)
			if err != nil {
				if ctx.Err() == nil {
					yield("none")
				}
				return
			}
			_, err = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
			if !yield(res.Status[:3]) || sendErr != nil || err != nil || res.Close {
				return
			}
		}
	}
}

// TestFlood_KillsNoProcessAndFailsNoClient runs the router and the front of an agent with their limits in the cluster.
// Strangers without a credential send them all they can, while a client of the agent goes on.
//
// FRONT_TEST_FLOOD_TIME is how long each kind of flood lasts; by default, all together take 20 seconds.
func TestFlood_KillsNoProcessAndFailsNoClient(t *testing.T) {
	testtier.RequireFull(t, "builds and runs binaries")
	if runtime.GOOS != "linux" {
		t.Skip("needs control groups")
	}
	lasts := 20 * time.Second / time.Duration(len(floods))
	if text := os.Getenv("FRONT_TEST_FLOOD_TIME"); text != "" {
		var err error
		if lasts, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	binaries := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binaries, ".", "../router").
		CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	for i, kind := range slices.Sorted(maps.Keys(floods)) {
		t.Run(kind, func(t *testing.T) {
			c := startCell(t, binaries, i)
			alone := c.use(t, min(lasts, 10*time.Second))
			stop := c.flood(t, kind)
			next := c.use(t, lasts)
			answers := stop()
			t.Logf("strangers: %v", answers)
			t.Logf("client: %v alone, %v next to the flood, %.1f x", alone, next,
				float64(next.percentile(.99))/float64(alone.percentile(.99)))
			if alone.failed+next.failed > 0 {
				t.Errorf("%d of %d requests of the client failed, want none: %v", alone.failed+next.failed,
					len(alone.took)+len(next.took), next.answers)
			}
			for name, p := range c.pods {
				peak, kills := p.group.use(t)
				t.Logf("%s: at most %.1f of %d MiB", name, peak, p.memoryMiB)
				if kills > 0 || p.memoryMiB == 0 {
					t.Errorf("the %s was killed %d times", name, kills)
				}
			}
		})
	}
}

// flood starts the strangers. stop ends them and returns the answers that they got.
func (c *cell) flood(t *testing.T, kind string) (stop func() map[string]int) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// Strangers have machines of their own. Here they get the CPU that nothing else wants.
	cmd := exec.CommandContext(t.Context(), "nice", "-n", "19", self)
	cmd.Env = append(os.Environ(), floodAddress+"="+c.address, floodHost+"="+c.host, floodKind+"="+kind)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return func() (answers map[string]int) {
		_ = in.Close()
		if err := errors.Join(cmd.Wait(), json.Unmarshal(out.Bytes(), &answers)); err != nil {
			t.Fatalf("the flood: %v: %s", err, out.Bytes())
		}
		return answers
	}
}
