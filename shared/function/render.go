package function

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"agents.example/controlplane/shared/fault"
)

// Raw is a body that a Reply returns to have it rendered as it is instead of as JSON.
type Raw struct {
	ContentType string
	Bytes       []byte
	// Stream writes the body instead of Bytes, for one that is too large to hold. The writer collects a little and
	// sends it; its errors mean that the client is gone. Nil where Bytes is the body.
	Stream func(w io.Writer) error
}

// render writes a success. The body is encoded before the first byte goes out, so that a defect becomes a clean 500.
func (r Route) render(w http.ResponseWriter, req *http.Request, out any) error {
	body := out
	if reply, ok := out.(Reply); ok {
		body = reply.Reply(w.Header())
	}
	if notModified(req, w.Header().Get("ETag")) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	switch body := body.(type) {
	case None:
		w.WriteHeader(r.Status)
		return nil
	case Raw:
		if body.Stream != nil {
			return body.stream(w, req, r.Status)
		}
		write(w, r.Status, body.ContentType, body.Bytes)
		return nil
	case Negotiable:
		w.Header().Add("Vary", "Accept")
		if format := negotiate(req, body.Formats()); format != nil {
			write(w, r.Status, format.ContentType, format.Encode())
			return nil
		}
	}
	return writeJSON(w, r.Status, "application/json", body)
}

// notModified reports whether a reader has the version with the entity tag already. Tags are compared weakly, as RFC
// 9110 has it.
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

// writeJSON encodes first and writes then. HTML characters stay as they are: clients are no browsers' inner HTML.
func writeJSON(w http.ResponseWriter, status int, contentType string, body any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(body); err != nil {
		return err
	}
	write(w, status, contentType, b.Bytes())
	return nil
}

func write(w http.ResponseWriter, status int, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client is gone: there is nobody to tell
}

// Problem is the body of every error: a superset of the interface's ErrorBody and, when detail is a string, an RFC 9457
// problem.
type Problem struct {
	// Detail is a string, or the list of violations of a validation error.
	Detail    any            `json:"detail"`
	Code      string         `json:"code"`
	Status    int            `json:"status"`
	Title     string         `json:"title"`
	RequestID string         `json:"request_id"`
	Meta      map[string]any `json:"meta,omitempty"`
}

// WriteError renders an error as the one body that every function answers errors with.
func WriteError(w http.ResponseWriter, requestID string, err error) {
	e := fault.From(err)
	p := Problem{
		Detail: e.Detail, Code: e.Code, Status: e.Kind.Status(), Title: e.Kind.Title(), RequestID: requestID,
		Meta: e.Meta,
	}
	if len(e.Violations) > 0 {
		p.Detail = e.Violations
	}
	if e.Kind == fault.Unauthenticated {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	if after := e.After(); after > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(float64(after)/float64(time.Second)))))
	}
	_ = writeJSON(w, p.Status, "application/json", p) // a Problem always encodes
}
