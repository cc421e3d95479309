package function

import (
	"bytes"
	"context"
	"io"
	"net/http"

	"agents.example/controlplane/shared/idempotency"
	"agents.example/controlplane/shared/identity"
)

// attempt returns a context that carries the attempt of a call with an Idempotency-Key. It reads the body, because the
// key stands for the whole request, and leaves it to be read again. The key of a call that changes nothing, or that is
// of no organization, means nothing. Errors: BadRequest for a bad key, TooLarge.
func (r Route) attempt(ctx context.Context, w http.ResponseWriter, req *http.Request) (context.Context, error) {
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

// replayed reports whether the call was answered before, and tells the client so.
func replayed(ctx context.Context, h http.Header) bool {
	if !idempotency.From(ctx).Replayed() {
		return false
	}
	h.Set(idempotency.ReplayedHeader, "true")
	return true
}
