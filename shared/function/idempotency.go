package function

import (
	"bytes"
	"context"
	"io"
	"net/http"

	"agents.example/controlplane/shared/idempotency"
	"agents.example/controlplane/shared/identity"
)

// withAttempt returns a context that carries the idempotency.Attempt of a call with an Idempotency-Key. The store that
// commits the change replays the first answer when it finds the key again.
//
// withAttempt reads the body, because the key stands for the whole request, and replaces it so that decode can read it
// again. It ignores the key of a call that changes nothing or has no organization. Errors: BadRequest for a bad key,
// TooLarge.
func (r Route) withAttempt(ctx context.Context, w http.ResponseWriter, req *http.Request) (context.Context, error) {
	caller := identity.From(ctx)
	if !r.Mutates() || caller.OrganizationID == "" {
		return ctx, nil
	}
	key, err := idempotency.Parse(req.Header.Values(idempotency.Header))
	if err != nil || key == "" {
		return ctx, err
	}
	body, err := readBody(w, req, r.bodyLimit())
	if err != nil {
		return ctx, err
	}
	req.Body = io.NopCloser(bytes.NewReader(body))
	return idempotency.With(ctx, idempotency.New(caller.OrganizationID, key, idempotency.Request{
		Method: r.Method, Path: req.URL.EscapedPath(), Body: body,
	})), nil
}

// setReplayed reports whether the store replayed an earlier answer, and if so sets the response header.
func setReplayed(ctx context.Context, h http.Header) bool {
	if !idempotency.From(ctx).Replayed() {
		return false
	}
	h.Set(idempotency.ReplayedHeader, "true")
	return true
}
