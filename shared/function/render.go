package function

import (
	"bytes"
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"time"

	"agents.example/controlplane/shared/fault"
)

// render writes a success. The body is encoded before the first byte goes out, so that a defect becomes a clean 500.
func (r Route) render(w http.ResponseWriter, out any) error {
	body := out
	if reply, ok := out.(Reply); ok {
		body = reply.Reply(w.Header())
	}
	if _, none := body.(None); none {
		w.WriteHeader(r.Status)
		return nil
	}
	return writeJSON(w, r.Status, "application/json", body)
}

// writeJSON encodes first and writes then. HTML characters stay as they are: clients are no browsers' inner HTML.
func writeJSON(w http.ResponseWriter, status int, contentType string, body any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(body); err != nil {
		return err
	}
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(b.Len()))
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // the client is gone: there is nobody to tell
	return nil
}

// Problem is the body of every error: a superset of the interface's ErrorBody and, when detail is a string, an RFC 9457 problem.
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
		Detail: e.Detail, Code: e.Code, Status: e.Kind.Status(), Title: e.Kind.Title(), RequestID: requestID, Meta: e.Meta,
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
