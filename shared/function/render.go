package function

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"agents.example/controlplane/shared/fault"
)

// Raw is a body that is sent unchanged instead of as JSON. A Reply returns it.
type Raw struct {
	ContentType string
	// Status replaces the status of the route, for protocols that have several for a success; zero keeps it.
	Status int
	Bytes  []byte
	// Stream writes a body that is too large for memory or not complete yet; nil if Bytes is the body. The writer
	// buffers a little before it sends; Flush sends what it holds. Its errors mean that the client disconnected.
	Stream func(w io.Writer) error
	// Others are further media types of the route's answers. They only describe the body.
	Others []string
	// Item is a value of the type that each line of JSON, or the data of each event, has. It only describes the body;
	// nil for other bodies.
	Item any
}

// Formats is a body in several formats: the client gets the one that it prefers, and the first by default. A Reply
// returns it.
type Formats []Raw

// preferred returns the format that the client prefers.
func (f Formats) preferred(req *http.Request) Raw {
	others := make([]Format, len(f)-1)
	for i, raw := range f[1:] {
		others[i] = Format{ContentType: raw.ContentType}
	}
	chosen := negotiate(req, f[0].ContentType, others)
	for _, raw := range f[1:] {
		if chosen != nil && raw.ContentType == chosen.ContentType {
			return raw
		}
	}
	return f[0]
}

// render writes a success. It encodes the body before it sends the first byte, so an encoding error becomes a 500. Only
// a Raw.Stream body is sent while it is written.
func (r *Route) render(w http.ResponseWriter, req *http.Request, out any) error {
	status := r.Status
	if r.rehearsed(req) {
		status = http.StatusOK
	}
	body := out
	if reply, ok := out.(Reply); ok {
		body = reply.Reply(w.Header())
	}
	if notModified(req, w.Header().Get("ETag")) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	switch body := body.(type) {
	case Upgrade:
		return body.Serve(w, req)
	case None:
		w.WriteHeader(status)
		return nil
	case Raw:
		return renderRaw(w, req, status, body)
	case Formats:
		w.Header().Add("Vary", "Accept")
		return renderRaw(w, req, status, body.preferred(req))
	case Negotiable:
		w.Header().Add("Vary", "Accept")
		if format := negotiate(req, "application/json", body.Formats()); format != nil {
			write(w, status, format.ContentType, format.Encode())
			return nil
		}
	}
	return writeJSON(w, status, "application/json", body)
}

// setSecurityHeaders sets the headers that protect browsers. Google's front end sets X-Forwarded-Proto.
func setSecurityHeaders(h http.Header, req *http.Request) {
	h.Set("X-Content-Type-Options", "nosniff")
	if req.Header.Get("X-Forwarded-Proto") == "https" {
		h.Set("Strict-Transport-Security", "max-age=31536000")
	}
}

// forbidCaching keeps a response out of every cache. Clients may still send the entity tag that they know.
func forbidCaching(h http.Header) { h.Set("Cache-Control", "no-store") }

func renderRaw(w http.ResponseWriter, req *http.Request, status int, body Raw) error {
	if body.Stream != nil {
		return body.stream(w, req, status)
	}
	write(w, cmp.Or(body.Status, status), body.ContentType, body.Bytes)
	return nil
}

// notModified reports whether a reader already has the version with the entity tag. RFC 9110 requires the weak
// comparison.
func notModified(req *http.Request, tag string) bool {
	if tag == "" || req.Method != http.MethodGet && req.Method != http.MethodHead {
		return false
	}
	for _, list := range req.Header.Values("If-None-Match") {
		for known := range strings.SplitSeq(list, ",") {
			known = strings.TrimSpace(known)
			if known == "*" || strings.TrimPrefix(known, "W/") == strings.TrimPrefix(tag, "W/") {
				return true
			}
		}
	}
	return false
}

// writeJSON encodes the body and then writes it. It does not escape HTML characters, because no client embeds the JSON
// in HTML.
func writeJSON(w http.ResponseWriter, status int, contentType string, body any) error {
	b, err := encodeJSON(body)
	if err != nil {
		return err
	}
	write(w, status, contentType, b)
	return nil
}

// JSONAppender is a body that writes itself as JSON, because clients read it often.
type JSONAppender interface {
	// AppendJSON appends what encoding/json would write.
	AppendJSON(b []byte) ([]byte, error)
}

func encodeJSON(body any) ([]byte, error) {
	if a, ok := body.(JSONAppender); ok {
		b, err := a.AppendJSON(make([]byte, 0, 4<<10))
		return append(b, '\n'), err
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(body)
	return b.Bytes(), err
}

func write(w http.ResponseWriter, status int, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // an error means that the client disconnected
}

// Problem is the body of every error. It is a superset of the API's ErrorBody and, if Detail is a string, an RFC 9457
// problem.
type Problem struct {
	// Detail is a string, or the list of violations for a validation error.
	Detail    any            `json:"detail"`
	Code      string         `json:"code" jsonschema:"Names the error for programs. New codes may be added."`
	Status    int            `json:"status" jsonschema:"The status code of the response."`
	Title     string         `json:"title" jsonschema:"The name of the status code."`
	RequestID string         `json:"request_id" jsonschema:"The X-Request-Id of the response."`
	Meta      map[string]any `json:"meta,omitempty" jsonschema:"Further values, which depend on the code."`
}

const challengeHeader = "WWW-Authenticate"

// challenge leads a client without a valid token to the document that says how to get one.
func (r *Route) challenge(h http.Header, err error) {
	if r.ResourceMetadata != "" && fault.From(err).Kind == fault.Unauthenticated {
		h.Set(challengeHeader, `Bearer resource_metadata="`+r.ResourceMetadata+`"`)
	}
}

// WriteError renders an error as a Problem, the error body of every function.
func WriteError(w http.ResponseWriter, requestID string, err error) {
	e := fault.From(err)
	p := Problem{
		Detail: e.Detail, Code: e.Code, Status: e.Kind.Status(), Title: e.Kind.Title(), RequestID: requestID,
		Meta: e.Meta,
	}
	if len(e.Violations) > 0 {
		p.Detail = e.Violations
	}
	forbidCaching(w.Header())
	if e.Kind == fault.Unauthenticated && w.Header().Get(challengeHeader) == "" {
		w.Header().Set(challengeHeader, "Bearer")
	}
	if after := e.After(); after > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(float64(after)/float64(time.Second)))))
	}
	_ = writeJSON(w, p.Status, "application/json", p) // a Problem always encodes
}
