package agentctl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"agents.example/controlplane/shared/agentexec/channel"
	"agents.example/controlplane/shared/client"
)

func (t *tool) agentTerminal() *cobra.Command {
	return &cobra.Command{
		Use: "terminal AGENT [-- COMMAND [ARGUMENT...]]", Short: "Open a terminal in an agent's container",
		Args: cobra.MinimumNArgs(1), Annotations: sends("OpenAgentTerminal"), ValidArgsFunction: t.completeAgents,
		Long: "Open a terminal in an agent's container: a shell, or the command. It lasts 59 minutes at most, and " +
			"ends after 15 minutes without input and output. Where standard input is no terminal, the command gets " +
			"none.",
		Example: "  agentctl agents terminal my-agent\n  agentctl agents terminal my-agent -- top",
		RunE: t.forAgentAnd(func(ctx context.Context, api *client.Client, a *client.Agent, rest []string) error {
			return t.runTerminal(ctx, api, a.ID, rest)
		}),
	}
}

// runTerminal connects the user's terminal to one in a container.
func (t *tool) runTerminal(ctx context.Context, api *client.Client, agentID string, command []string) error {
	in, isFile := t.app.Stdin.(*os.File)
	plain := !t.app.Terminal.In || !t.app.Terminal.Out || !isFile
	s, err := openSession(ctx, api, agentID, client.TerminalParams{Command: command, Plain: plain}, handshakeTime)
	if err != nil {
		return err
	}
	defer s.Close() //nolint:errcheck // it has ended
	if !plain {
		before, err := term.MakeRaw(int(in.Fd()))
		if err != nil {
			return fmt.Errorf("change the mode of the terminal: %w", err)
		}
		defer term.Restore(int(in.Fd()), before) //nolint:errcheck // there is nothing else to do
		defer s.followSize(ctx, in)()
		watching, stop := context.WithCancel(ctx)
		defer stop()
		go s.watch(watching, pingPause, pingPatience)
	}
	return s.run(ctx, t.app.Stdin, t.app.Stdout, t.app.Stderr)
}

// session is a command in a container, over a WebSocket.
type session struct {
	*channel.Socket
	writing sync.Mutex
}

// maxAnswer is more than any frame of the API.
const maxAnswer = 2 << 20

// handshakeTime is how long a session waits for the API's answer. A proxy may have lost the request.
const handshakeTime = 2 * time.Minute

// How often a session is opened at most, and the pauses in between, unless the API names a longer one.
const (
	sessionAttempts = 5
	sessionPause    = 200 * time.Millisecond
	longestPause    = time.Minute
)

// How often a terminal asks whether its connection is alive, and how long the API may take to answer. It is
// silent while a program takes no input.
const (
	pingPause    = 30 * time.Second
	pingPatience = 90 * time.Second
)

// openSession starts a command. It tries again after a refusal that passes: the API has started no command then.
func openSession(
	ctx context.Context, api *client.Client, agentID string, params client.TerminalParams, within time.Duration,
) (*session, error) {
	for attempt := 1; ; attempt++ {
		s, err := dialSession(ctx, api, agentID, params, within)
		e := client.AsError(err)
		if e == nil || e.Code == "" || attempt == sessionAttempts || e.RetryAfter > longestPause ||
			e.Status != http.StatusTooManyRequests && e.Status != http.StatusServiceUnavailable {
			return s, err
		}
		if pause(ctx, max(e.RetryAfter, sessionPause)) != nil {
			return nil, err
		}
	}
}

// dialSession starts a command. An answer that is no WebSocket has the API's error.
func dialSession(
	ctx context.Context, api *client.Client, agentID string, params client.TerminalParams, within time.Duration,
) (*session, error) {
	address, header, err := api.TerminalAddress(ctx, agentID, params)
	if err != nil {
		return nil, err
	}
	noRedirects := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // the request has a token
	}}
	dialing, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	conn, answer, err := websocket.Dial(dialing, address, &websocket.DialOptions{ //nolint:bodyclose // the library does
		HTTPClient: noRedirects, HTTPHeader: header, Subprotocols: []string{channel.Protocol},
	})
	if err != nil {
		if answer != nil && answer.Body != nil {
			return nil, refusalOf(answer, err)
		}
		if dialing.Err() != nil && ctx.Err() == nil {
			err = &url.Error{Op: "open", URL: address, Err: fmt.Errorf("no answer within %s", within)}
		}
		return nil, err
	}
	return &session{Socket: channel.NewSocket(conn, maxAnswer)}, nil
}

