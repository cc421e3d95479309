// Package idempotency represents requests with an Idempotency-Key: it parses keys, distinguishes a repeat from a
// different request, and tracks the outcome of each attempt. It does not read requests (package function) or store
// answers (the stores).
//
// A store commits the key, the change and the answer together, so a key has no state "in progress". A repeat that
// arrives before that commit competes with the first request, loses, reads again and finds the answer. There are two
// exceptions, in which a repeat gets InProgress: a request that continues to work after its first commit and amends the
// answer later, and a request whose effects are in no commit, which claims its key first (see Answers).
package idempotency

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"agents.example/controlplane/shared/fault"
)

// The headers.
const (
	// Header carries the key of a request.
	Header = "Idempotency-Key"
	// ReplayedHeader is "true" on a replayed answer.
	ReplayedHeader = "Idempotency-Replayed"
)

// Retention is how long a store keeps a key and its answer.
const Retention = 24 * time.Hour

// ClaimTime is how long a claim lasts in addition to the time for which its request may hold something, such as a
// command. It is longer than all else of a request takes.
const ClaimTime = 90 * time.Second

// retryAfter is the wait that InProgress asks for. The first request has usually finished by then.
const retryAfter = 2 * time.Second

// maxKey is the maximum length of a key in bytes.
const maxKey = 255

// Parse returns the key in the values of the header, or "" if there is no header. Errors: BadRequest for more than one
// key, and for a key that is empty, too long, or not visible ASCII.
func Parse(values []string) (key string, err error) {
	if len(values) == 0 {
		return "", nil
	}
	key = values[0]
	good := len(values) == 1 && len(key) >= 1 && len(key) <= maxKey
	for i := range len(key) {
		good = good && key[i] > ' ' && key[i] <= '~'
	}
	if !good {
		return "", fault.New(fault.BadRequest, "invalid_idempotency_key",
			"The Idempotency-Key is not valid. "+
				"Send one key of 1 to %d visible ASCII characters, such as a random UUID.", maxKey)
	}
	return key, nil
}

// Reused returns the error for a key that a different request used within Retention.
func Reused() *fault.Error {
	e := fault.Validation(fault.Violation{
		Loc: []any{"header", Header}, Type: "value_error",
		Msg: "Value error, the key was used with a different request; " +
			"use a new key for each request, and the same key only to repeat it",
	})
	e.Code = "idempotency_key_reused"
	return e
}

// Request holds the parts that two requests must share to count as the same.
type Request struct {
	Method string
	// Path is the canonical path, escaped, with the query, if there is one.
	Path string
	Body []byte
}

// Attempt is one call with a key. Only the goroutine that serves the call may use it. A nil Attempt means a call
// without a key.
//
// A key covers one change: the first that the call makes. Later changes of the same call ignore the key, unless they
// amend the answer or replay it.
type Attempt struct {
	// ID identifies the key across all organizations without revealing it.
	ID string
	// Fingerprint is equal for equal requests. It reveals nothing about the body without the key.
	Fingerprint string

	state  state
	policy policy
	failed any
}

// state is how far an attempt has come.
type state int

// A call begins unused. Its first change uses the key, unless the store finds the answer of an earlier request: then
// the call is replayed.
const (
	unused state = iota
	used
	replayed
	// replaying: the call runs again, only to render the kept answer.
	replaying
)

// policy is what becomes of the answer that the call's first change stores. The zero value keeps it.
type policy int

const (
	// amends: later changes of the call replace the answer. Until then, repeats get InProgress.
	amends policy = iota + 1
	// discards: the store keeps the key without the answer.
	discards
)

// New returns the attempt for a request with a key in an organization.
func New(organizationID, key string, r Request) *Attempt {
	// Keys, methods and escaped paths contain no NUL, so two different sets of parts never hash the same text.
	id := sha256.Sum256([]byte(organizationID + "\x00" + key))
	// Bodies may hold secrets that are easy to guess. The key, which is not stored, keys the hash, so that a leaked
	// fingerprint does not allow guessing.
	fingerprint := hmac.New(sha256.New, []byte(key))
	_, _ = fingerprint.Write([]byte(r.Method + "\x00" + r.Path + "\x00")) // writing to a hash never fails
	_, _ = fingerprint.Write(r.Body)
	return &Attempt{ID: hex.EncodeToString(id[:]), Fingerprint: hex.EncodeToString(fingerprint.Sum(nil))}
}

// Amend makes later changes of the call replace the answer that its first change stored. Until then, repeats get
// InProgress.
func (a *Attempt) Amend() {
	if a != nil {
		a.policy = amends
	}
}

// Resume makes a repeat take over from the first request, whose process ended before its last change. The repeat's
// changes amend the answer, as those of the first request would have, and it is no replay any more.
func (a *Attempt) Resume() {
	if a != nil {
		a.state, a.policy = used, amends
	}
}

// Amending reports whether the next change replaces the answer of the call's first change.
func (a *Attempt) Amending() bool { return a != nil && a.state == used && a.policy == amends }

// Covers reports whether the next change uses the key: it is the call's first, or amends the answer. It is false for a
// call without a key.
func (a *Attempt) Covers() bool {
	return a != nil && (a.state == unused || a.state == replaying) || a.Amending()
}

// InProgress returns the error for a repeat that arrives while the first request is still running.
func InProgress() *fault.Error {
	e := fault.New(fault.Conflict, codeInProgress,
		"A request with this Idempotency-Key is still in progress. Retry in a few seconds.")
	e.RetryAfter = retryAfter
	return e
}

// IsInProgress reports whether an error is InProgress.
func IsInProgress(err error) bool { return fault.Code(err) == codeInProgress }

const codeInProgress = "idempotency_in_progress"

// Use records that a change was decided, so that the key is used.
func (a *Attempt) Use() {
	if a != nil && a.state == unused {
		a.state = used
	}
}

// Used reports whether a change used the key.
func (a *Attempt) Used() bool { return a != nil && a.state != unused }

// Replay records that the store found the answer of an earlier request.
func (a *Attempt) Replay() {
	if a != nil && a.state == unused {
		a.state = replayed
	}
}

// Replayed reports whether the call gets, or repeats, what an earlier request was answered.
func (a *Attempt) Replayed() bool { return a != nil && (a.state == replayed || a.state == replaying) }

// BeginReplaying makes the call run again for the answer of the first request, which is kept.
func (a *Attempt) BeginReplaying() {
	if a != nil {
		a.state = replaying
	}
}

// Replaying reports whether the call runs again only to render the kept answer. Reads then return what the first
// request left, and the call must not depend on other systems or on the present state.
func (a *Attempt) Replaying() bool { return a != nil && a.state == replaying }

// KeepIfFails gives repeats an answer if the call fails: it may have had its effect, so a repeat must not run again.
func (a *Attempt) KeepIfFails(answer any) {
	if a != nil {
		a.failed = answer
	}
}

// IfFails is what KeepIfFails was given; nil if a repeat of a call that fails may run again.
func (a *Attempt) IfFails() any { return a.failed }

// DiscardAnswer makes the store keep the key without the answer, which must not be stored. A repeat runs again, and the
// key is still refused for other requests.
func (a *Attempt) DiscardAnswer() {
	if a != nil {
		a.policy = discards
	}
}

// DiscardsAnswer reports whether the store must not keep the answer, so that a repeat runs again.
func (a *Attempt) DiscardsAnswer() bool { return a != nil && a.policy == discards }
