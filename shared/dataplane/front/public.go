package front

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"agents.example/controlplane/shared/dataplane"
)

// Bounds of requests that need no credential. Whoever sends them leaves room for the agent's users.
const (
	// publicRate is how many begin in a second, and publicBurst how many at the same time after a pause.
	publicRate, publicBurst = 50, 100
	// maxPublic bounds those in flight, maxPublicAddress those of one client, and maxPublicSockets the WebSockets,
	// which may stay open for days.
	maxPublic, maxPublicAddress, maxPublicSockets = 64, 32, 48
	// publicTime is how long one may take, body and answer included. A WebSocket lasts as long as both sides want.
	publicTime = 2 * time.Minute
)

// publicPaths are the paths that anyone may request.
type publicPaths []string

// have reports whether a request is for one of the paths.
func (p publicPaths) have(req *http.Request) bool {
	if len(p) == 0 {
		return false
	}
	sent, ok := dataplane.PlainPath(req)
	return ok && slices.ContainsFunc(p, func(public string) bool { return dataplane.CoversPath(public, sent) })
}

func checkPublicPaths(paths []string) error {
	for _, path := range paths {
		if err := dataplane.CheckPublicPath(path); err != nil {
			return fmt.Errorf("public path: %w", err)
		}
	}
	return nil
}

// publicLimits bound the requests that need no credential.
type publicLimits struct {
	now  func() time.Time
	rate *rate.Limiter

	mu sync.Mutex
	// inFlight has the requests of each address, sockets how many of all are WebSockets.
	inFlight     map[string]int
	all, sockets int
}

func newPublicLimits(now func() time.Time) *publicLimits {
	return &publicLimits{now: now, rate: rate.NewLimiter(publicRate, publicBurst), inFlight: map[string]int{}}
}

// enter reports whether the limits leave room for a request. Then it must leave. An address gets another request only
// while it has fewer than are free, so that a few addresses do not take all.
func (l *publicLimits) enter(address string, socket bool) (leave func(), ok bool) {
	one := 0
	if socket {
		one = 1
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.inFlight[address] >= min(maxPublicAddress, maxPublic-l.all) || l.sockets+one > maxPublicSockets ||
		!l.rate.AllowN(l.now(), 1) {
		return nil, false
	}
	l.all++
	l.sockets += one
	l.inFlight[address]++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.all--
		l.sockets -= one
		if l.inFlight[address]--; l.inFlight[address] == 0 {
			delete(l.inFlight, address)
		}
	}, true
}

// isWebSocket reports whether a request asks for a WebSocket.
func isWebSocket(req *http.Request) bool {
	if req.Method != http.MethodGet || !strings.EqualFold(req.Header.Get("Upgrade"), "websocket") {
		return false
	}
	for token := range strings.SplitSeq(strings.Join(req.Header.Values("Connection"), ","), ",") {
		if strings.EqualFold(strings.TrimSpace(token), "upgrade") {
			return true
		}
	}
	return false
}
