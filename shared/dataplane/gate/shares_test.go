package gate_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"agents.example/controlplane/shared/dataplane/gate"
)

// hostile returns the addresses of agents that take what they can get.
func (w *world) hostile(agents int, hosts string) []string {
	addresses := make([]string, agents)
	for i := range addresses {
		addresses[i] = fmt.Sprintf("127.0.1.%d", i+1)
		w.set(addresses[i], fmt.Sprintf("hostile-%d", i), allow(hosts))
	}
	return addresses
}

// TestTLS_LeavesConnectionsForOtherAgents: one customer's agents, each within its limit, do not take all connections.
func TestTLS_LeavesConnectionsForOtherAgents(t *testing.T) {
	t.Parallel()
	const each, agents = 8, 3
	w := newWorld(t, few(each), func(o *gate.Options) { o.Limits.Connections = each * agents })
	w.set(agentAddress, agentID, allow("api.example.com"))
	w.host("api.example.com:443", echo(t))
	sent := hello(t, "api.example.com")
	taken := 0
	for _, address := range w.hostile(agents, "api.example.com") {
		for range each {
			if w.echoes(t, address, sent) {
				taken++
			}
		}
	}
	if taken < each*agents/2 {
		t.Errorf("the other agents got %d connections, want most of %d", taken, each*agents)
	}
	if !w.echoes(t, agentAddress, sent) {
		t.Errorf("an agent without a connection was refused its first one, next to %d of others", taken)
	}
}

// TestWeb_LeavesRequestsForOtherAgents: the same for requests in flight, and the memory that they take.
func TestWeb_LeavesRequestsForOtherAgents(t *testing.T) {
	t.Parallel()
	const each, agents = 8, 3
	for name, limit := range map[string]func(*gate.Options){
		"requests": func(o *gate.Options) { o.Limits.AgentRequests, o.Limits.Requests = each, each*agents },
		"memory": func(o *gate.Options) { // 60 KiB for a request
			o.Limits.AgentMemory, o.Limits.Memory = each*60<<10, each*agents*60<<10
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, limit)
			began, release := make(chan struct{}, each*agents), make(chan struct{})
			defer close(release)
			w.serveHTTP(t, "slow.example.com", func(http.ResponseWriter, *http.Request) {
				began <- struct{}{}
				<-release
			})
			w.serveHTTP(t, "api.example.com", func(http.ResponseWriter, *http.Request) {})
			w.set(agentAddress, agentID, allow("*.example.com"))
			taken := 0
			for _, address := range w.hostile(agents, "*.example.com") {
				for range each {
					if w.occupy(t, address, began) {
						taken++
					}
				}
			}
			if taken < each*agents/2 {
				t.Errorf("the other agents got %d requests, want most of %d", taken, each*agents)
			}
			if got := get(t, w.client(t, agentAddress, nil), "http://api.example.com/"); got.status != http.StatusOK {
				t.Errorf("an agent's first request next to %d of others got %+v, want 200", taken, got)
			}
		})
	}
}

// occupy sends a request that gets no answer, and reports whether the gate has forwarded it.
func (w *world) occupy(t *testing.T, address string, began <-chan struct{}) bool {
	t.Helper()
	c := w.open(t, address, w.web)
	_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: slow.example.com\r\n\r\n")
	refused := make(chan struct{})
	go func() {
		defer close(refused)
		_, _ = io.ReadFull(c, make([]byte, 1)) // until the gate refuses it, or the test ends
	}()
	select {
	case <-began:
		return true
	case <-refused:
		return false
	}
}

// TestWeb_LeavesLargeHeadersForOtherAgents: agents that leave large headers unfinished keep no other agent's out.
func TestWeb_LeavesLargeHeadersForOtherAgents(t *testing.T) {
	t.Parallel()
	// 600 headers of 31 KiB beyond what each may have take more than 16 MiB.
	const each, lines = 300, 125
	w := newWorld(t, func(o *gate.Options) { o.Timeouts.Hello = patience })
	w.serveHTTP(t, "api.example.com", func(http.ResponseWriter, *http.Request) {})
	w.set(agentAddress, agentID, allow("api.example.com"))
	large := "GET / HTTP/1.1\r\nHost: api.example.com\r\n" +
		strings.Repeat("X-Large: "+strings.Repeat("x", 118)+"\r\n", lines)
	refused := make(chan struct{}, 2*each)
	for _, address := range w.hostile(2, "api.example.com") {
		for range each {
			c := w.open(t, address, w.web)
			_, _ = io.WriteString(c, large) // some are refused before that
			go func() {
				if n, _ := c.Read(make([]byte, 1)); n > 0 {
					refused <- struct{}{}
				}
			}()
		}
	}
	select {
	case <-refused:
	case <-t.Context().Done():
		t.Fatal("no header was refused")
	}
	c := w.open(t, agentAddress, w.web)
	_, _ = io.WriteString(c, large+"Connection: close\r\n\r\n")
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close() //nolint:errcheck // only read
	if answer.StatusCode != http.StatusOK {
		t.Errorf("a large header of another agent got %d, want 200", answer.StatusCode)
	}
}
