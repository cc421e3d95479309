package functiontest

import (
	"sync"
	"testing"

	"agents.example/controlplane/functions/openapi"
	"agents.example/controlplane/functions/openapi/openapitest"
	"agents.example/controlplane/shared/function"
)

// descriptions holds the description of each route that a backend has called.
type descriptions struct {
	mu      sync.Mutex
	ofRoute map[string]*openapitest.Document
}

// check fails the test if the route's description in OpenAPI has no such answer: every test of a route finds an answer
// that clients cannot know.
func (d *descriptions) check(t testing.TB, route function.Route, res Response) {
	t.Helper()
	document, err := d.of(route)
	if err != nil {
		t.Errorf("%s cannot be described: %v", route.Name, err)
		return
	}
	if err := document.Check(openapitest.Exchange{
		Method: route.Method, Path: route.Path, Status: res.Status, Header: res.Header, Body: res.Body,
	}); err != nil {
		t.Errorf("%s answers %d %s, which it does not describe: %v", route.Name, res.Status, res.Body, err)
	}
}

func (d *descriptions) of(route function.Route) (*openapitest.Document, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if known := d.ofRoute[route.Name]; known != nil {
		return known, nil
	}
	text, err := openapi.Describe([]function.Route{route}, openapi.Options{Title: "test"})
	if err != nil {
		return nil, err
	}
	document, err := parse(text)
	if err != nil {
		return nil, err
	}
	if d.ofRoute == nil {
		d.ofRoute = map[string]*openapitest.Document{}
	}
	d.ofRoute[route.Name] = document
	return document, nil
}

// parsed holds the documents of all backends by their text. They compile each schema once for the whole package.
var parsed = struct { //nolint:gochecknoglobals // a cache, which holds what its keys say
	mu     sync.Mutex
	byText map[string]*openapitest.Document
}{byText: map[string]*openapitest.Document{}}

// parse returns the document of a text.
func parse(text []byte) (*openapitest.Document, error) {
	parsed.mu.Lock()
	defer parsed.mu.Unlock()
	if known := parsed.byText[string(text)]; known != nil {
		return known, nil
	}
	document, err := openapitest.Parse(text)
	if err != nil {
		return nil, err
	}
	parsed.byText[string(text)] = document
	return document, nil
}
