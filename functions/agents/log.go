package agents

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agentlog"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/ratelimit"
)

// tail is a number of lines.
type tail int

// JSONSchema implements function.Schemer.
func (tail) JSONSchema() *jsonschema.Schema {
	s := function.Integer(1, agentlog.MaxTail, agentlog.DefaultTail)
	s.Description = "The maximum number of lines from the end of the log."
	return s
}

// ended is a container that has ended.
type ended int

// JSONSchema implements function.Schemer.
func (ended) JSONSchema() *jsonschema.Schema {
	s := function.Integer(1, agentlog.MaxKept, nil)
	s.Description = "Read the log of a container that has ended: 1 is the one that ended last, also of an agent that " +
		"is stopped. The last 64 KiB of 5 containers are kept for 7 days. Not together with previous or follow."
	return s
}

// position is a place in a log, from the id of an event.
type position struct{ agentlog.Position }

// JSONSchema implements function.Schemer.
func (position) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{
		Type: "string", Pattern: agentlog.PositionPattern,
		Description: "The id of the last event that the client has. With `follow`, the log continues after it, and " +
			"`tail` and `since` have no effect.",
	}
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *position) UnmarshalText(text []byte) (err error) {
	p.Position, err = agentlog.ParsePosition(string(text))
	return err
}

type logInput struct {
	path
	Query struct {
		Tail     tail           `json:"tail,omitempty"`
		Since    function.Since `json:"since,omitzero" jsonschema:"The time of the oldest line, or a duration such as 10m before now."`
		Previous bool           `json:"previous,omitempty" jsonschema:"Read the log of the container before the last restart. The same as ended=1."`
		Ended    ended          `json:"ended,omitempty"`
		Follow   bool           `json:"follow,omitempty" jsonschema:"Wait for further lines, for at most 10 minutes. Not together with previous or ended."`
	} `json:"query"`
	Header struct {
		LastEventID position `json:"Last-Event-ID,omitzero"`
	} `json:"header"`
}

func (in logInput) options(now time.Time) (agentlog.Options, error) {
	q := in.Query
	previous := int(q.Ended)
	switch {
	case q.Previous && previous != 0:
		return agentlog.Options{}, contradicts("ended", "previous means ended=1; leave out one of the two")
	case q.Previous:
		previous = 1
	}
	if previous != 0 && q.Follow {
		return agentlog.Options{}, contradicts("follow",
			"a previous container writes no further lines; leave out follow, or previous and ended")
	}
	o := agentlog.Options{Tail: int(q.Tail), Since: q.Since.Time(now), Previous: previous, Follow: q.Follow}
	if o.Tail == 0 {
		o.Tail = agentlog.DefaultTail
	}
	if o.Follow {
		o.After = in.Header.LastEventID.Position
	}
	return o, nil
}

func contradicts(parameter, why string) error {
	return fault.Validation(fault.ValueError([]any{"query", parameter}, why))
}

// Log reads an agent's log from its cell, and follows it if asked to. An answer that follows a log holds one of the
// slots.
func Log(agents agent.Store, logs agentlog.Source, slots *ratelimit.Slots) function.Route {
	return function.Route{
		Name: "GetAgentLogs", Method: http.MethodGet, Path: "/api/v1/agents/{agent_id}/logs",
		Role: function.RoleAccounts, Access: function.Admin,
		Needs:  []function.Need{function.Firestore, function.PodLogs},
		Reads:  readsAgent,
		Holds:  agentlog.MaxFollow,
		Status: http.StatusOK, Summary: "Get an agent's log",
		// Conflict: no container, or no previous one. Invalid: parameters that exclude each other.
		Errors: []fault.Kind{fault.Conflict, fault.Invalid},
		Handle: function.Handle(func(ctx context.Context, in logInput) (openLog, error) {
			o, err := in.options(time.Now())
			if err != nil {
				return openLog{}, err
			}
			a, err := agents.Get(ctx, in.id())
			if err != nil {
				return openLog{}, err
			}
			release := func() {}
			if o.Follow {
				if release, err = function.HoldSlot(ctx, slots); err != nil {
					return openLog{}, err
				}
			}
			s, err := logs.Open(ctx, a, o)
			if err != nil {
				release()
				if refusal := new(fault.Error); errors.As(err, &refusal) && refusal.Kind == fault.Conflict {
					err = explain(*refusal, a).WithMeta(a.ConflictMeta())
				}
				return openLog{}, err
			}
			return openLog{
				ctx: ctx, agents: agents, source: logs, agent: a, stream: s, follow: o.Follow, release: release,
			}, nil
		}),
	}
}

// explain says of a refusal to read the log of an agent that sleeps what wakes it.
func explain(refusal fault.Error, a agent.Agent) *fault.Error {
	if a.Asleep() && refusal.Code == agentlog.CodeNotRunning {
		refusal.Detail = "The agent is asleep and has no container. Resume it to wake it, or read the log of a " +
			"container that has ended with ended=1."
		if a.Sleep.WakesOn(agent.RequestWakes) {
			refusal.Detail += " A request to its address wakes it, too."
		}
	}
	return &refusal
}

// openLog is an open log. The end of the request closes it, also if no body is written.
type openLog struct {
	ctx    context.Context // of the request
	agents agent.Store
	source agentlog.Source
	agent  agent.Agent
	stream agentlog.Stream
	follow bool
	// release frees the slot of an answer that follows the log.
	release func()
}

// linesType is the media type of lines of JSON.
const linesType = "application/x-ndjson"

// Reply implements function.Reply.
func (l openLog) Reply(h http.Header) any {
	if l.stream != nil && !l.follow {
		h.Set("Vary", "Accept") // as for an answer that follows
		return function.Raw{ContentType: linesType, Stream: l.copy, Item: agentlog.LineView{}}
	}
	return function.Formats{
		{
			ContentType: linesType, Item: agentlog.LineView{},
			Stream: func(w io.Writer) error { return l.send(w, agentlog.NewLines(w)) },
		},
		{
			ContentType: "text/event-stream", Item: agentlog.LineView{},
			Stream: func(w io.Writer) error { return l.send(w, agentlog.NewEvents(w)) },
		},
	}
}

func (l openLog) copy(w io.Writer) error {
	defer func() { _ = l.stream.Close() }()
	return agentlog.Copy(w, l.stream)
}

func (l openLog) send(w io.Writer, e agentlog.Encoder) error {
	defer l.release()
	f := agentlog.Follower{
		Source: l.source, Agent: l.agent, GetsPod: l.getsPod, Shutdown: function.Shutdown(l.ctx),
		Flush: func() error { return function.Flush(w) },
	}
	return f.Follow(l.ctx, l.stream, e)
}

// getsPod reports whether the agent still wants a pod. If its record cannot be read, it may.
func (l openLog) getsPod(ctx context.Context) bool {
	a, err := l.agents.Get(ctx, l.agent.ID)
	if err != nil {
		return !fault.Is(err, fault.NotFound)
	}
	return a.WantsPod()
}
