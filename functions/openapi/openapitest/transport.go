package openapitest

import (
	"bytes"
	"io"
	"net/http"
)

// Transport checks every answer that comes through it, so that a test that tells a story checks the description on the
// way.
type Transport struct {
	// Base makes the calls; nil is http.DefaultTransport.
	Base     http.RoundTripper
	Document *Document
	// Report is told what Check found. It may be called from any goroutine.
	Report func(err error)
}

// RoundTrip implements http.RoundTripper. It reads the whole body before it returns.
func (t Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	base := t.Base
	if base == nil {
		base = http.DefaultTransport
	}
	res, err := base.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(res.Body)
	if closed := res.Body.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return nil, err
	}
	res.Body = io.NopCloser(bytes.NewReader(body))
	x := Exchange{Method: req.Method, Path: req.URL.EscapedPath(), Status: res.StatusCode, Header: res.Header,
		Body: body}
	if err := t.Document.Check(x); err != nil {
		t.Report(err)
	}
	return res, nil
}
