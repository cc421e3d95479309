package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"mime"
	"net/http"
	"net/url"
	"time"
)

// eventStream is the media type of a stream of events.
const eventStream = "text/event-stream"

// The times of a follower.
const (
	// silence is how long a stream may send nothing. The API sends a comment every 15 seconds.
	silence = time.Minute
	// followPause is the pause before a stream is opened again, unless the API asks for another one.
	followPause    = 2 * time.Second
	maxFollowPause = 30 * time.Second
	// podPatience is how long a running agent may be without a pod before the follower gives up. The agent gets one
	// when it restarts, and after 5 minutes at most when it waits for a node; then the API calls it an error.
	podPatience = 6 * time.Minute
	// outagePatience is how long the API may be out of reach before a follower or a wait gives up.
	outagePatience = 2 * time.Minute
)

// FollowAgentLogs returns the lines of an agent's log, and those that the agent writes from then on. It continues after
// a lost connection and after the API's limit of 10 minutes, without losing or repeating a line that the cluster still
// keeps. The iteration ends without an error when the agent has no pod and gets none by itself: it was stopped, paused
// or deleted, or it is in error. Otherwise, it ends with an error, which is that of ctx if ctx has ended.
//
// An agent that has no pod at the first request is an error with the code agent_not_running. So is one that should run
// and gets no other pod within 6 minutes.
func (c *Client) FollowAgentLogs(
	ctx context.Context, agentID string, params GetAgentLogsParams, options ...CallOption,
) iter.Seq2[AgentLogLine, error] {
	query := url.Values{"follow": {"true"}}
	setParam(query, "tail", params.Tail)
	setParam(query, "since", params.Since)
	setParam(query, "previous", params.Previous)
	setParam(query, "ended", params.Ended)
	return func(yield func(AgentLogLine, error) bool) {
		l := logFollower{
			follower: follower{
				client: c, options: options, pause: followPause,
				call: call{
					method: http.MethodGet, path: "/api/v1/agents/%s/logs", args: []string{agentID}, query: query,
				},
			},
			agentID: agentID,
		}
		l.ended = l.logEnded
		l.pass = func(e event) (bool, error) {
			if e.name != "" && e.name != "message" {
				return true, nil // for later versions of the API
			}
			return passTo(yield, e)
		}
		if err := l.run(ctx); err != nil && !l.stopped {
			yield(AgentLogLine{}, err)
		}
	}
}

// logFollower follows the log of an agent.
type logFollower struct {
	follower
	agentID string
}

// logEnded is the follower's function ended. A log ends when its agent gets no other pod by itself.
func (l *logFollower) logEnded(ctx context.Context, err error) (ended bool, failed error) {
	e := AsError(err)
	switch {
	case err == nil:
		return false, nil
	case l.lastOpen.IsZero():
		return false, err
	case IsNotFound(err):
		return true, nil
	case e != nil && e.Code == "agent_not_running":
		l.lastAnswer = time.Now()
		if l.hasStopped(ctx) {
			return true, nil
		}
		if time.Since(l.lastOpen) > podPatience {
			return false, err
		}
	case !mayPass(ctx, err) || time.Since(l.lastAnswer) > outagePatience:
		return false, err
	}
	return false, nil
}

// hasStopped reports whether the agent gets no other pod by itself.
func (l *logFollower) hasStopped(ctx context.Context) bool {
	a, err := l.client.GetAgent(ctx, l.agentID, GetAgentParams{})
	if err != nil {
		return IsNotFound(err)
	}
	return a.Status.IsSettled() && a.Status != AgentStatusRunning || a.Status == AgentStatusDeleting
}

// FollowEvents returns the organization's events after params.Cursor, and those that are committed from then on.
// Without a cursor, it begins with the first event after the iteration began. It continues after the end of an answer,
// a lost connection and an outage of the API, without losing or repeating an event.
//
// The iteration ends with an error: that of ctx if ctx has ended, that of the first stream if it cannot be opened, or
// one that a repeat would meet again. Examples are cursor_expired, after an outage longer than the API keeps events,
// and invalid_token.
//
// The id of the last event is the cursor with which another call continues.
func (c *Client) FollowEvents(
	ctx context.Context, params StreamEventsParams, options ...CallOption,
) iter.Seq2[Event, error] {
	query := url.Values{}
	setParam(query, "agent_id", params.AgentID)
	setParam(query, "type", params.Type)
	return func(yield func(Event, error) bool) {
		f := follower{
			client: c, options: options, pause: followPause, lastID: params.Cursor,
			call: call{method: http.MethodGet, path: "/api/v1/events/stream", query: query},
			pass: func(e event) (bool, error) { return passTo(yield, e) },
		}
		f.ended = func(ctx context.Context, err error) (bool, error) {
			if err != nil && (f.lastOpen.IsZero() || !mayPass(ctx, err)) {
				return false, err
			}
			return false, nil
		}
		err := f.startEvents(ctx)
		if err == nil {
			err = f.run(ctx)
		}
		if err != nil && !f.stopped {
			yield(Event{}, err)
		}
	}
}