// refusalOf returns the API's error in an answer, or that of a server in front of it.
func refusalOf(answer *http.Response, otherwise error) error {
	e := &client.Error{}
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	switch {
	case err == nil && json.Unmarshal(body, e) == nil && e.Status != 0:
	case answer.StatusCode >= http.StatusInternalServerError:
		return &client.Error{Status: answer.StatusCode, Detail: "The server answered " + answer.Status + "."}
	default:
		return otherwise
	}
	if after, err := time.ParseDuration(answer.Header.Get("Retry-After") + "s"); err == nil {
		e.RetryAfter = after
	}
	return e
}

// Write implements channel.Conn. The input and the size of the terminal are written concurrently.
func (s *session) Write(ctx context.Context, f channel.Frame) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	return s.Socket.Write(ctx, f)
}

// run passes the input and the outputs on until the command ends, and holds one frame of each.
func (s *session) run(ctx context.Context, input io.Reader, output, errs io.Writer) error {
	fed := make(chan error, 1)
	go func() { // a read of a terminal cannot be interrupted, so this may outlive the session
		if err := channel.Feed(ctx, s, input); err != nil {
			fed <- err
			_ = s.CloseNow()
		}
	}()
	for {
		f, err := s.Read(ctx)
		if err != nil {
			err = explainClose(err)
			select {
			case first := <-fed:
				err = errors.Join(first, err)
			default:
			}
			return err
		}
		to := output
		switch f.Channel {
		case channel.Status:
			return statusError(f.Data)
		case channel.Errors:
			to = errs
		case channel.Input, channel.Output, channel.Resize, channel.Shown, channel.Close:
		}
		if _, err := to.Write(f.Data); err != nil {
			return err
		}
	}
}

// watch ends a session whose connection is dead, as after the sleep of a laptop. Without it, a terminal whose user
// types stands still until the system gives the connection up, which takes 15 minutes.
func (s *session) watch(ctx context.Context, every, patience time.Duration) {
	for alive := time.Now(); pause(ctx, every) == nil; {
		answered, cancel := context.WithTimeout(ctx, patience)
		err := s.Ping(answered)
		cancel()
		switch {
		case err == nil:
			alive = time.Now()
		case time.Since(alive) > patience: // a ping also fails while much input is on its way
			_ = s.CloseNow()
			return
		}
	}
}

// explainClose returns why a session ended without a status.
func explainClose(err error) error {
	if end, ok := errors.AsType[websocket.CloseError](err); ok && end.Reason != "" {
		return errors.New(end.Reason)
	}
	return fmt.Errorf("the connection was lost; the command may go on: %w", err)
}

// statusError returns how a command ended; nil for exit code 0.
func statusError(data []byte) error {
	var s struct {
		Status, Reason, Message string
		Details                 struct {
			Causes []struct{ Reason, Message string }
		}
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return fmt.Errorf("read how the command ended: %w", err)
	}
	if s.Status == "Success" {
		return nil
	}
	for _, cause := range s.Details.Causes {
		if code, err := strconv.Atoi(cause.Message); err == nil && cause.Reason == "ExitCode" {
			return remoteExit{code}
		}
	}
	return stateError{fmt.Errorf("%s (%s)", s.Message, s.Reason)}
}

// followSize sends the size of the user's terminal now and after each change. The returned function ends that.
func (s *session) followSize(ctx context.Context, terminal *os.File) func() {
	ctx, cancel := context.WithCancel(ctx)
	changed, stop := sizeChanges()
	go func() {
		for {
			if width, height, err := term.GetSize(int(terminal.Fd())); err == nil {
				size := fmt.Sprintf(`{"Width":%d,"Height":%d}`, width, height)
				_ = s.Write(ctx, channel.Frame{Channel: channel.Resize, Data: []byte(size)})
			}
			select {
			case <-ctx.Done():
				return
			case <-changed:
			}
		}
	}()
	return func() { stop(); cancel() }
}

// Close ends the session. The command may go on.
func (s *session) Close() error { return s.Socket.Close(websocket.StatusNormalClosure, "") }
