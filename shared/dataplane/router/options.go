package router

import (
	"cmp"
	"context"
	"net"
	"net/netip"
	"time"

	"agents.example/controlplane/shared/dataplane"
)

// State is what the cluster reports of an agent's pod.
type State int

// States of an agent.
const (
	// Unknown means that the cell has no such agent.
	Unknown State = iota
	// NotReady means that the agent exists, and that its pod does not accept requests.
	NotReady
	// Stopped means that the agent exists, and that only its owner starts it.
	Stopped
	// Ready means that the agent's pod accepts requests at the address.
	Ready
)

// Endpoint is the place of an agent.
type Endpoint struct {
	State State
	// Addr is the address of a Ready agent.
	Addr netip.AddrPort
	// Slug is the readable part of the agent's hostname. Hostnames with another slug lead to no agent. If it is empty,
	// every slug is accepted.
	Slug string
	// Wakes says that a request starts the agent if it has no pod; see Waker. Then Organization is the agent's, and
	// Public has the paths that anyone may request.
	Wakes        bool
	Organization string
	Public       dataplane.PublicSet
}

// Endpoints reports where agents are. Lookup is called for every request, concurrently, and must not block.
type Endpoints interface {
	Lookup(namespace string) Endpoint
}

// Options configure New.
type Options struct {
	// Domain is the parent of the hostnames of the cell's agents: "<cell>.<agent domain>".
	Domain string
	// Endpoints reports where agents are.
	Endpoints Endpoints
	// Limits and Timeouts have defaults for fields that are zero.
	Limits   Limits
	Timeouts Timeouts
	// Waker asks for agents to be woken. If it is nil, no request is held.
	Waker Waker
	// Dial connects to an agent; nil is a net.Dialer. Local clusters, whose pods have no real network, set it.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Limits bound what clients can use. A request that exceeds one gets 503 and Retry-After. The default limits keep the
// router within maxMemory.
type Limits struct {
	// AgentRequests is the number of concurrent requests to one agent, WebSockets included. 0 is 512.
	AgentRequests int64
	// Requests is the number of concurrent requests to all agents. 0 is 8,192.
	Requests int64
	// Connections is the number of connections. 0 is 16,384.
	Connections int
	// Memory is what the requests in flight may take, in bytes, and AgentMemory what those of one agent may. 0 is 576
	// and 40 MiB.
	Memory, AgentMemory int64
	// Held is the number of requests that wait for agents to wake, AgentHeld and OrganizationHeld the number of those
	// for one agent and for the agents of one organization. They count as concurrent requests, too. 0 is 1,024, 32 and
	// 128.
	Held, AgentHeld, OrganizationHeld int
}

// Timeouts bound phases of a request. No timeout bounds a request as a whole or the wait for an agent's answer, because
// an agent may think for minutes and stream for hours.
type Timeouts struct {
	// Header bounds the time in which a client sends the header of a request. 0 is 10 s.
	Header time.Duration
	// Idle is how long a connection of the load balancer is kept without a request. 0 is 620 s: Google's load balancer
	// keeps its side for 600 s, and must be the one that closes.
	Idle time.Duration
	// Dial bounds connecting to an agent. 0 is 3 s.
	Dial time.Duration
	// AgentIdle is how long a connection to an agent is kept without a request. 0 is 30 s. The front must keep its side
	// for longer.
	AgentIdle time.Duration
	// DrainDelay is how long the router still accepts connections after it began to drain, while /healthz is 503 and
	// the load balancer stops sending requests. 0 is none.
	DrainDelay time.Duration
	// Drain bounds requests in flight after that. 0 is 60 s.
	Drain time.Duration
	// TunnelIdle is how long a WebSocket must have been silent to be closed while the router drains. 0 is 5 s.
	TunnelIdle time.Duration
	// Hold bounds how long a request waits for its agent to wake, and HoldPage how long one of a browser does that
	// opens a page; then it gets a page that loads itself again. 0 is 60 and 1 s.
	Hold, HoldPage time.Duration
}

func (l Limits) withDefaults() Limits {
	return Limits{
		AgentRequests: cmp.Or(l.AgentRequests, 512), Requests: cmp.Or(l.Requests, 8192),
		Connections: cmp.Or(l.Connections, 16384), Memory: cmp.Or(l.Memory, 576<<20),
		AgentMemory: cmp.Or(l.AgentMemory, 40<<20), Held: cmp.Or(l.Held, 1024), AgentHeld: cmp.Or(l.AgentHeld, 32),
		OrganizationHeld: cmp.Or(l.OrganizationHeld, 128),
	}
}

func (t Timeouts) withDefaults() Timeouts {
	return Timeouts{
		Header: cmp.Or(t.Header, 10*time.Second), Idle: cmp.Or(t.Idle, 620*time.Second),
		Dial: cmp.Or(t.Dial, 3*time.Second), AgentIdle: cmp.Or(t.AgentIdle, 30*time.Second), DrainDelay: t.DrainDelay,
		Drain: cmp.Or(t.Drain, time.Minute), TunnelIdle: cmp.Or(t.TunnelIdle, 5*time.Second),
		Hold: cmp.Or(t.Hold, time.Minute), HoldPage: cmp.Or(t.HoldPage, time.Second),
	}
}
