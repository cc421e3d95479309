package backendtest

import (
	"net/http"
	"net/http/httptest"

	"agents.example/controlplane/functions"
	"agents.example/controlplane/shared/function"
)

// inProcess serves the requests that a route sends to the API, without a network.
type inProcess struct{ backend *Backend }

// RoundTrip implements http.RoundTripper.
func (p inProcess) RoundTrip(req *http.Request) (*http.Response, error) {
	var served []function.Served
	for _, r := range functions.Routes(p.backend.Dependencies) {
		served = append(served, r.Served(p.backend.Guard))
	}
	if req.Body == nil {
		req.Body = http.NoBody
	}
	w := httptest.NewRecorder()
	function.Mux(served).ServeHTTP(w, req)
	return w.Result(), nil
}
