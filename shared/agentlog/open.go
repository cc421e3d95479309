package agentlog

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
)

// Pods reads the pods of agents. It is what a source needs from a cell.
type Pods interface {
	// Containers returns the runs of the agent's container whose logs the cell keeps. Errors: Conflict with
	// CodeNotRunning if there is no pod, Unavailable.
	Containers(ctx context.Context, a agent.Agent) (Containers, error)
	// Kept returns the containers that have ended and whose logs the cell keeps, in no order. Errors: Unavailable.
	Kept(ctx context.Context, a agent.Agent) ([]Ended, error)
	// Read opens the log of one of them: lines with their times, as Reader expects them. ctx ends it. Errors: as those
	// of Source. A log that is gone is the error NoPrevious.
	Read(ctx context.Context, a agent.Agent, p Part) (io.ReadCloser, error)
}

// Containers are the last two runs of an agent's container, by their identifiers in positions; empty for none.
type Containers struct {
	// Current is the run whose log Kubernetes returns by default: the one that runs, or the last one.
	Current string
	// Previous is the last run that has ended. While the container waits for its next run, both are the same.
	Previous string
	// Last describes the container that ended last, if the pod has its log; its Container is empty for none. It is
	// Previous, unless the current one has ended and is not replaced yet: then Held is true.
	Last Ended
	Held bool
}

// Part is a part of the log of one run of a container.
type Part struct {
	Container string
	// Previous chooses Containers.Previous instead of Containers.Current.
	Previous bool
	// Kept chooses a container whose log is kept.
	Kept bool
	// Ended describes the container that Options.Previous chose; its Container is empty for others.
	Ended  Ended
	Follow bool
	// Tail is the maximum number of lines from the end; zero means all.
	Tail int
	// From is the time of the oldest line, in whole seconds; zero means no limit.
	From time.Time
}

// tailMargin is the number of lines before its tail that a stream which follows reads and drops. Positions count equal
// lines of one time, and the tail may begin between them.
const tailMargin = 64

// maxAttempts bounds how often Open looks for the agent's container again, because another one started in between.
const maxAttempts = 3

// Open implements Source.Open for a cell.
func Open(ctx context.Context, pods Pods, a agent.Agent, o Options) (Stream, error) {
	if o.After.Container != "" {
		o.Tail, o.Since, o.Previous = 0, time.Time{}, 0
	}
	s := &stream{pods: pods, agent: a, options: o}
	s.ctx, s.cancel = context.WithCancel(ctx)
	for range maxAttempts {
		var err error
		if s.parts, err = s.findParts(); err != nil {
			s.cancel()
			return nil, err
		}
		switch opened, err := s.openFirst(); {
		case err != nil:
			s.cancel()
			return nil, err
		case opened:
			return s, nil
		}
	}
	s.cancel()
	return nil, fault.New(fault.Unavailable, "agent_restarting", "The agent's container keeps restarting. Retry.")
}

// findParts looks for the parts of logs that the options ask for.
func (s *stream) findParts() ([]Part, error) {
	o := s.options
	found, err := s.pods.Containers(s.ctx, s.agent)
	if o.Previous == 0 {
		if err != nil {
			return nil, err
		}
		return parts(found, o)
	}
	if err != nil && fault.Code(err) != CodeNotRunning {
		return nil, err
	}
	part, err := s.choosePrevious(found, err)
	if err != nil {
		return nil, err
	}
	part.Tail, part.From = o.Tail, From(part.Container, o)
	s.ended = &part.Ended
	return []Part{part}, nil
}

// parts lists the parts of logs of the current container, and of the one before it for a reader that has missed it.
func parts(found Containers, o Options) ([]Part, error) {
	if found.Current == "" {
		return nil, NotRunning()
	}
	var list []Part
	// A reader that knows neither run has missed the end of an earlier one: it gets all that the cell still has.
	resumed := o.After.Container != "" && o.After.Container != found.Current
	if resumed && found.Previous != "" && found.Previous != found.Current {
		list = append(list, Part{Container: found.Previous, Previous: true, From: From(found.Previous, o)})
	}
	return append(list, Part{
		Container: found.Current, Follow: o.Follow, Tail: o.Tail, From: From(found.Current, o),
	}), nil
}

