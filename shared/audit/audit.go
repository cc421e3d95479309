// Package audit defines the entries of the audit log, collects the facts about a call, and makes sure that each call
// gets one entry. It does not store entries, nor decide who may read them.
package audit

import (
	"strings"
	"time"

	"agents.example/controlplane/shared/identity"
)

// Entry records one mutating call, or one refused call.
type Entry struct {
	// ID is chosen once per call, so that a call can't get a second entry.
	ID             string
	OrganizationID string
	CreatedAt      time.Time
	// ExpiresAt is when the retention ends. An expired entry is not shown, even before it is deleted.
	ExpiresAt time.Time
	Actor     identity.Caller
	// Action is the name of the route, such as "StopAgent".
	Action string
	Target Target
	// Outcome is Succeeded, Begun, RehearsalRefused or the code of the error.
	Outcome string
	// Replayed is true if the call repeated an earlier one with the same Idempotency-Key and changed nothing: it got
	// the answer of the first call.
	Replayed bool
	Request  Request
	Changes  []Change
}

// Target is what a call acted on. It is incomplete for a call that was refused early, and may not exist.
type Target struct {
	Type string // "agent", "api_key", ...
	ID   string
	Name string
}

// Change is one changed field. It never holds the value of a secret.
type Change struct {
	Field string
	Old   string
	New   string
}

// Request holds the facts about the call that an entry belongs to.
type Request struct {
	Action    string
	RequestID string
	IP        string
	UserAgent string
}

// Printable returns the facts with the text of client headers as valid UTF-8 of limited length: a store may refuse
// other bytes and unbounded entries.
func (r Request) Printable() Request {
	r.IP, r.UserAgent = PrintableText(r.IP), PrintableText(r.UserAgent)
	return r
}

// maxText limits the bytes kept of a text. No browser sends a longer header.
const maxText = 512

// PrintableText returns the beginning of a text from a client, as valid UTF-8 of limited length.
func PrintableText(s string) string {
	if len(s) > maxText {
		s = s[:maxText]
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// The outcomes, in addition to the codes of errors.
const (
	// Succeeded is the outcome of a successful call.
	Succeeded = "succeeded"
	// Begun is the outcome of a call that has committed a change and continues. It remains if the process dies: then
	// the change was made, and the rest is unknown. It also remains if the call lasts; see CallEntry.Open.
	Begun = "begun"
	// RehearsalRefused is the outcome of a rehearsal that the caller may not make. The log shows who tries what a key
	// may do, and that they did not try to do it.
	RehearsalRefused = "rehearsal_refused"
)
