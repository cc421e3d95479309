package dataplane

import "time"

// PathCalls is where the front makes the calls of schedules, for bearers of the agent's API key.
//
// GET answers with a CallReport on the calls that the query parameter id names. PUT of a CallOrder to PathCalls/<id>
// makes a call, answers 202 without waiting for it, and does nothing if the front knows the call. It answers 409 if the
// order is for another process: one whose results are lost must not be replaced by one that calls again.
const PathCalls = "/health/calls"

// CallTime is how long a call may take, and CallMemory how long the front remembers one that has ended. An order does
// not arrive that late.
const (
	CallTime   = 15 * time.Minute
	CallMemory = time.Hour
)

// Bounds of an order and of a report.
const (
	MaxOrderBytes  = 128 << 10 // a body in JSON, whose escapes need up to six bytes for one
	MaxReportBytes = 16 << 10
	MaxReported    = 32
)

// CallOrder tells a front to call its container.
type CallOrder struct {
	// Front is the process that shall make the call.
	Front    string `json:"front"`
	Schedule string `json:"schedule"`
	Path     string `json:"path"`
	Body     string `json:"body"`
}

// CallReport says which calls a process of the front knows.
type CallReport struct {
	Front string                `json:"front"`
	Calls map[string]CallResult `json:"calls"`
}

// CallResult is what became of a call.
type CallResult struct {
	// Outcome is CallRunning, CallAnswered, CallFailed or CallTimedOut.
	Outcome    string `json:"outcome"`
	Status     int    `json:"status,omitempty"`
	DurationMS int64  `json:"duration_ms,omitempty"`
}

// Outcomes of calls.
const (
	CallRunning  = "running"
	CallAnswered = "answered"
	CallFailed   = "failed"
	CallTimedOut = "timeout"
)

// Headers of a call.
const (
	HeaderSchedule       = "X-Agent-Schedule"
	HeaderIdempotencyKey = "Idempotency-Key"
)
