package podworker

import (
	"fmt"
	"net/netip"
	"sync"

	"agents.example/controlplane/emulators/process"
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

// ports are the ports that pods have in place of those that they declare. One is taken again late: a server may listen
// at all addresses, also at that of the pod before.
type ports struct {
	mu   sync.Mutex
	free []int // of pods that ended
}

// resting is how many ports of pods that ended no pod takes.
const resting = 100

func (p *ports) take() (port int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.free) <= resting {
		return process.FreePort()
	}
	port, p.free = p.free[0], p.free[1:]
	return port, nil
}

// release gives back a port, unless it is 0.
func (p *ports) release(port int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if port != 0 {
		p.free = append(p.free, port)
	}
}
