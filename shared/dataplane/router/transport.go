package router

import (
	"context"
	"net"
	"net/http"
	"time"

	"agents.example/controlplane/shared/dataplane/intake"
)

// newTransport returns the connections to all agents. The front speaks HTTP/1.1, which WebSockets need. Answers pass
// unchanged: the transport neither asks for compression nor undoes it.
func newTransport(t Timeouts,
	dial func(ctx context.Context, network, address string) (net.Conn, error),
) *http.Transport {
	if dial == nil {
		// Keep-alive probes notice a node that disappeared while an agent was thinking.
		dial = (&net.Dialer{Timeout: t.Dial, KeepAlive: 30 * time.Second}).DialContext
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		DialContext: intake.Dial(dial), Protocols: protocols, DisableCompression: true,
		MaxIdleConns: 4096, MaxIdleConnsPerHost: 64, IdleConnTimeout: t.AgentIdle,
		ExpectContinueTimeout: time.Second,
	}
}
