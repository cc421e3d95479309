package function

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/idempotency"
)

// setAttempt gives a call with an Idempotency-Key its attempt. The store that commits the change replays the first
// answer when it finds the key again.
//
// setAttempt reads the body, because the key stands for the whole request, and replaces it so that decode can read it
// again. It ignores the key of a call that changes nothing, has no organization, or has a
// body that is not held in memory. Errors: BadRequest for a bad key,
// TooLarge.
func (r *Route) setAttempt(c *call.Call, w http.ResponseWriter, req *http.Request) error {
	if !r.Mutates() || r.Streams() || c.Caller.OrganizationID == "" {
		return nil
	}
	key, err := idempotency.Parse(req.Header.Values(idempotency.Header))
	if err != nil || key == "" {
		return err
	}
	body, err := r.readBody(w, req)
	if err != nil {
		return err
	}
	req.Body = io.NopCloser(bytes.NewReader(body))
	c.Attempt = idempotency.New(c.Caller.OrganizationID, key, idempotency.Request{
		Method: r.Method, Path: target(req.URL), Body: body,
	})
	return nil
}

// target returns the path and the query of a request, without the order of the parameters.
func target(u *url.URL) string {
	if query := u.Query().Encode(); query != "" {
		return u.EscapedPath() + "?" + query
	}
	return u.EscapedPath()
}

// callHandler runs the handler of a route. A repeat of a call with an Idempotency-Key gets the kept answer, even if the
// handler would fail now. Example: the repeat of a deletion when the agent is gone.
//
// It looks the answer up after a failure only, because the commit of a change finds the answer without another call.
func (g Guard) callHandler(ctx context.Context, r *Route, input []byte) (any, error) {
	attempt := call.From(ctx).Attempt
	if attempt == nil || g.Answers == nil {
		return r.Handle.call(ctx, input)
	}
	if r.KeepAnswer {
		return g.callOnce(ctx, r, attempt, input)
	}
	out, err := r.Handle.call(ctx, input)
	if err == nil || attempt.Used() {
		return out, err
	}
	switch kept, lookup := g.Answers.Kept(ctx, attempt); {
	case fault.Is(lookup, fault.Invalid): // the key of a different request
		return nil, lookup
	case lookup != nil, !kept, attempt.DiscardsAnswer():
		return nil, err
	}
	attempt.BeginReplaying()
	if replayed, failure := r.Handle.call(ctx, input); failure == nil {
		return replayed, nil
	}
	return nil, err
}

// endClaimTimeout bounds how long a response waits for its answer to be kept.
const endClaimTimeout = 5 * time.Second

// callOnce runs the handler of a route with KeepAnswer under a claim of the key.
func (g Guard) callOnce(ctx context.Context, r *Route, attempt *idempotency.Attempt, input []byte) (any, error) {
	claim, err := g.Answers.Claim(ctx, attempt, idempotency.ClaimTime+r.Holds)
	if err != nil {
		return nil, err
	}
	if claim.Kept {
		attempt.Replay()
		return keptOutput(claim.Answer), nil
	}
	out, err := r.Handle.call(ctx, input)
	kept := out
	if err != nil {
		kept = attempt.IfFails()
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), endClaimTimeout)
	defer cancel()
	endClaim := func() error { return g.Answers.Release(end, attempt, claim) }
	if kept != nil {
		answer, failure := keptBody(kept)
		if failure == nil {
			endClaim = func() error { return g.Answers.Keep(end, attempt, claim, answer) }
		}
		err = cmp.Or(err, failure)
	}
	if failure := endClaim(); failure != nil { // the claim ends by itself, and then a repeat runs again
		slog.WarnContext(ctx, "idempotency key could not be released", "action", r.Name, "error", failure)
	}
	return out, err
}

// keptBody encodes the body of an answer; empty for an answer without a body.
func keptBody(out any) ([]byte, error) {
	if _, none := out.(None); none {
		return nil, nil
	}
	if k, ok := out.(Keeper); ok {
		out = k.Keep()
	}
	return encodeJSON(out)
}

// Keeper is implemented by outputs of routes with KeepAnswer that must not be stored as a whole.
type Keeper interface {
	// Keep returns what repeats of the call get.
	Keep() any
}

// keptOutput is the output that renders a kept body.
func keptOutput(body []byte) any {
	if len(body) == 0 {
		return None{}
	}
	return Raw{ContentType: "application/json", Bytes: body}
}

// setReplayed sets the response header if the store replayed an earlier answer.
func setReplayed(c *call.Call, h http.Header) {
	if c.Attempt.Replayed() {
		h.Set(idempotency.ReplayedHeader, "true")
	}
}
