package agentprobe

import (
	"context"
	"net"

	"agents.example/controlplane/infra/publicnet"
)

// dialer connects to agents: to the override if there is one, otherwise to public addresses only.
type dialer struct {
	override string
	publicnet.Dialer
}

// dial implements the DialContext of a transport.
func (d dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if d.override == "" {
		return d.DialContext(ctx, network, address)
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	to := d.override
	if _, _, err := net.SplitHostPort(to); err != nil {
		to = net.JoinHostPort(to, port)
	}
	return d.Dialer.Dialer.DialContext(ctx, network, to)
}
