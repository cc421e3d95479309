// Package clientip finds the address of a request's client. It believes only proxies in front of the process: whatever
// a client writes into headers by itself does not change its address.
package clientip

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"net/netip"
	"strings"
)

// The headers that the load balancer sets on every request. They replace what a client sends under these names, or
// follow it, so the last value counts.
const (
	// AddressHeader has the address from which the load balancer received the request.
	AddressHeader = "X-Edge-Client-Address"
	// SecretHeader has a secret that only the load balancer and the functions know.
	SecretHeader = "X-Edge-Secret"
)

// Unknown is the address of a client if no proxy and no connection reports one.
const Unknown = "unknown"

// Edge is a load balancer in front of the process. The zero value is none.
type Edge struct {
	// digests are those of the accepted secrets. Their fixed length keeps comparisons from revealing lengths.
	digests [][sha256.Size]byte
	voucher Voucher
}

// NewEdge returns the edge that sends one of the secrets with every request. It sends the first one,
// or another one while a secret is replaced.
func NewEdge(secrets []string) Edge {
	e := Edge{digests: make([][sha256.Size]byte, len(secrets))}
	for i, secret := range secrets {
		e.digests[i] = sha256.Sum256([]byte(secret))
	}
	return e
}

// Accepting returns the edge with a voucher, whose addresses it accepts from anywhere.
func (e Edge) Accepting(v Voucher) Edge {
	e.voucher = v
	return e
}

type contextKey struct{}

// Handler finds the address of every request's client once, for Of, and hides the edge's headers from next.
func (e Edge) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		address := e.find(req)
		req.Header.Del(AddressHeader)
		req.Header.Del(SecretHeader)
		req.Header.Del(VouchedHeader)
		next.ServeHTTP(w, req.WithContext(context.WithValue(req.Context(), contextKey{}, address)))
	})
}

// Of returns the address of a request's client in its shortest form, or Unknown. Without a Handler in front, it reads
// the request as Edge's zero value does.
func Of(req *http.Request) string {
	if address, ok := req.Context().Value(contextKey{}).(string); ok {
		return address
	}
	return Edge{}.find(req)
}

// find returns the address that a function vouches for, or else the one that the edge reports. A request that did not
// come through either has the address that the platform's front end appended to X-Forwarded-For, or else that of the
// connection.
func (e Edge) find(req *http.Request) string {
	if address, ok := e.voucher.vouched(req.Header); ok {
		return text(netip.ParseAddr(address))
	}
	if e.sent(req.Header) {
		return text(netip.ParseAddr(last(req.Header, AddressHeader)))
	}
	if len(req.Header.Values("X-Forwarded-For")) > 0 {
		return text(netip.ParseAddr(last(req.Header, "X-Forwarded-For")))
	}
	peer, err := netip.ParseAddrPort(req.RemoteAddr)
	return text(peer.Addr(), err)
}

// sent reports whether the edge sent the request. Its time does not depend on the values.
func (e Edge) sent(h http.Header) bool {
	got, found := sha256.Sum256([]byte(last(h, SecretHeader))), 0
	for _, want := range e.digests {
		found |= subtle.ConstantTimeCompare(got[:], want[:])
	}
	return found == 1
}

// last returns the last element of a header that is a list, over all of its lines. A proxy appends to the list.
func last(h http.Header, name string) string {
	lines := h.Values(name)
	if len(lines) == 0 {
		return ""
	}
	line := lines[len(lines)-1]
	return strings.TrimSpace(line[strings.LastIndexByte(line, ',')+1:])
}

// text returns a new string, which does not keep the header alive that the address was read from.
func text(a netip.Addr, err error) string {
	if err != nil {
		return Unknown
	}
	return a.Unmap().WithZone("").String()
}

// Bucket returns the key under which limits count an address. An IPv6 address counts as its network of 64 bits, because
// one client has all addresses of it. All texts that are no address share one key.
func Bucket(address string) string {
	a, err := netip.ParseAddr(address)
	if err != nil {
		return Unknown
	}
	if a = a.Unmap(); a.Is4() {
		return a.String()
	}
	network, _ := a.WithZone("").Prefix(64) // 64 bits are within every IPv6 address
	return network.String()
}
