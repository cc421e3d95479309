// Package agentlog reads what an agent's container wrote to its standard output and standard error. It has the port
// that cells implement, cuts lines, numbers them so that a reader can resume, and encodes them for clients. It stores
// nothing: the cell keeps the log, also that of containers that have ended, and a line is never written to the control
// plane's own log.
package agentlog

import (
	"context"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
)

// The limits of an answer.
const (
	// DefaultTail and MaxTail bound the number of lines from the end of the log.
	DefaultTail = 200
	MaxTail     = 5000
	// MaxMessage is the longest message in bytes. A longer one is cut.
	MaxMessage = 16 << 10
	// MaxAnswer is the largest answer in bytes that does not follow the log.
	MaxAnswer = 4 << 20
	// MaxFollow is the longest time that one answer follows the log.
	MaxFollow = 10 * time.Minute
	// Heartbeat is the time between two comments in a stream of events.
	Heartbeat = 15 * time.Second
)

// Source opens the logs of agents.
type Source interface {
	// Open opens the log of the agent's own container, never that of a container of the platform. ctx ends the stream.
	// Errors: Conflict with CodeNotRunning if there is no container that has run, Conflict with CodeNoPrevious,
	// Unavailable if the agent's cluster does not answer.
	Open(ctx context.Context, a agent.Agent, o Options) (Stream, error)
}

// Stream is an open log.
type Stream interface {
	// Next returns the next line. It waits for one if the stream follows the log. The error is io.EOF after the last
	// line of the container, or Unavailable.
	Next() (Line, error)
	// Position returns the position after the last line, or the beginning of the stream. A stream that is opened there
	// continues with the line after it.
	Position() Position
	// Close ends the stream. Only Close may be called while Next waits: Next then returns an error.
	Close() error
}

// Options choose a part of a log.
type Options struct {
	// Tail is the maximum number of lines from the end of the log; zero means all.
	Tail int
	// Since is the time of the oldest line; zero means no limit.
	Since time.Time
	// Previous chooses a container that has ended: 1 the one that ended last, and so on up to MaxKept; 0 none of them.
	Previous int
	// Follow waits for further lines until the container ends.
	Follow bool
	// After continues after a line of an earlier stream. It replaces Tail, Since and Previous: the stream has every
	// later line that the cell still keeps, also those of a container that has started since.
	After Position
}

// Line is one line of a log.
type Line struct {
	// Time is when the container wrote the line; zero if the cell does not tell.
	Time time.Time
	// Message is the line without its end, cut to MaxMessage bytes.
	Message string
	// Cut is true if the message was longer.
	Cut bool
	// Output is where the container wrote the line.
	Output Output
	// Ended describes the container in the first line of a log that Options.Previous chose; nil in all others.
	Ended *Ended
}

// Output names a stream of a container.
type Output string

// Combined is standard output and standard error together. Kubernetes does not tell them apart by default: its option
// for that, the feature gate PodLogsQuerySplitStreams, is an alpha feature in 1.35 and excludes a limit on lines.
const Combined Output = "combined"

// Codes of errors.
const (
	CodeNotRunning = "agent_not_running"
	CodeNoPrevious = "agent_not_restarted"
)

// NotRunning is the error for an agent without a container that has run.
func NotRunning() *fault.Error {
	return fault.New(fault.Conflict, CodeNotRunning,
		"The agent has no running container, so there is no log. Start the agent, or wait until it runs.")
}

// NoPrevious is the error for the previous log of a container that has not restarted.
func NoPrevious() *fault.Error {
	return fault.New(fault.Conflict, CodeNoPrevious,
		"The agent's container has not restarted, so there is no previous log. Read the log without previous.")
}

// NoEarlier is the error for a container that ended before the ones whose logs are kept.
func NoEarlier(kept int) *fault.Error {
	return fault.New(fault.Conflict, CodeNoPrevious,
		"The logs of %d of the agent's containers are kept, at most %d and for 7 days. Read one of these.", kept,
		MaxKept)
}
