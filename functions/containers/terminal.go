package containers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coder/websocket"
	"github.com/google/jsonschema-go/jsonschema"
	"github.com/google/uuid"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agentexec"
	"agents.example/controlplane/shared/agentexec/channel"
	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
)

// tty says whether a command gets a terminal.
type tty string

// JSONSchema implements function.Schemer.
func (tty) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{
		Enum: []any{"true", "false"},
		Description: "Whether the command gets a terminal (the default). Without one, standard error is a separate " +
			"channel, and the input can end: so programs copy files of any size.",
	}
}

// parameters are a command in a query: one parameter for each argument.
type parameters []string

// JSONSchema implements function.Schemer.
func (parameters) JSONSchema() *jsonschema.Schema {
	s := command(nil).JSONSchema()
	s.Description = "A program of the agent's image, and its arguments in further parameters of the same name. " +
		"Without one, bash, or else sh."
	return s
}

type terminalInput struct {
	path
	Query struct {
		Command parameters `json:"command,omitempty"`
		TTY     tty        `json:"tty,omitempty"`
	} `json:"query"`
}

func (in terminalInput) command() agentexec.Command {
	args := []string(in.Query.Command)
	if len(args) == 0 {
		args = agentexec.Shell()
	}
	return agentexec.Command{Args: args, Input: true, Terminal: in.Query.TTY != "false"}
}

// terminalAction is the action of the audit entry at the end of a terminal. That at its beginning has the name of the
// route. A seal of the audit log may be made in between, so the end does not change the first one.
const terminalAction = "CloseAgentTerminal"

// Terminal opens a command in an agent's container and relays its channels over a WebSocket.
func Terminal(s Service) function.Route {
	r := s.route("OpenAgentTerminal", http.MethodGet, "terminal", "Open a terminal in an agent's container")
	r.Status, r.WebSocket, r.Audited = http.StatusSwitchingProtocols, true, true
	r.Holds = agentexec.MaxSession
	// BadRequest: no WebSocket. Invalid: an empty command.
	r.Errors = append(r.Errors, fault.BadRequest, fault.Invalid)
	r.Handle = function.Handle(func(ctx context.Context, in terminalInput) (function.Upgrade, error) {
		a, err := s.admit(ctx, in.id())
		if err == nil {
			err = s.mayReceive(ctx)
		}
		if err == nil {
			err = s.hold(ctx, a)
		}
		if err != nil {
			return function.Upgrade{}, err
		}
		t := session{Service: s, agent: a, command: in.command(), shell: len(in.Query.Command) == 0}
		describe(ctx, a, t.command.Args)
		return function.Upgrade{Serve: t.serve}, nil
	})
	return r
}

// session is a terminal.
type session struct {
	Service
	agent   agent.Agent
	command agentexec.Command
	shell   bool // the client named no command
}

// maxMessage is the largest message of a client.
const maxMessage = 64 << 10

// serve answers the request and relays until the terminal ends. What goes wrong after the answer is told in the
// protocol: browsers do not show the body of another answer.
func (t session) serve(w http.ResponseWriter, req *http.Request) error {
	if err := checkUpgrade(req); err != nil {
		return err
	}
	conn, err := websocket.Accept(w, req, &websocket.AcceptOptions{
		Subprotocols: subprotocols(), InsecureSkipVerify: true, // checkUpgrade has checked the origin
	})
	if err != nil {
		return nil // the library has answered
	}
	defer func() { _ = conn.CloseNow() }()
	client := channel.NewSocket(conn, maxMessage)
	began := time.Now()
	ctx, cancel := t.bounded(req.Context())
	defer cancel()
	var traffic agentexec.Traffic
	stream, err := t.Commands.Open(ctx, t.agent, t.command)
	if err != nil {
		t.farewell(client, err)
	} else {
		tell := func(end error) { t.farewell(client, end) }
		var paced channel.Conn = client
		if conn.Subprotocol() == channel.PacedProtocol {
			paced = channel.NewPaced(client)
		}
		traffic, err = agentexec.Relay(ctx, paced, sentStream{stream, t.Service}, agentexec.MaxIdle, tell)
		_ = stream.Close()
	}
	t.recordEnd(req.Context(), traffic, began, err)
	return nil
}

// subprotocols returns those that a client may offer, the best first.
func subprotocols() []string { return []string{channel.PacedProtocol, channel.Protocol} }

func checkUpgrade(req *http.Request) error {
	offered := strings.Split(req.Header.Get("Sec-WebSocket-Protocol"), ", ")
	known := func(offer string) bool { return slices.Contains(subprotocols(), offer) }
	if !strings.EqualFold(req.Header.Get("Upgrade"), "websocket") || !slices.ContainsFunc(offered, known) {
		return fault.New(fault.BadRequest, "websocket_required",
			"A terminal is a WebSocket with the subprotocol %s. Open it with agentctl agents terminal, with the "+
				"console, or with a client for WebSockets.", channel.Protocol)
	}
	return function.CheckOrigin(req)
}

// recheckPeriod is how often a terminal asks whether the agent and the organization still allow it.
const recheckPeriod = 15 * time.Second

