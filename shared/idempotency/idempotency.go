// Package idempotency knows requests that carry an Idempotency-Key: the form of a key, how a repeat is told from
// another request, and what became of it. It does not know how requests are read (package function) nor how answers are
// kept (the stores).
//
// A store commits the key, the change and its answer together, so there is no state "still running": a repeat that
// comes before that commit competes with the first request, loses, reads again and finds the answer. Only a request
// whose work goes on after its first commit, and whose later changes amend the answer, can be found unfinished.
package idempotency

import (
	"context"
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
	// ReplayedHeader is "true" on an answer that was given before.
	ReplayedHeader = "Idempotency-Replayed"
)

// Retention is how long a key is kept with its answer.
const Retention = 24 * time.Hour

// retryAfter is when the first of two requests is likely to be done.
const retryAfter = 2 * time.Second

// maxKey is the length of the longest key in bytes.
const maxKey = 255

// Parse checks the values of the header and returns the key, which is empty when there is none. Errors: BadRequest for
// a key that has no characters, too many, or others than visible ASCII, and for several keys.
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
			"Send one Idempotency-Key of 1 to %d visible ASCII characters, such as a random UUID.", maxKey)
	}
	return key, nil
}

// Reused is the error of a request whose key another request used within Retention.
func Reused() *fault.Error {
	e := fault.Validation(fault.Violation{
		Loc: []any{"header", Header}, Type: "value_error",
		Msg: "Value error, the key was used with another request; take a new key for each request and the same one for its repeats",
	})
	e.Code = "idempotency_key_reused"
	return e
}

// Request is what makes two requests the same.
type Request struct {
	Method string
	// Path is the canonical path, escaped.
	Path string
	Body []byte
}

// Attempt is one call with a key. It belongs to the goroutine that serves the call; a nil Attempt is a call without a
// key.
//
// A key stands for one change: the first that a call makes. Further changes of the same call are made as if it had no
// key.
type Attempt struct {
	// ID names the key among those of all organizations, without showing it.
	ID string
	// Fingerprint is the same for the same request, and tells nothing of its body to who doesn't know the key.
	Fingerprint string

	anew, used, replayed, amending bool
}

// New makes the attempt of a request with a key in an organization.
func New(organizationID, key string, r Request) *Attempt {
	// A key has no NUL and neither have a method and an escaped path, so the parts can't be shifted.
	id := sha256.Sum256([]byte(organizationID + "\x00" + key))
	// The key, which is kept nowhere, is the hash's own: bodies may hold what is easily guessed and must not be.
	fingerprint := hmac.New(sha256.New, []byte(key))
	_, _ = fingerprint.Write([]byte(r.Method + "\x00" + r.Path + "\x00")) // a hash takes everything
	_, _ = fingerprint.Write(r.Body)
	return &Attempt{ID: hex.EncodeToString(id[:]), Fingerprint: hex.EncodeToString(fingerprint.Sum(nil))}
}

// Amend has the further changes of the call replace the answer that its first one kept, until which the request counts
// as unfinished.
func Amend(ctx context.Context) {
	if a := From(ctx); a != nil {
		a.amending = true
	}
}

// Amending reports whether a change that comes now replaces the answer of the call's first.
func (a *Attempt) Amending() bool { return a != nil && a.used && a.amending && !a.replayed }

// InProgress is the error of a repeat that comes while the request is still being carried out.
func InProgress() *fault.Error {
	e := fault.New(fault.Conflict, "idempotency_in_progress",
		"A request with this Idempotency-Key is still being carried out. Repeat it in some seconds.")
	e.RetryAfter = retryAfter
	return e
}

// Use says that a change has taken the key.
func (a *Attempt) Use() {
	if a != nil {
		a.used = true
	}
}

// Used reports whether a change has taken the key.
func (a *Attempt) Used() bool { return a != nil && a.used }

// Replay says that the request was answered before.
func (a *Attempt) Replay() {
	if a != nil {
		a.replayed = true
	}
}

// Replayed reports whether the request was answered before.
func (a *Attempt) Replayed() bool { return a != nil && a.replayed }

// Anew reports whether a repeat is carried out again instead of being given the answer that is kept.
func (a *Attempt) Anew() bool { return a != nil && a.anew }

type attemptKey struct{}

// With returns a context that carries an attempt.
func With(ctx context.Context, a *Attempt) context.Context {
	return context.WithValue(ctx, attemptKey{}, a)
}

// From returns the attempt in ctx, or nil.
func From(ctx context.Context) *Attempt {
	a, _ := ctx.Value(attemptKey{}).(*Attempt)
	return a
}

// Anew has a repeat of the call carried out again, because its answer is one that may not be kept. The key is kept
// without an answer, so that it is still refused to other requests.
func Anew(ctx context.Context) {
	if a := From(ctx); a != nil {
		a.anew = true
	}
}
