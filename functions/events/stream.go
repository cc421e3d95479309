package events

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/event"
	"agents.example/controlplane/shared/eventstream"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/ratelimit"
)

const (
	// maxStream is how long an answer lasts. Clients continue with another one.
	maxStream = 10 * time.Minute
	// heartbeat is the longest time without a byte.
	heartbeat = 15 * time.Second
	// reconnect is how long clients wait before they continue after the end of an answer.
	reconnect = 2 * time.Second
)

type streamInput struct {
	Query struct {
		Cursor string `json:"cursor,omitempty" jsonschema:"The id of the last event that the client has. Without it and Last-Event-ID, the stream begins with the next event."`
		filter
	} `json:"query"`
	Header struct {
		LastEventID string `json:"Last-Event-ID,omitempty" jsonschema:"The id of the last event that the client has. Clients of Server-Sent Events send it when they connect again; it takes precedence over cursor."`
	} `json:"header"`
}

// Stream sends events when they are committed, as Server-Sent Events or lines of JSON. An answer holds one of the
// slots.
func Stream(log event.Log, slots *ratelimit.Slots) function.Route {
	return function.Route{
		Name: "StreamEvents", Method: http.MethodGet, Path: path + "/stream",
		Role: function.RoleAccounts, Access: function.Member, Needs: []function.Need{function.Firestore},
		Holds: maxStream,
		// BadRequest: a cursor that is not the id of an event, or older than the events that are kept.
		Status: http.StatusOK, Summary: "Stream events", Errors: []fault.Kind{fault.BadRequest},
		Handle: function.Handle(func(ctx context.Context, in streamInput) (stream, error) {
			cursor := in.Header.LastEventID
			if cursor == "" {
				cursor = in.Query.Cursor
			}
			after, err := parseCursor(cursor)
			if err != nil {
				return stream{}, err
			}
			caller := call.From(ctx).Caller
			release, err := function.HoldSlot(ctx, slots)
			if err != nil {
				return stream{}, err
			}
			return stream{
				ctx: ctx, log: log, organizationID: caller.OrganizationID, filter: in.Query.event(caller), after: after,
				release: release,
			}, nil
		}),
	}
}

// stream is an answer that sends events until its time is over, the client is gone or the process shuts down.
type stream struct {
	ctx            context.Context // of the request
	log            event.Log
	organizationID string
	filter         event.Filter
	after          event.ID
	release        func()
}

// Reply implements function.Reply.
func (s stream) Reply(http.Header) any {
	return function.Formats{
		{
			ContentType: "text/event-stream", Item: event.View{},
			Stream: func(w io.Writer) error { return s.send(w, serverSent{w}) },
		},
		{
			ContentType: "application/x-ndjson", Item: event.View{},
			Stream: func(w io.Writer) error { return s.send(w, lines{w}) },
		},
	}
}

// encoder writes a stream in one format.
type encoder interface {
	begin() error
	event(e event.Event, data []byte) error
	// idle shows that the connection works, and moves the client's cursor on if the format can.
	idle(cursor event.ID) error
}

// send writes the stream. It returns an error before the first byte as a response.
func (s stream) send(w io.Writer, e encoder) error {
	defer s.release()
	ctx, cancel := context.WithTimeout(s.ctx, maxStream)
	defer cancel()
	ctx, stop := function.UntilShutdown(ctx)
	defer stop()
	begun := false
	for b, err := range s.log.Follow(ctx, s.organizationID, s.filter, s.after, heartbeat) {
		if err == nil && !begun {
			begun = true
			err = e.begin()
		}
		if err == nil {
			err = errors.Join(write(e, b), function.Flush(w))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// write writes a batch.
func write(to encoder, b event.Batch) error {
	for _, e := range b.Events {
		data, err := json.Marshal(e.Show())
		if err == nil {
			err = to.event(e, data)
		}
		if err != nil {
			return err
		}
	}
	if len(b.Events) > 0 {
		return nil
	}
	return to.idle(b.Next)
}

// serverSent writes Server-Sent Events.
type serverSent struct{ w io.Writer }

func (s serverSent) begin() error {
	return eventstream.Write(s.w, eventstream.Event{Retry: reconnect})
}

func (s serverSent) event(e event.Event, data []byte) error {
	return eventstream.Write(s.w, eventstream.Event{ID: string(e.ID), Type: string(e.Type), Data: data})
}

func (s serverSent) idle(cursor event.ID) error {
	return eventstream.Write(s.w, eventstream.Event{Comment: "heartbeat", ID: string(cursor)})
}

// lines writes lines of JSON. An empty line is a heartbeat.
type lines struct{ w io.Writer }

func (lines) begin() error { return nil }

func (l lines) event(_ event.Event, data []byte) error {
	_, err := l.w.Write(append(data, '\n'))
	return err
}

func (l lines) idle(event.ID) error {
	_, err := l.w.Write([]byte("\n"))
	return err
}
