// Package publicnet connects to public addresses of the internet, and to no others. Whoever controls the DNS of a
// hostname must not be able to make this process connect to what is near it. The package does not check URLs.
package publicnet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"
)

// ErrNotPublic says that a name stands for an address that is not one of the internet.
var ErrNotPublic = errors.New("not a public address")

// Lookup finds the addresses of a name, as net.Resolver.LookupNetIP does.
type Lookup func(ctx context.Context, network, host string) ([]netip.Addr, error)

// Dialer connects to the addresses that a hostname stands for, one after the other until one accepts.
type Dialer struct {
	// Find looks up names. Nil means the resolver of the machine.
	Find Lookup
	// Allow accepts addresses in addition to public ones. Nil accepts none.
	Allow func(netip.Addr) bool
	// Dialer makes the connections.
	net.Dialer
}

// DialContext implements the DialContext of an http.Transport. It looks the name up once, and dials the addresses that
// it checked: a second answer of the DNS has no effect. It refuses a name with any address that is not public.
func (d Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	find := d.Find
	if find == nil {
		find = net.DefaultResolver.LookupNetIP
	}
	found, err := find(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, &net.DNSError{Err: "no address", Name: host, IsNotFound: true}
	}
	for _, a := range found {
		if !d.allowed(a) { // one is enough to distrust the answer
			return nil, fmt.Errorf("%s: %w", a, ErrNotPublic)
		}
	}
	return d.dialAny(ctx, network, port, choose(found))
}

const (
	// maxTries bounds the addresses that are dialed.
	maxTries = 4
	// minShare is for how long one is dialed at least, if there is time: a packet that was lost is sent again.
	minShare = 2 * time.Second
)

// dialAny dials one address after the other. Each gets its share of the time that is left.
func (d Dialer) dialAny(ctx context.Context, network, port string, addresses []netip.Addr) (net.Conn, error) {
	if d.Timeout > 0 {
		limited, cancel := context.WithTimeout(ctx, d.Timeout)
		defer cancel()
		ctx = limited
	}
	var errs []error
	for left := min(len(addresses), maxTries); left > 0 && ctx.Err() == nil; left-- {
		address := net.JoinHostPort(addresses[len(errs)].String(), port)
		conn, err := d.dial(ctx, left, network, address)
		if err == nil {
			return conn, nil
		}
		errs = append(errs, err)
	}
	return nil, cmp.Or(errors.Join(errs...), ctx.Err())
}

// dial dials one of the addresses that are left.
func (d Dialer) dial(ctx context.Context, left int, network, address string) (net.Conn, error) {
	if end, ok := ctx.Deadline(); ok {
		share, cancel := context.WithTimeout(ctx, max(time.Until(end)/time.Duration(left), minShare))
		defer cancel()
		ctx = share
	}
	dialer := d.Dialer
	dialer.ControlContext = d.guard
	return dialer.DialContext(ctx, network, address)
}

func (d Dialer) allowed(a netip.Addr) bool { return Public(a) || d.Allow != nil && d.Allow(a.Unmap()) }

// guard checks the address of a socket right before it connects, in case a mistake in DialContext let another one pass.
func (d Dialer) guard(ctx context.Context, network, address string, c syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	switch {
	case err != nil || !d.allowed(to.Addr()):
		return fmt.Errorf("%s: %w", address, ErrNotPublic)
	case d.ControlContext != nil:
		return d.ControlContext(ctx, network, address, c)
	case d.Control != nil:
		return d.Control(network, address, c)
	default:
		return nil
	}
}

// choose prefers IPv4, which every network of ours has.
func choose(addresses []netip.Addr) []netip.Addr {
	var chosen []netip.Addr
	for _, a := range addresses {
		if a.Unmap().Is4() {
			chosen = append(chosen, a.Unmap())
		}
	}
	if len(chosen) == 0 {
		return addresses
	}
	return chosen
}

// Public reports whether an address is one of the internet.
func Public(a netip.Addr) bool {
	a = a.Unmap()
	if a.Zone() != "" || !a.IsGlobalUnicast() || a.IsPrivate() || a.Is6() && !allocated().Contains(a) {
		return false
	}
	for _, r := range reserved() {
		if r.Contains(a) {
			return false
		}
	}
	return true
}

// allocated is the only range of IPv6 whose addresses are assigned to networks of the internet.
var allocated = sync.OnceValue(func() netip.Prefix { return netip.MustParsePrefix("2000::/3") })

// reserved lists ranges that netip does not know as special but that are not of the internet, or lead to such: IPv6
// addresses can contain IPv4 ones.
var reserved = sync.OnceValue(func() []netip.Prefix {
	ranges := []string{
		"34.118.224.0/20", // Services of a GKE cluster, such as its API server: inside of one, nothing else has them
		"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15",
		"198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4",
		"2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
	}
	prefixes := make([]netip.Prefix, len(ranges))
	for i, r := range ranges {
		prefixes[i] = netip.MustParsePrefix(r)
	}
	return prefixes
})
