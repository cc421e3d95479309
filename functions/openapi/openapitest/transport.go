package openapitest

import (
	"bytes"
	"io"
	"net/http"
)

// Transport checks every response that passes through it, so that an end-to-end test also verifies the document.
type Transport struct {
	// Base makes the requests; nil means http.DefaultTransport.
	Base     http.RoundTripper
	Document *Document
	// Report receives the errors of Check. It may be called concurrently.
	Report func(err error)
}

// RoundTrip implements http.RoundTripper. It reads the complete body before it returns.
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
	x := Exchange{
		Method: req.Method, Path: req.URL.EscapedPath(), Status: res.StatusCode, Header: res.Header,
		Body: body,
	}
	if err := t.Document.Check(x); err != nil {
		t.Report(err)
	}
	return res, nil
}
