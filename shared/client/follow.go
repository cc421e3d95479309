package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"time"
)

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
	// outagePatience is how long the API may be out of reach before the follower gives up.
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
	return func(yield func(AgentLogLine, error) bool) {
		f := follower{
			client: c, agentID: agentID, options: options, yield: yield, pause: followPause,
			call: call{method: http.MethodGet, path: "/api/v1/agents/%s/logs", args: []string{agentID}, query: query},
		}
		if err := f.run(ctx); err != nil && !f.stopped {
			yield(AgentLogLine{}, err)
		}
	}
}

// follower follows one log over many streams.
type follower struct {
	client  *Client
	agentID string
	call    call
	options []CallOption
	yield   func(AgentLogLine, error) bool

	// lastID is the id of the last event that was passed on.
	lastID string
	// pause is the pause before the next stream. It doubles while none can be opened.
	pause time.Duration
	// lastOpen is when a stream was open last; zero if none was.
	lastOpen time.Time
	// lastAnswer is when the API opened a stream, or said that the agent has no pod.
	lastAnswer time.Time
	// stopped is true once the caller wants no further line.
	stopped bool
}

// run passes on lines until the log has ended, and returns nil, or the follower must give up.
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

// ended decides whether the log has ended after a stream did, or could not be opened, with err. Otherwise, the log goes
// on in another stream.
func (f *follower) ended(ctx context.Context, err error) (ended bool, failed error) {
	e := AsError(err)
	switch {
	case err == nil:
		return false, nil
	case f.lastOpen.IsZero():
		return false, err
	case e != nil && e.Status == http.StatusNotFound:
		return true, nil
	case e != nil && e.Code == "agent_not_running":
		f.lastAnswer = time.Now()
		if f.hasStopped(ctx) {
			return true, nil
		}
		if time.Since(f.lastOpen) > podPatience {
			return false, err
		}
	case !mayPass(ctx, err) || time.Since(f.lastAnswer) > outagePatience:
		return false, err
	}
	return false, nil
}

// hasStopped reports whether the agent gets no other pod by itself.
func (f *follower) hasStopped(ctx context.Context) bool {
	a, err := f.client.GetAgent(ctx, f.agentID, GetAgentParams{})
	if err != nil {
		return IsNotFound(err)
	}
	return a.Status.IsSettled() && a.Status != AgentStatusRunning || a.Status == AgentStatusDeleting
}

// read passes on the lines of one stream. It returns nil when the API has ended the stream.
func (f *follower) read(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	options := f.options
	if f.lastID != "" {
		options = append(options[:len(options):len(options)], RequestHeader("Last-Event-ID", f.lastID))
	}
	res, err := f.client.open(ctx, f.call, "text/event-stream", options)
	if err != nil {
		return err
	}
	defer res.Body.Close() //nolint:errcheck // nothing is written
	opened := func() { f.lastOpen, f.lastAnswer = time.Now(), time.Now() }
	opened()
	defer opened()
	dead := time.AfterFunc(silence, cancel) // a connection can be lost without an error
	defer dead.Stop()
	f.pause = followPause
	events := newEventReader(watched{res.Body, dead}, f.lastID)
	for {
		e, err := events.next()
		if events.reconnect > 0 {
			f.pause = min(events.reconnect, maxFollowPause)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := f.pass(e); err != nil || f.stopped {
			return err
		}
		f.lastID = events.lastID
	}
}

// pass passes on the line of an event. Events with a name are for later versions of the API.
func (f *follower) pass(e event) error {
	if e.name != "" && e.name != "message" {
		return nil
	}
	var line AgentLogLine
	if err := json.Unmarshal(e.data, &line); err != nil {
		return permanentError{fmt.Errorf("an event of the log cannot be read: %w", err)}
	}
	f.stopped = !f.yield(line, nil)
	return nil
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
