package agentprobe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
)

// errNotPublic says that a name stands for an address inside some network. Whoever can change a hostname's DNS must not
// be able to have this process speak to what is near it.
var errNotPublic = errors.New("not a public address")

// dialer connects to the one address that a hostname stands for.
type dialer struct {
	override string
	find     lookup
	net.Dialer
}

// dial implements the DialContext of a transport. The name is looked up once, and what is checked is what is dialled: a
// second answer of the DNS has no say.
func (d dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if d.override != "" {
		if _, _, err := net.SplitHostPort(d.override); err == nil {
			return d.DialContext(ctx, network, d.override)
		}
		return d.DialContext(ctx, network, net.JoinHostPort(d.override, port))
	}
	found, err := d.find(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, &net.DNSError{Err: "no address", Name: host, IsNotFound: true}
	}
	for _, a := range found {
		if !public(a) { // one is enough to distrust the answer
			return nil, fmt.Errorf("%s: %w", a, errNotPublic)
		}
	}
	return d.DialContext(ctx, network, net.JoinHostPort(choose(found).String(), port))
}

// choose prefers IPv4, which every network of ours has.
func choose(addresses []netip.Addr) netip.Addr {
	for _, a := range addresses {
		if a.Unmap().Is4() {
			return a.Unmap()
		}
	}
	return addresses[0]
}

// public reports whether an address is one of the internet.
func public(a netip.Addr) bool {
	a = a.Unmap()
	if a.Zone() != "" || !a.IsGlobalUnicast() || a.IsPrivate() {
		return false
	}
	for _, r := range reserved() {
		if r.Contains(a) {
			return false
		}
	}
	return true
}

// reserved lists ranges that netip does not know as special but that are not of the internet, or lead to such: IPv4
// addresses can be wrapped in IPv6 ones.
func reserved() []netip.Prefix {
	return []netip.Prefix{
		netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"),
		netip.MustParsePrefix("192.0.0.0/24"),
		netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("198.18.0.0/15"),
		netip.MustParsePrefix("198.51.100.0/24"),
		netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("192.88.99.0/24"),
		netip.MustParsePrefix("240.0.0.0/4"),
		netip.MustParsePrefix("::/96"), netip.MustParsePrefix("64:ff9b::/96"), netip.MustParsePrefix("64:ff9b:1::/48"),
		netip.MustParsePrefix("100::/64"), netip.MustParsePrefix("2001::/32"), netip.MustParsePrefix("2001:db8::/32"),
		netip.MustParsePrefix("2002::/16"), netip.MustParsePrefix("fec0::/10"), netip.MustParsePrefix("5f00::/16"),
	}
}
