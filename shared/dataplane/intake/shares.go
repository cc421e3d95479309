package intake

import (
	"net"
	"net/netip"
	"sync"
)

// Shares divides a budget among addresses, whose clients choose how much they take and for how long. An address gets
// more only while it has less than is free, so that few addresses leave room for the others.
type Shares struct {
	// Budget is what all addresses may have together.
	Budget int64

	mu        sync.Mutex
	all       int64
	ofAddress map[netip.Addr]int64
}

// Add counts more, or less, of an address, and reports whether there is room for it. It counts what it has no room for,
// too: the caller gives it back.
func (s *Shares) Add(address netip.Addr, more int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ofAddress == nil {
		s.ofAddress = map[netip.Addr]int64{}
	}
	s.all += more
	of := s.ofAddress[address] + more
	if s.ofAddress[address] = of; of == 0 {
		delete(s.ofAddress, address)
	}
	return more <= 0 || of <= s.Budget-s.all+more
}

// AddressOf returns the address of a client, the same for IPv4 and for IPv4 within IPv6.
func AddressOf(client net.Addr) netip.Addr {
	switch a := client.(type) {
	case *net.TCPAddr:
		return a.AddrPort().Addr().Unmap().WithZone("")
	case *net.UDPAddr:
		return a.AddrPort().Addr().Unmap().WithZone("")
	default:
		return netip.Addr{}
	}
}