// stream implements Stream over the parts of a log.
type stream struct {
	ctx     context.Context // of the whole stream
	cancel  context.CancelFunc
	pods    Pods
	agent   agent.Agent
	options Options
	// ended describes the container that Options.Previous chose, and told is true once a line says so.
	ended *Ended
	told  bool
	// parts are those after the open one.
	parts []Part

	// mu is held while a line is read, and while the open part is closed.
	mu     sync.Mutex
	body   io.ReadCloser
	reader *Reader
}

// openFirst opens the first part.
func (s *stream) openFirst() (opened bool, err error) {
	drop := 0
	if o := s.options; o.Follow && o.Tail > 0 {
		s.parts[0].Tail = o.Tail + tailMargin
		if drop, err = s.countBefore(s.parts[0]); err != nil {
			return false, err
		}
	}
	if opened, err = s.openNext(); opened {
		s.reader.drop = drop
	}
	return opened, err
}

// countBefore counts the lines of a part that are before the tail.
func (s *stream) countBefore(p Part) (int, error) {
	p.Follow = false
	body, err := s.pods.Read(s.ctx, s.agent, p)
	if err != nil {
		return 0, err
	}
	defer func() { _ = body.Close() }()
	r := NewReader(body, p.Container, Options{})
	for n := 0; ; n++ {
		if _, err := r.Next(); errors.Is(err, io.EOF) {
			return max(0, n-s.options.Tail), nil
		} else if err != nil {
			return 0, unreadable(err)
		}
	}
}

// openNext opens the next part. It reports false if the part's container is no longer there.
func (s *stream) openNext() (bool, error) {
	part := s.parts[0]
	body, err := s.read(part)
	if err != nil {
		return false, err
	}
	// Positions and descriptions need to know for certain which container answered.
	if s.options.Follow || s.ended != nil && !s.parts[0].Kept {
		found, err := s.pods.Containers(s.ctx, s.agent)
		now := found.Current
		if part.Previous {
			now = found.Previous
		}
		if fault.Code(err) == CodeNotRunning && s.ended != nil {
			err = nil // the pod has gone, and with it the container
		}
		if err != nil || now != part.Container {
			return false, errors.Join(err, body.Close())
		}
	}
	s.parts, s.body, s.reader = s.parts[1:], body, NewReader(body, part.Container, s.options)
	return true, nil
}

// read opens a part. The kubelet may have dropped the log of a container that the pod still names: then the kept one
// is read. A reader that resumes does without it.
func (s *stream) read(part Part) (io.ReadCloser, error) {
	body, err := s.pods.Read(s.ctx, s.agent, part)
	if s.ended == nil && !part.Previous || part.Kept || !isGone(err) {
		return body, err
	}
	part.Kept = true
	kept, keptErr := s.pods.Read(s.ctx, s.agent, part)
	switch {
	case keptErr != nil && s.ended != nil:
		return nil, err
	case isGone(keptErr):
		return io.NopCloser(strings.NewReader("")), nil
	case keptErr != nil:
		return nil, keptErr
	}
	s.parts[0] = part
	return kept, nil
}

// isGone reports whether a log is no longer there.
func isGone(err error) bool {
	return fault.Code(err) == CodeNoPrevious || fault.Code(err) == CodeNotRunning
}

// Next implements Stream.
func (s *stream) Next() (Line, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		l, err := s.reader.Next()
		if errors.Is(err, io.EOF) && s.ctx.Err() != nil { // the end of a request may look like the end of a log
			err = context.Cause(s.ctx)
		}
		switch {
		case err == nil:
			if !s.told {
				s.told, l.Ended = true, s.ended
			}
			return l, nil
		case !errors.Is(err, io.EOF):
			_ = s.body.Close()
			return Line{}, unreadable(err)
		case len(s.parts) == 0:
			_ = s.body.Close()
			return Line{}, io.EOF
		}
		_ = s.body.Close() // it has ended
		if opened, err := s.openNext(); err != nil {
			return Line{}, err
		} else if !opened {
			return Line{}, io.EOF // the client continues at the position
		}
	}
}

// unreadable is the error of a log that breaks off. The cause of a cell never has the text of a line.
func unreadable(cause error) error {
	var known *fault.Error
	if errors.As(cause, &known) {
		return cause
	}
	return fault.New(fault.Unavailable, "cluster_unavailable",
		"The agent's cluster stopped sending the log. Retry.").WithCause(cause)
}

// Position implements Stream.
func (s *stream) Position() Position { return s.reader.Position() }

// Close implements Stream. The end of the context makes a Next return that waits.
func (s *stream) Close() error {
	s.cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.body.Close() // the stream may be broken
	return nil
}
