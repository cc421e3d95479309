package gate

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"agents.example/controlplane/shared/egress"
)

// Options configure New.
type Options struct {
	// Address is the address of the gate's Service, which answers to queries of allowed names have. It is an IPv4 one.
	Address netip.Addr
	// Policies reports the agents.
	Policies Policies
	// Dial connects to an address of the form "name:port", if the name stands for public addresses only. It is called
	// concurrently.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// IsNotPublic recognizes the errors of Dial that say that an address is not public. Nil recognizes none.
	IsNotPublic func(error) bool
	// Values reads the values of brokered secrets, and Secret is that of the cell, of at least 32 bytes, from which the
	// CAs of its agents follow. Without both of them, connections to hosts with brokered secrets are refused.
	Values Values
	Secret []byte
	// Roots verify the certificates of hosts with brokered secrets. Nil means those of the system.
	Roots *x509.CertPool
	// Report publishes counts. What it could not publish is reported again later. Nil keeps the counts in the gate.
	Report func(context.Context, egress.Reports) error
	// Instance identifies this process in reports.
	Instance string
	// Now is the clock of counts and certificates. Nil means time.Now.
	Now func() time.Time
	// Limits and Timeouts have defaults for fields that are zero.
	Limits   Limits
	Timeouts Timeouts
}

// minSecret is the least length of Options.Secret.
const minSecret = 32

func (o Options) withDefaults() (Options, error) {
	switch {
	case !o.Address.Is4():
		return o, fmt.Errorf("gate: %s is not the IPv4 address of a Service", o.Address)
	case o.Policies == nil || o.Dial == nil:
		return o, errors.New("gate: Policies and Dial are required")
	case o.Secret != nil && len(o.Secret) < minSecret:
		return o, fmt.Errorf("gate: the cell's secret has %d bytes, want %d or more", len(o.Secret), minSecret)
	case o.Report != nil && o.Instance == "":
		return o, errors.New("gate: Instance is required for reports")
	}
	if o.IsNotPublic == nil {
		o.IsNotPublic = func(error) bool { return false }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Limits, o.Timeouts = o.Limits.withDefaults(), o.Timeouts.withDefaults()
	return o, nil
}

// brokers reports whether the gate can add secrets to requests.
func (o Options) brokers() bool { return o.Values != nil && o.Secret != nil }

// Limits bound what agents can use.
type Limits struct {
	// AddressConnections is the number of connections of an address, which is a pod of an agent. 0 is 512.
	AddressConnections int
	// Connections is the number of connections of all addresses. 0 is 8,192.
	Connections int
	// AgentRequests is the number of concurrent requests by HTTP of an agent, WebSockets included, and Requests that of
	// all agents. 0 is 256 and 4,096.
	AgentRequests, Requests int64
	// AgentMemory is what the requests of an agent may take, in bytes, and Memory what those of all agents may. 0 is 24
	// and 384 MiB.
	AgentMemory, Memory int64
	// AgentQueries is the number of DNS queries of an agent in a second. Twice as many may come together. 0 is 200.
	AgentQueries int
	// Waiting is the number of connections and queries of unknown addresses that are held, and AddressWaiting that of
	// one address. 0 is 1,024 and 16.
	Waiting, AddressWaiting int
}

func (l Limits) withDefaults() Limits {
	return Limits{
		AddressConnections: cmp.Or(l.AddressConnections, 512), Connections: cmp.Or(l.Connections, 8192),
		AgentRequests: cmp.Or(l.AgentRequests, 256), Requests: cmp.Or(l.Requests, 4096),
		AgentMemory: cmp.Or(l.AgentMemory, 24<<20), Memory: cmp.Or(l.Memory, 384<<20),
		AgentQueries: cmp.Or(l.AgentQueries, 200),
		Waiting:      cmp.Or(l.Waiting, 1024), AddressWaiting: cmp.Or(l.AddressWaiting, 16),
	}
}

// Timeouts bound phases of connections and requests. No timeout bounds a stream that moves.
type Timeouts struct {
	// Hello bounds the time in which an agent sends a ClientHello, the header of a request, or a query. 0 is 10 s.
	Hello time.Duration
	// Hold is for how long an unknown address is held. 0 is 5 s.
	Hold time.Duration
	// Dial bounds looking up a name and connecting to it, with TLS where the gate adds a secret. 0 is 10 s.
	Dial time.Duration
	// Idle is how long a connection on port 443 may be silent. It may last half as long again. 0 is 1 h.
	Idle time.Duration
	// Slow is how long an agent may read nothing of a connection by HTTP/2 before it counts as slow. 0 is 2 s.
	Slow time.Duration
	// Answer bounds the time between a request by HTTP and the header of its answer. 0 is 30 min.
	Answer time.Duration
	// DrainDelay is how long the gate still accepts connections after it began to drain. 0 is none.
	DrainDelay time.Duration
	// Drain bounds connections and requests after that. 0 is 60 s.
	Drain time.Duration
	// TunnelIdle is how long a connection must have been silent to be closed while the gate drains. 0 is 5 s.
	TunnelIdle time.Duration
}

func (t Timeouts) withDefaults() Timeouts {
	return Timeouts{
		Hello: cmp.Or(t.Hello, 10*time.Second), Hold: cmp.Or(t.Hold, 5*time.Second),
		Dial: cmp.Or(t.Dial, 10*time.Second), Idle: cmp.Or(t.Idle, time.Hour),
		Slow: cmp.Or(t.Slow, 2*time.Second), Answer: cmp.Or(t.Answer, 30*time.Minute), DrainDelay: t.DrainDelay,
		Drain:      cmp.Or(t.Drain, time.Minute),
		TunnelIdle: cmp.Or(t.TunnelIdle, 5*time.Second),
	}
}
