package audit

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
)

// CallEntry is the pending audit entry of one call. It makes sure that the call gets exactly one.
//
// The id is chosen before the call does anything. A change that the call commits creates the entry under that id in the
// same commit. If the call commits no change, the server creates the entry afterwards. Both use create, so when the
// outcome of a commit is unknown, only one of the two can succeed: either the change is committed with its entry, or
// the server's entry took the id and the change can no longer be committed.
//
// A nil CallEntry means the call is not audited as a whole. The methods may be called from any goroutine.
type CallEntry struct {
	id string
	// since is when the call began.
	since time.Time

	mu      sync.Mutex
	claimed bool
	written bool
	begun   bool
	// replayed is true for a call that got the answer of an earlier one.
	replayed bool
	target   Target
	facts    []Change
}

// NewCallEntry returns the pending entry of a call.
func NewCallEntry() *CallEntry { return &CallEntry{id: uuid.NewString(), since: time.Now()} }

// maxOpen is how long a call may change the entry that it has written. With the 270 seconds that a commit may take, it
// is less than seal.Settling.
const maxOpen = 11 * time.Minute

// Open reports whether the call may still change its entry. Later a seal may have the entry: the end of a call that
// lasts longer is another entry.
func (e *CallEntry) Open() bool { return e != nil && time.Since(e.since) < maxOpen }

// ID is the id of the entry; "" for nil.
func (e *CallEntry) ID() string {
	if e == nil {
		return ""
	}
	return e.id
}

// Claim reports whether the caller's change is the first of the call that sends a commit. That change creates the
// entry, later ones add to it. A change claims when it sends its first commit, not earlier: the commit that creates
// the entry fails if the server has already written it, so it cannot land after the call has failed. For nil every
// change is a first one.
func (e *CallEntry) Claim() (first bool) {
	if e == nil {
		return true
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	first = !e.claimed
	e.claimed = true
	return first
}

// Begin says that the call continues after its first change. From now on, its changes write the outcome Begun, and the
// server writes the true one at the end of the call.
func (e *CallEntry) Begin() {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.begun = true
}

// Outcome is the outcome that a change writes: Begun after Begin, and Succeeded otherwise.
func (e *CallEntry) Outcome() string {
	if e == nil {
		return Succeeded
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.begun {
		return Begun
	}
	return Succeeded
}

// MarkWritten records that the entry was certainly written.
func (e *CallEntry) MarkWritten() {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.written = true
}

// Written reports whether the entry was certainly written. False does not mean that it was not.
func (e *CallEntry) Written() bool {
	if e == nil {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.written
}

// MarkReplayed records that the call got the answer of an earlier one.
func (e *CallEntry) MarkReplayed() {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.replayed = true
}

// Replayed reports whether the call got the answer of an earlier one.
func (e *CallEntry) Replayed() bool {
	if e == nil {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.replayed
}

// SetTarget records what the call acts on. Call it once the target is known to belong to the caller's organization.
func (e *CallEntry) SetTarget(target Target) {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.target = target
}

// AddFact records something about the call that is no change of a record, such as the exit code of a command. A call
// without a commit shows it among its changes. A value that was cut may end within a rune, which no store takes.
func (e *CallEntry) AddFact(field, value string) {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.facts = append(e.facts, Change{Field: field, New: strings.ToValidUTF8(value, "\uFFFD")})
}

// Facts are those added.
func (e *CallEntry) Facts() []Change {
	if e == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.facts)
}

// Target is the last target set; the zero value if none was.
func (e *CallEntry) Target() Target {
	if e == nil {
		return Target{}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.target
}