// startEvents reads the cursor after the newest event, if the caller gave none. A stream also begins there, but it can
// break off before it has sent its first cursor.
func (f *follower) startEvents(ctx context.Context) error {
	if f.lastID != "" {
		return nil
	}
	var header http.Header
	options := append(f.options[:len(f.options):len(f.options)], ResponseHeader(&header))
	newest := f.client.ListEvents(ListEventsParams{Limit: 1}).call
	_, err := sendForList[Event](ctx, f.client, newest, options)
	f.lastID = header.Get("X-Event-Cursor")
	return err
}

// passTo decodes what an event has, and passes it on. It returns false if the caller wants no further one.
func passTo[T any](yield func(T, error) bool, e event) (bool, error) {
	var item T
	if err := json.Unmarshal(e.data, &item); err != nil {
		return false, permanentError{fmt.Errorf("an event of the stream cannot be read: %w", err)}
	}
	return yield(item, nil), nil
}

// follower follows a log, or the events of an organization, over many streams.
type follower struct {
	client  *Client
	call    call
	options []CallOption
	// pass passes an event on. It returns false if the caller wants no further one.
	pass func(e event) (bool, error)
	// ended decides whether there is nothing more to follow after a stream ended, or could not be opened, with err.
	// Otherwise, another stream continues.
	ended func(ctx context.Context, err error) (ended bool, failed error)

	// lastID is the id after which the next stream continues.
	lastID string
	// pause is the pause before the next stream. It doubles while none can be opened.
	pause time.Duration
	// lastOpen is when a stream was open last; zero if none was.
	lastOpen time.Time
	// lastAnswer is when the API opened a stream, or said that the agent has no pod.
	lastAnswer time.Time
	// stopped is true once the caller wants nothing further.
	stopped bool
}

// run passes events on until ended reports the end, and returns nil, or the follower must give up.
func (f *follower) run(ctx context.Context) error {
	for {
		err := f.read(ctx)
		switch ended, failed := f.ended(ctx, err); {
		case f.stopped || ended:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case failed != nil:
			return failed
		}
		if err := f.client.retry.sleep(ctx, f.pause); err != nil {
			return err
		}
		f.pause = min(2*f.pause, maxFollowPause)
	}
}

// read passes on the events of one stream. It returns nil when the API has ended the stream.
func (f *follower) read(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	options := f.options
	if f.lastID != "" {
		options = append(options[:len(options):len(options)], RequestHeader("Last-Event-ID", f.lastID))
	}
	res, err := f.client.open(ctx, f.call, eventStream, options)
	if err != nil {
		return err
	}
	defer res.Body.Close() //nolint:errcheck // nothing is written
	if t, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); t != eventStream {
		return errors.New("the answer is no stream of events. Check that the base URL is that of the API")
	}
	opened := func() { f.lastOpen, f.lastAnswer = time.Now(), time.Now() }
	opened()
	defer opened()
	dead := time.AfterFunc(silence, cancel) // a connection can be lost without an error
	defer dead.Stop()
	f.pause = followPause
	events := newEventReader(watched{res.Body, dead}, f.lastID)
	for {
		e, err := events.next()
		f.lastID = events.lastID // an id without an event also moves the cursor on
		if events.reconnect > 0 {
			f.pause = min(events.reconnect, maxFollowPause)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		more, err := f.pass(e)
		if err != nil {
			return err
		}
		if !more {
			f.stopped = true
			return nil
		}
	}
}

// watched is a stream that is dead when it sends nothing for some time.
type watched struct {
	io.Reader
	dead *time.Timer
}

// Read implements io.Reader.
func (w watched) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	if n > 0 {
		w.dead.Reset(silence)
	}
	return n, err
}
