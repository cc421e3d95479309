package router

import (
	"context"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"
)

// The front of an agent may use a quarter of a CPU. Whoever has no credential must not keep it busy with refusals, so
// each agent gets few requests of strangers, which are addresses from which it has not accepted a request lately.
const (
	// turn is how often strangers get their turn; turnRequests is how many of their requests an agent gets then, and
	// turnAddress how many of one address. A turn begins with turnFirst requests. The others are spread over it, so
	// that a client's request waits for few of them.
	turn         = 100 * time.Millisecond
	turnRequests = 10
	turnFirst    = 2
	turnAddress  = 2
	// maxStrangers bounds the requests of strangers that the agent has not answered yet.
	maxStrangers = 64
	// patience is how long a stranger's request waits for its turn, and maxWaiting bounds those that wait for an agent.
	// A client that floods an agent waits, too, before it can send the next one. The time varies by as much, so that
	// many clients do not come back together.
	patience   = time.Second
	maxWaiting = 512
	// knownTime is how long an address is known after the agent accepted a request, and maxKnown bounds the addresses.
	knownTime = time.Hour
	maxKnown  = 256
)

// clients are the addresses of one agent's clients.
type clients struct {
	mu sync.Mutex
	// known has the time at which each known address is a stranger again.
	known map[netip.Addr]time.Time
	// admitted has the requests that strangers sent in the turn that ends at turnEnds.
	admitted map[netip.Addr]int
	turnEnds time.Time
	requests int // in admitted
	inFlight int // of strangers
	waiting  int
}

func (c *clients) knows(address netip.Addr, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return now.Before(c.known[address])
}

// learn remembers an address from which the agent accepted a request.
func (c *clients) learn(address netip.Addr, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	until, known := c.known[address]
	if until.Sub(now) > knownTime-time.Minute {
		return
	}
	if c.known == nil {
		c.known = map[netip.Addr]time.Time{}
	}
	if !known && len(c.known) >= maxKnown {
		for other := range c.known { // any
			delete(c.known, other)
			break
		}
	}
	c.known[address] = now.Add(knownTime)
}

// admit reports whether the agent may get a stranger's request now. Then the request must leave.
func (c *clients) admit(address netip.Addr, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !now.Before(c.turnEnds) {
		c.turnEnds, c.requests, c.admitted = now.Add(turn), 0, map[netip.Addr]int{}
	}
	if now.Before(c.known[address]) {
		c.inFlight++
		return true
	}
	if c.requests >= c.openTo(now) || c.admitted[address] >= turnAddress || c.inFlight >= maxStrangers {
		return false
	}
	c.requests++
	c.admitted[address]++
	c.inFlight++
	return true
}

// openTo returns how many requests of strangers the agent gets from the beginning of the turn to a time in it.
func (c *clients) openTo(now time.Time) int {
	return turnRequests - int((turnRequests-turnFirst)*c.turnEnds.Sub(now)/turn)
}

func (c *clients) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inFlight--
}

// enqueue reports whether a request may wait, where free more may wait for any agent. Then it must dequeue. An agent
// gets another one only while it has fewer than are free, so that floods of few agents leave room for the others.
func (c *clients) enqueue(free int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if int64(c.waiting) >= min(maxWaiting, free) {
		return false
	}
	c.waiting++
	return true
}

func (c *clients) dequeue() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting--
}

// awaitTurn waits until the agent may get a stranger's request, and reports whether that came about in time. Then the
// request must leave.
func (r *Router) awaitTurn(ctx context.Context, a *route, address netip.Addr) bool {
	if a.clients.admit(address, time.Now()) {
		return true
	}
	defer r.waiting.Add(-1)
	if !a.clients.enqueue(r.limits.Requests/4 - r.waiting.Add(1) + 1) {
		return false
	}
	defer a.clients.dequeue()
	// So a request asks again in the turn in which it came too early, and not together with others.
	wait := func() time.Duration { return turn/4 + rand.N(turn/2) }
	next := time.NewTimer(wait())
	defer next.Stop()
	for end := time.Now().Add(patience + rand.N(patience)); ; {
		select {
		case <-ctx.Done():
			return false
		case now := <-next.C:
			if a.clients.admit(address, now) {
				return true
			}
			if !now.Before(end) {
				return false
			}
			next.Reset(wait())
		}
	}
}

// accepts reports whether a front answers with a status only if a credential or a link was good. With others it may
// have refused a stranger.
func accepts(status int) bool {
	switch status {
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusMethodNotAllowed,
		http.StatusMisdirectedRequest, http.StatusTooManyRequests, http.StatusRequestHeaderFieldsTooLarge,
		clientClosed: // no front has answered
		return false
	}
	return status < http.StatusInternalServerError
}

// behindBalancer is the client's place in what Google's load balancer sends as X-Forwarded-For, from the right.
const behindBalancer = 2

// clientAddress returns the address of the client. Without a load balancer, whose requests arrived over HTTPS, it is
// that of the connection. A network of IPv6 addresses, which one client has, is one address.
func clientAddress(req *http.Request) netip.Addr {
	from, _ := netip.ParseAddrPort(req.RemoteAddr) // in tests, connections have other addresses
	address := from.Addr()
	if overHTTPS(req) {
		chain := strings.Join(req.Header["X-Forwarded-For"], ",")
		for range behindBalancer - 1 {
			chain = chain[:max(0, strings.LastIndexByte(chain, ','))]
		}
		last := chain[strings.LastIndexByte(chain, ',')+1:]
		if client, err := netip.ParseAddr(strings.TrimSpace(last)); err == nil {
			address = client
		}
	}
	if address = address.Unmap().WithZone(""); address.Is6() {
		network, _ := address.Prefix(64) // an IPv6 address has more bits
		return network.Addr()
	}
	return address
}

// overHTTPS reports whether a request reached the load balancer over HTTPS.
func overHTTPS(req *http.Request) bool {
	proto := req.Header["X-Forwarded-Proto"]
	return len(proto) > 0 && proto[len(proto)-1] == "https"
}
