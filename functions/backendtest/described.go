package backendtest

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/functions/openapi"
	"agents.example/controlplane/functions/openapi/openapitest"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/idempotency"
)

// described holds the descriptions of routes by what they say. A package's backends share them, because a description
// takes longer than a call.
var described = struct { //nolint:gochecknoglobals // a cache, which holds what its keys say
	mu sync.Mutex
	by map[string]*openapitest.Document
}{by: map[string]*openapitest.Document{}}

// checkDescribed fails the test if the route's description in OpenAPI has no such answer: every test of a route finds
// an answer that clients cannot know.
func checkDescribed(t testing.TB, route function.Route, res functiontest.Response) {
	t.Helper()
	document, err := describe(route)
	if err != nil {
		t.Errorf("%s cannot be described: %v", route.Name, err)
		return
	}
	if err := document.Check(openapitest.Exchange{
		Method: route.Method, Path: route.Path, Status: res.Status, Header: res.Header, Body: res.Body,
	}); err != nil {
		t.Errorf("%s answers %d %s, which it does not describe: %v", route.Name, res.Status, res.Body, err)
	}
	checkConflict(t, route, res)
}

// checkConflict fails the test if an answer says that an agent's state does not allow a call, and not what it allows.
func checkConflict(t testing.TB, route function.Route, res functiontest.Response) {
	t.Helper()
	if res.Status != http.StatusConflict || !strings.Contains(route.Path, "{agent_id}") ||
		res.Code() == idempotency.InProgress().Code {
		return
	}
	meta, _ := res.JSON["meta"].(map[string]any)
	if meta["status"] == nil || meta["allowed_actions"] == nil {
		t.Errorf("%s answers %s, want the agent's status and allowed_actions in meta", route.Name, res.Body)
	}
}

func describe(route function.Route) (*openapitest.Document, error) {
	key := plain(route)
	described.mu.Lock()
	defer described.mu.Unlock()
	if known := described.by[key]; known != nil {
		return known, nil
	}
	text, err := openapi.Describe([]function.Route{route}, openapi.Options{Title: "test"})
	if err != nil {
		return nil, err
	}
	document, err := openapitest.Parse(text)
	if err != nil {
		return nil, err
	}
	described.by[key] = document
	return document, nil
}

// plain is a text of all that a description says of a route: its fields without functions, and its types.
func plain(r function.Route) string {
	rest := fmt.Sprint(r.Handle.Input, r.Handle.Output, r.Rehearsal != nil, r.Deprecated)
	r.Reads, r.Target, r.Rehearsal, r.Deprecated, r.Handle = nil, nil, nil, nil, function.Endpoint{}
	return fmt.Sprintf("%+v %s", r, rest)
}
