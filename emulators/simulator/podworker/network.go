package podworker

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"strconv"
	"sync"
)

// addresses are the addresses of pods. An address is taken again as late as possible.
type addresses struct {
	block netip.Prefix

	mu    sync.Mutex
	last  netip.Addr
	taken map[netip.Addr]bool
}

func newAddresses(block netip.Prefix) *addresses {
	return &addresses{block: block, last: firstAddress(block), taken: map[netip.Addr]bool{}}
}

// firstAddress leaves out the first 256 addresses of a block, one of which is that of the nodes.
func firstAddress(block netip.Prefix) netip.Addr {
	first := block.Addr().As4()
	first[2]++
	return netip.AddrFrom4(first)
}

func (a *addresses) take() (netip.Addr, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for range 1 << (32 - a.block.Bits()) {
		if a.last = a.last.Next(); !a.block.Contains(a.last) {
			a.last = firstAddress(a.block)
		}
		if last := a.last.As4()[3]; last != 0 && last != 255 && !a.taken[a.last] {
			a.taken[a.last] = true
			return a.last, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("all pod addresses of %s are taken", a.block)
}

func (a *addresses) release(address netip.Addr) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.taken, address)
}

// The range of pods' ports. Operating systems take no outgoing ports from it, so a port stays free until its user
// listens.
const (
	firstPort = 10_000
	lastPort  = 32_000
	portTries = 1000
)

// ports are the ports that pods have in place of those that they declare.
type ports struct {
	mu    sync.Mutex
	taken map[int]bool
}

func newPorts() *ports { return &ports{taken: map[int]bool{}} }

// take returns a random port that no process listens on. Another process may take it before the pod listens, but that
// is unlikely.
func (p *ports) take() (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for range portTries {
		port := firstPort + rand.IntN(lastPort-firstPort)
		if p.taken[port] {
			continue
		}
		listener, err := net.Listen("tcp", ":"+strconv.Itoa(port)) //nolint:noctx // returns immediately
		if err != nil {
			continue
		}
		p.taken[port] = true
		return port, listener.Close()
	}
	return 0, errors.New("found no free port for a pod")
}

func (p *ports) release(port int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.taken, port)
}
