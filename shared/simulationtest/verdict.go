// Package simulationtest runs the control plane's own code against a simulated outside: in one process, on a virtual
// clock, with every interleaving, failure and delay chosen by a seed. It implements the ports of the domain. It does
// not test the adapters in infra; the conformance suites of the ports hold for both.
package simulationtest

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Verdict is what happens to one step of a process.
type Verdict string

// The verdicts.
const (
	// Happens: the effect takes place, and the process gets the answer.
	Happens Verdict = "happens"
	// Refused: the effect does not take place, and the process gets an error.
	Refused Verdict = "refused"
	// Lost: the effect takes place, and the process gets an error instead of the answer.
	Lost Verdict = "lost"
	// Late: the process gets an error when its call times out. The effect takes place later.
	Late Verdict = "late"
	// CrashesBefore: the process ends before the effect.
	CrashesBefore Verdict = "crashes before"
	// CrashesAfter: the process ends after the effect.
	CrashesAfter Verdict = "crashes after"
)

// Faults lists the verdicts that are no success.
func Faults() []Verdict { return []Verdict{Refused, Lost, Late, CrashesBefore, CrashesAfter} }

// Service is what a step calls.
type Service int

// The services.
const (
	DatabaseService Service = iota
	ClusterService
	SecretService
	ProberService
	QueueService
	PaymentService
	ReceiverService
	services
)

// callTimeout is how long a call may take, as in the adapters.
const callTimeout = 10 * time.Second

// lateness is how long after its end a call may still have its effect. The accounting of secret versions relies on a
// bound: a value is added within secret.StoringTime, or never.
func (s Service) lateness() time.Duration {
	switch s {
	case SecretService:
		return 7 * time.Second
	case ClusterService:
		return 10 * time.Minute
	default:
		return time.Minute
	}
}

// Error is the answer to a step that failed. Adapters make the fault of their port from it.
type Error struct {
	Verdict Verdict
	Step    string
}

// Error implements error.
func (e *Error) Error() string { return e.Step + ": " + string(e.Verdict) }

// unsent reports whether the call certainly had no effect.
func (e *Error) unsent() bool { return e.Verdict == Refused }

// row is one line of a trace.
type row struct {
	at            time.Duration
	process, step string
	verdict       Verdict
}

// The FNV-1a hash.
const (
	offset = 14695981039346656037
	prime  = 1099511628211
)

func hash(sum uint64, text string) uint64 {
	for i := range len(text) {
		sum = (sum ^ uint64(text[i])) * prime
	}
	return (sum ^ 0xff) * prime
}

// record adds to the trace and to the sum that distinguishes schedules.
func (s *Scheduler) record(process, step string, verdict Verdict) {
	s.sum = hash(hash(hash(s.sum, process), step), string(verdict))
	if s.Keep {
		s.trace = append(s.trace, row{at: s.Elapsed(), process: process, step: step, verdict: verdict})
	}
}

// Note adds a line to the trace that is no part of the schedule.
func (s *Scheduler) Note(process, format string, args ...any) {
	if s.Keep {
		s.trace = append(s.trace, row{at: s.Elapsed(), process: process, step: "→ " + fmt.Sprintf(format, args...)})
	}
}

// Sum is equal for equal schedules.
func (s *Scheduler) Sum() uint64 { return s.sum }

// Trace is the schedule as a table: time, process, step and verdict.
func (s *Scheduler) Trace() string {
	var b strings.Builder
	for _, r := range s.trace {
		if r.process == "clock" {
			continue // the next line has the time
		}
		fmt.Fprintf(&b, "%12s  %-14s %-44s %s\n", r.at, r.process, r.step, r.verdict)
	}
	return b.String()
}

// portError turns the failure of a step into the error of its port.
func portError(err error, unavailable func() error) error {
	var failed *Error
	if errors.As(err, &failed) {
		return unavailable()
	}
	return err
}

// String implements fmt.Stringer.
func (s Service) String() string {
	return [...]string{"database", "cluster", "secret store", "prober", "queue", "payments", "receiver", "?"}[s]
}