// Ends of a terminal that the service causes.
var (
	errTimeOver = fault.New(fault.Unavailable, "session_time_over",
		"A terminal lasts at most %g minutes. Open another one.", agentexec.MaxSession.Minutes())
	errShutdown = fault.New(fault.Unavailable, "instance_ends",
		"The instance of the service that held the terminal ends. Open another one.")
	errIdle = fault.New(fault.Unavailable, "session_idle",
		"The terminal had no input and no output for %g minutes. Open another one.", agentexec.MaxIdle.Minutes())
)

// bounded returns a context that ends when the terminal must: with the rights of its caller, the agent's pod, the
// organization's setting, the process, and its time.
func (t session) bounded(ctx context.Context) (context.Context, func()) {
	call.From(ctx).Fetched.Forget() // what was read with the key is the agent as it was
	ctx, end := context.WithCancelCause(ctx)
	over := time.AfterFunc(agentexec.MaxSession, func() { end(errTimeOver) })
	go func() {
		tick := time.NewTicker(recheckPeriod)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-function.Shutdown(ctx):
				end(errShutdown)
				return
			case <-tick.C:
				// An outage ends no terminal.
				if _, err := t.admit(ctx, t.agent.ID); fault.Is(err, fault.Conflict) || fault.Is(err, fault.NotFound) {
					end(err)
				}
			}
		}
	}()
	return ctx, func() { over.Stop(); end(nil) }
}

// explain returns the end of a terminal as an error for its client; nil for an exit of the command.
func (t session) explain(end error) *fault.Error {
	switch exit := new(agentexec.Exit); {
	case errors.As(end, &exit), errors.Is(end, agentexec.ErrClientGone):
		return nil
	case t.shell && fault.Code(end) == agentexec.CodeNotFound:
		return agentexec.NoShell()
	case errors.Is(end, agentexec.ErrIdle):
		return errIdle
	}
	return fault.From(end)
}

// farewellTime bounds how long a client may take to read how its terminal ended.
const farewellTime = 5 * time.Second

// farewell tells the client how the terminal ended: in a Status object, as API servers of Kubernetes do, and in the
// reason of the WebSocket's close.
func (t session) farewell(client *channel.Socket, end error) {
	ctx, cancel := context.WithTimeout(context.Background(), farewellTime)
	defer cancel()
	code, reason := websocket.StatusNormalClosure, ""
	status := map[string]any{"metadata": map[string]any{}, "status": "Success"}
	exit, ended := errors.AsType[*agentexec.Exit](end)
	refusal := t.explain(end)
	switch {
	case ended && exit.Code != 0:
		status = failure("NonZeroExitCode", fmt.Sprintf("command terminated with non-zero exit code: %v", exit))
		status["details"] = map[string]any{"causes": []any{
			map[string]any{"reason": "ExitCode", "message": strconv.Itoa(exit.Code)},
		}}
	case refusal != nil:
		status = failure(refusal.Code, refusal.Detail)
		code, reason = closeCode(refusal), cut(refusal.Code+": "+refusal.Detail)
	}
	if b, err := json.Marshal(status); err == nil {
		_ = client.Write(ctx, channel.Frame{Channel: channel.Status, Data: b})
	}
	_ = client.Close(code, reason)
}

func failure(reason, message string) map[string]any {
	return map[string]any{"metadata": map[string]any{}, "status": "Failure", "reason": reason, "message": message}
}

func closeCode(e *fault.Error) websocket.StatusCode {
	switch e.Kind {
	case fault.Unauthenticated, fault.Forbidden, fault.Conflict, fault.NotFound:
		return websocket.StatusPolicyViolation
	case fault.Unavailable:
		return websocket.StatusGoingAway
	case fault.RateLimited:
		return websocket.StatusTryAgainLater
	default:
		return websocket.StatusInternalError
	}
}

// maxReason is the longest reason of a close in bytes.
const maxReason = 123

func cut(reason string) string { return reason[:min(len(reason), maxReason)] }

// recordEnd writes the audit entry of the end of a terminal, also for a caller that may no longer call.
func (t session) recordEnd(ctx context.Context, traffic agentexec.Traffic, began time.Time, end error) {
	c := call.From(ctx)
	if c.Entry == nil {
		return
	}
	outcome, exitCode := audit.Succeeded, "none"
	if exit, ok := errors.AsType[*agentexec.Exit](end); ok {
		exitCode = strconv.Itoa(exit.Code)
	}
	if refusal := t.explain(end); refusal != nil {
		outcome = refusal.Code
	}
	function.AppendEntry(ctx, t.Audit, audit.Entry{
		ID: uuid.NewString(), OrganizationID: c.Caller.OrganizationID, Actor: c.Caller, Action: terminalAction,
		Target: c.Entry.Target(), Request: c.Request, Outcome: outcome,
		Changes: append(c.Entry.Facts(), audit.Change{Field: "exit_code", New: exitCode},
			audit.Change{Field: "input_bytes", New: number(traffic.Input)},
			audit.Change{Field: "output_bytes", New: number(traffic.Output)},
			audit.Change{Field: "duration_ms", New: number(milliseconds(began))}),
	})
}
