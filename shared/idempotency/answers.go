package idempotency

import (
	"context"
	"time"
)

// Answers finds kept answers, and keeps those of requests whose effects are in no commit of the store.
type Answers interface {
	// Kept reports whether the answer to the attempt's request is kept. Errors: Invalid for the key of a different
	// request, Unavailable.
	Kept(ctx context.Context, a *Attempt) (bool, error)
	// Claim claims the attempt's key for a request that is about to run, or returns the kept answer. A claim ends after
	// a time, because its process may have died. Errors: Invalid for the key of a different request, Conflict while
	// another call with the key is in progress, Unavailable.
	Claim(ctx context.Context, a *Attempt, lasts time.Duration) (Claim, error)
	// Keep ends a claim and keeps the request's answer. If the attempt discards its answer, a repeat runs again. Keep
	// does nothing if the claim has ended. Errors: Unavailable.
	Keep(ctx context.Context, a *Attempt, c Claim, answer []byte) error
	// Release ends a claim without an answer: the request failed, and a repeat runs again. Errors: Unavailable.
	Release(ctx context.Context, a *Attempt, c Claim) error
}

// Claim is the right to carry out the request with a key, or the answer of the request that was carried out.
type Claim struct {
	// Version identifies the claim in its store.
	Version string
	// Kept is true if Answer is the kept answer. The request must then not be carried out.
	Kept   bool
	Answer []byte
}
