package function

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"reflect"

	infer "github.com/google/jsonschema-go/jsonschema"

	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/fault"
)

// Streamed is a request body of any type that is not held in memory: the handler reads it from the call. It refuses a
// body over the route's limit, if the client says so, before the handler, and else in the middle.
type Streamed struct{}

// JSONSchema implements Schemer.
func (Streamed) JSONSchema() *infer.Schema {
	return &infer.Schema{Description: "Bytes, which the service passes on as they arrive."}
}

// MediaTypes are those of the body.
func (Streamed) MediaTypes() []string {
	return []string{"application/octet-stream", "application/x-tar"}
}

// Streams reports whether the route's body is Streamed.
func (r Route) Streams() bool {
	f, ok := r.Handle.Input.FieldByName("Body")
	return ok && f.Type == reflect.TypeFor[Streamed]()
}

// openBody lets the handler read the body. Errors: TooLarge.
func (r *Route) openBody(w http.ResponseWriter, req *http.Request) error {
	if req.ContentLength > r.bodyLimit() {
		return r.tooLarge()
	}
	media, _, _ := mime.ParseMediaType(req.Header.Get("Content-Type"))
	call.From(req.Context()).Body = &call.Body{
		ReadCloser: &streamedBody{http.MaxBytesReader(w, req.Body, r.bodyLimit()), r}, MediaType: media,
		Length: req.ContentLength,
	}
	return nil
}

// tooLarge is the error for a body over the route's limit.
func (r *Route) tooLarge() error {
	if r.TooLarge != nil {
		return r.TooLarge
	}
	return fault.New(fault.TooLarge, "body_too_large", "The request body exceeds the limit of %d bytes.", r.bodyLimit())
}

// streamedBody is a body whose errors are those of readBody.
type streamedBody struct {
	io.ReadCloser
	route *Route
}

// Read implements io.Reader.
func (b *streamedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == nil || errors.Is(err, io.EOF) {
		return n, err
	}
	return n, b.route.explainBody(err)
}

// explainBody returns the error of a body that could not be read.
func (r *Route) explainBody(err error) error {
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		return r.tooLarge()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fault.New(fault.RequestTimeout, "request_timeout",
			"The request body arrived too slowly. Send the request again.").WithCause(err)
	default:
		return fault.New(fault.BadRequest, "body_unreadable",
			"The request body is incomplete. Send the request again.").WithCause(err)
	}
}
