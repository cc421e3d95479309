package router_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"agents.example/controlplane/shared/dataplane/router"
	"agents.example/controlplane/shared/testtier"
)

// Variables that make the test binary the crowd instead.
const (
	crowdAddress = "ROUTER_TEST_CROWD_ADDRESS"
	crowdHost    = "ROUTER_TEST_CROWD_HOST"
	crowdLimit   = 512
)

// crowdSize is the number of connections to one agent. The race detector allows some 8,000 goroutines.
func crowdSize() int {
	if tier, err := testtier.Current(); err != nil || tier == testtier.Embedded || testtier.RaceDetector {
		return 2000
	}
	return 10_000
}

// crowd opens many connections to one agent and sends a request on each. It prints how many were refused when only as
// many as the limit have no answer, and keeps all connections open until its input ends.
func crowd(address, host string) {
	var refused, failed atomic.Int64
	var waiting sync.WaitGroup
	waiting.Add(crowdSize() - crowdLimit)
	for range crowdSize() {
		c, err := net.Dial("tcp", address)
		if err != nil {
			fmt.Println("dial:", err)
			return
		}
		go func() {
			fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", host)
			res, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				return // the end of the test
			}
			_ = res.Body.Close()
			if res.StatusCode == http.StatusServiceUnavailable && res.Header.Get("Retry-After") != "" {
				refused.Add(1)
			} else {
				failed.Add(1)
			}
			waiting.Done()
		}()
	}
	waiting.Wait()
	fmt.Println("refused", refused.Load(), "others", failed.Load())
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// TestRouter_ServesOthersNextToACrowd holds thousands of connections to one agent. The crowd is a separate process
// because it needs as many files as the router.
func TestRouter_ServesOthersNextToACrowd(t *testing.T) {
	w := newWorld(t, func(o *router.Options) { o.Limits.AgentRequests = crowdLimit })
	busy := w.occupy(crowdLimit)
	w.get(hostname(busy.Agent), "/hello") // strangers have to wait
	other := w.start("other", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "fine") })
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), crowdAddress+"="+w.address, crowdHost+"="+hostname(busy.Agent))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = in.Close(), cmd.Wait() }()
	defer close(busy.release)
	line, _ := bufio.NewReader(out).ReadString('\n')
	if want := fmt.Sprintf("refused %d others 0", crowdSize()-crowdLimit); strings.TrimSpace(line) != want {
		t.Errorf("the crowd got %q, want %q", line, want)
	}
	for range 100 {
		if res, body := w.get(hostname(other), "/"); res.status != http.StatusOK || body != "fine" {
			t.Fatalf("another agent's request next to the crowd got %d %q, want 200", res.status, body)
		}
	}
}
