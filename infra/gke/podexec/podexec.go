// Package podexec runs commands in agents' containers through the API servers of cells, over WebSockets with
// Kubernetes' protocol v5.channel.k8s.io. It sends plain requests, as package podlogs does, and reads no pod: its only
// right in a cell is the one to pods/exec.
package podexec

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/coder/websocket"
	"k8s.io/client-go/rest"

	"agents.example/controlplane/infra/gke/connect"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agentexec"
	"agents.example/controlplane/shared/agentexec/channel"
	"agents.example/controlplane/shared/fault"
)

const (
	// answerWait bounds the wait until the API server has connected the command.
	answerWait = 15 * time.Second
	// maxFrame is more than any frame of an API server, which copies 32 KiB at a time.
	maxFrame = 1 << 20
	// pingPeriod keeps a connection alive whose command is silent, also through proxies.
	pingPeriod = 30 * time.Second
)

// Commands runs commands in the agents of all cells. It implements agentexec.Source.
type Commands struct {
	cells map[string]*connect.API
	// quiesceTime is how long Quiesce waits.
	quiesceTime time.Duration
}

var _ agentexec.Source = (*Commands)(nil)

// New returns the commands of some cells. It connects to a cell when its first command runs. base has no deadline, only
// what token sources take from a context.
func New(base context.Context, cells []connect.Cell) *Commands {
	// WebSockets begin with an upgrade, which HTTP/2 does not have.
	upgrades := func(config *rest.Config) { config.NextProtos = []string{"http/1.1"} }
	c := &Commands{cells: map[string]*connect.API{}, quiesceTime: quiesceTime}
	for _, of := range cells {
		c.cells[of.Name] = connect.NewAPI(base, of, upgrades)
	}
	return c
}

// Close closes connections that are idle.
func (c *Commands) Close() error {
	for _, of := range c.cells {
		of.Close()
	}
	return nil
}

// Open implements agentexec.Source.
func (c *Commands) Open(ctx context.Context, a agent.Agent, command agentexec.Command) (agentexec.Stream, error) {
	of, ok := c.cells[a.Cell]
	if !ok {
		return nil, fault.New(fault.Unavailable, "cell_unknown",
			"The agent's cluster %q is not configured. Contact support.", a.Cell)
	}
	client, server, err := of.Client()
	if err != nil {
		return nil, unavailable(err)
	}
	pod := connect.PodPath
	if command.Reader {
		pod = connect.ReaderPath
	}
	address := server.JoinPath(pod(a.Namespace()) + "/exec")
	address.RawQuery = queryOf(command).Encode()
	opening, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	options := &websocket.DialOptions{HTTPClient: client, Subprotocols: []string{channel.Protocol}}
	conn, answer, err := websocket.Dial(opening, address.String(), options) //nolint:bodyclose // the library closes it
	if err != nil {
		return nil, explainRefusal(of.Name, answer, err)
	}
	s := &stream{socket: channel.NewSocket(conn, maxFrame)}
	s.ctx, s.cancel = context.WithCancel(ctx)
	s.pings.Go(s.ping)
	return s, nil
}

func queryOf(c agentexec.Command) url.Values {
	return url.Values{
		"container": {connect.AgentContainer}, "command": c.Args,
		"stdin": {strconv.FormatBool(c.Input)}, "stdout": {"true"},
		"stderr": {strconv.FormatBool(!c.Terminal)}, "tty": {strconv.FormatBool(c.Terminal)},
	}
}

// stream is a command that runs. It implements agentexec.Stream.
type stream struct {
	socket *channel.Socket
	ctx    context.Context //nolint:containedctx // of the pings
	cancel func()
	pings  sync.WaitGroup
	end    error // of the command, once it is known
}

// Read implements agentexec.Stream.
func (s *stream) Read(ctx context.Context) (channel.Frame, error) {
	for s.end == nil {
		f, err := s.socket.Read(ctx)
		switch {
		case ctx.Err() != nil:
			return channel.Frame{}, context.Cause(ctx)
		case err != nil:
			return channel.Frame{}, unavailable(fmt.Errorf("read from a command: %w", err))
		case f.Channel == channel.Output || f.Channel == channel.Errors:
			return f, nil
		case f.Channel == channel.Status:
			s.end = explainEnd(f.Data)
		}
	}
	return channel.Frame{}, s.end
}

// Write implements agentexec.Stream.
func (s *stream) Write(ctx context.Context, f channel.Frame) error {
	if err := s.socket.Write(ctx, f); err != nil {
		return unavailable(fmt.Errorf("write to a command: %w", err))
	}
	return nil
}

// ping sends pings until the stream ends. The reader gets the answers.
func (s *stream) ping() {
	tick := time.NewTicker(pingPeriod)
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
			if s.socket.Ping(s.ctx) != nil {
				return
			}
		}
	}
}

// Close implements agentexec.Stream.
func (s *stream) Close() error {
	s.cancel()
	err := s.socket.CloseNow()
	s.pings.Wait()
	return err
}
