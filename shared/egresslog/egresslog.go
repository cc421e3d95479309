// Package egresslog records which hosts agents reached through the gates of their cells, and which they were refused.
// It checks what the gates report, decides which refusals become events, and renders the log. It does not store it.
package egresslog

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"agents.example/controlplane/shared/egress"
	"agents.example/controlplane/shared/parallel"
)

// Log is the port of the store.
type Log interface {
	// Record brings the log up to date with a valid report of a gate. Its events are in the same commit. A report that
	// was recorded before, or is older than a recorded one, changes nothing. A report about an agent that does not
	// exist, or is being deleted, is dropped. Errors: Unavailable.
	Record(ctx context.Context, gate string, r egress.Report) error
	// List returns the counts of an agent in the last egress.LogTime, summed over days and gates and sorted by host. It
	// does not check whose agent that is: callers read the agent first. Errors: Unavailable.
	List(ctx context.Context, agentID string) ([]egress.Count, error)
}

// Limits of what is recorded.
const (
	// MaxHosts bounds the hosts of an agent, a day and a gate: those that are counted one by one, the others together,
	// and connections to no name.
	MaxHosts     = egress.MaxCountedHosts + 2
	maxHostBytes = 253
	maxGateBytes = 100
	// maxCount is more than a gate can count in a day. Sums of it do not overflow.
	maxCount = 1 << 40
	// clockSkew is more than the clocks of a gate and of the control plane differ.
	clockSkew = 5 * time.Minute
)

// Recorder records what gates report.
type Recorder struct {
	Log Log
	Now func() time.Time
}

// maxRecording is how many reports of a message are recorded concurrently.
const maxRecording = 8

// Record records the reports of a message. It logs and drops those that no gate sends: a gate runs in the cell, next to
// agents, and its word is not proof. Errors: Unavailable; then the message must come again.
func (r *Recorder) Record(ctx context.Context, m egress.Reports) error {
	if !printable(m.Gate, maxGateBytes) {
		slog.ErrorContext(ctx, "reports name no gate; dropped", "reports", len(m.Reports))
		return nil
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	for _, err := range parallel.ForEach(m.Reports, maxRecording, func(report egress.Report) error {
		if why := Violation(report, r.Now()); why != "" {
			slog.ErrorContext(ctx, "report of a gate is invalid; dropped", "gate", m.Gate, "why", why)
			return nil
		}
		err := r.Log.Record(ctx, m.Gate, report)
		if err != nil {
			stop(err) // the message comes again, so the other reports need not wait for an outage, too
		}
		return err
	}) {
		if err != nil {
			return cmp.Or(context.Cause(ctx), err)
		}
	}
	return nil
}

// Violation returns why a report is not one that a gate sends at a time, or "".
func Violation(r egress.Report, now time.Time) string {
	day, err := time.Parse(egress.DayFormat, r.Day)
	switch {
	case !isAgentID(r.AgentID):
		return "it names no agent"
	case err != nil:
		return "it names no day"
	case day.After(now.Add(clockSkew)):
		return "its day is in the future"
	case !ExpiresAt(day).After(now):
		return "its day is over for too long"
	case len(r.Hosts) > MaxHosts:
		return "it has too many hosts"
	}
	for i, c := range r.Hosts {
		if why := countViolation(c, day, now); why != "" {
			return fmt.Sprintf("host %d: %s", i, why)
		}
	}
	return ""
}

func isAgentID(text string) bool {
	id, err := uuid.Parse(text)
	return err == nil && id.String() == text
}

// countViolation never quotes the host, which may be long or hide what a terminal does with it.
func countViolation(c egress.Count, day, now time.Time) string {
	known := func(t time.Time) bool {
		return !t.Before(day.Add(-clockSkew)) && !t.After(now.Add(clockSkew)) &&
			!t.After(day.AddDate(0, 0, 1).Add(clockSkew))
	}
	switch {
	case !printable(c.Host, maxHostBytes):
		return "its name is empty, too long or not printable"
	case c.Used < 0 || c.Refused < 0 || c.Used > maxCount || c.Refused > maxCount:
		return "its numbers are impossible"
	case !known(c.FirstAt) || !known(c.LastAt):
		return "its times are not of the day"
	case c.Refused > 0 && (!known(c.RefusedAt) || !isReason(c.Reason)):
		return "it has no reason, or no time, of its refusal"
	case c.Refused == 0 && (!c.RefusedAt.IsZero() || c.Reason != ""):
		return "it has a reason and no refusal"
	default:
		return ""
	}
}

// isReason admits words: a gate of a later release has reasons that this one does not know.
func isReason(r egress.Reason) bool {
	const most = 64
	return r != "" && len(r) <= most && strings.Trim(string(r), "abcdefghijklmnopqrstuvwxyz_") == ""
}

// printable admits the characters of names of hosts and gates, and "(others)".
func printable(text string, most int) bool {
	if text == "" || len(text) > most {
		return false
	}
	for _, c := range []byte(text) {
		if c < ' ' || c > '~' || c == '/' {
			return false
		}
	}
	return true
}

// ExpiresAt is until when the counts of a day are kept.
func ExpiresAt(day time.Time) time.Time { return day.AddDate(0, 0, 1).Add(egress.LogTime) }

// Merge brings recorded counts up to date with those of another report of the same gate, agent and day. Hosts beyond
// MaxHosts are left out.
func Merge(recorded, reported []egress.Count) []egress.Count {
	room := MaxHosts - len(recorded)
	known := map[string]bool{}
	for _, c := range recorded {
		known[c.Host] = true
	}
	fitting := slices.DeleteFunc(slices.Clone(reported), func(c egress.Count) bool {
		if known[c.Host] {
			return false
		}
		room--
		return room < 0
	})
	return egress.Newer(recorded, fitting)
}
