package openapi_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"agents.example/controlplane/functions"
	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/functions/openapi"
	"agents.example/controlplane/functions/openapi/openapitest"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/function"
)

func TestMain(m *testing.M) { functiontest.Main(m) }

var titled = openapi.Options{Title: "Test", Version: "1.0.0"}

func describe(t *testing.T, routes []function.Route) []byte {
	t.Helper()
	b, err := openapi.Describe(routes, titled)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// catalogue describes all routes, once for all tests.
var catalogue = sync.OnceValues(func() ([]byte, error) {
	return openapi.Describe(functions.Routes(functions.Dependencies{}), titled)
})

// loaded is the catalogue as a document, which tests only read.
var loaded = sync.OnceValues(func() (*openapi3.T, error) {
	text, err := catalogue()
	if err != nil {
		return nil, err
	}
	return openapi3.NewLoader().LoadFromData(text)
})

func describeAll(t *testing.T) []byte {
	t.Helper()
	b, err := catalogue()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func loadAll(t *testing.T) *openapi3.T {
	t.Helper()
	doc, err := loaded()
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func load(t *testing.T, description []byte) *openapi3.T {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(description)
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// TestDescribe_IsValid validates the document and its examples with another implementation of OpenAPI 3.1.
func TestDescribe_IsValid(t *testing.T) {
	t.Parallel()
	doc := loadAll(t)
	if doc.OpenAPI != "3.1.0" {
		t.Errorf("OpenAPI version = %s, want 3.1.0", doc.OpenAPI)
	}
	if err := doc.Validate(t.Context(), openapi3.EnableExamplesValidation(),
		openapi3.EnableSchemaFormatValidation()); err != nil {
		t.Error(err)
	}
}

func TestDescribe_HasExactlyTheRoutesOfTheCatalogue(t *testing.T) {
	t.Parallel()
	routes := functions.Routes(functions.Dependencies{})
	want := map[string]string{}
	for _, r := range routes {
		want[r.Method+" "+strings.ReplaceAll(r.Path, "...}", "}")] = r.Name
	}
	for path, item := range loadAll(t).Paths.Map() {
		for method, op := range item.Operations() {
			if name := want[method+" "+path]; name != op.OperationID {
				t.Errorf("%s %s: operation id = %s, want %q", method, path, op.OperationID, name)
			}
			delete(want, method+" "+path)
		}
	}
	if len(want) > 0 {
		t.Errorf("routes missing in the document: %v", want)
	}
}

// TestDescribe_IsDeterministic: a diff of the document must only show real changes.
func TestDescribe_IsDeterministic(t *testing.T) {
	t.Parallel()
	first := string(describe(t, functions.Routes(functions.Dependencies{})))
	for range 3 {
		if again := string(describe(t, functions.Routes(functions.Dependencies{}))); again != first {
			t.Fatal("two documents of the same routes differ")
		}
	}
}

// TestDescribe_EveryBodyHasAnExample: the playground needs them.
func TestDescribe_EveryBodyHasAnExample(t *testing.T) {
	t.Parallel()
	for path, item := range loadAll(t).Paths.Map() {
		for method, op := range item.Operations() {
			bytes := op.RequestBody != nil && op.RequestBody.Value.Content["application/octet-stream"] != nil
			if op.RequestBody != nil && !bytes && op.RequestBody.Value.Content.Get("application/json").Example == nil {
				t.Errorf("%s %s: request body has no example: add an Example method to its input", method, path)
			}
			for status, r := range op.Responses.Map() {
				media := r.Value.Content["application/json"]
				if path != "/openapi.json" && media != nil && media.Example == nil {
					t.Errorf("%s %s: response %s has no example: add an Example method to its output", method, path,
						status)
				}
			}
		}
	}
}

// handlerWithoutStores serves the routes without stores. A request that reaches a store is answered with 500.
func handlerWithoutStores(t *testing.T) http.Handler {
	t.Helper()
	open := func([]function.Need) (functions.Dependencies, error) {
		return functions.Dependencies{Settings: functions.Settings{Cells: agent.Cells{{
			Name:   "a",
			Region: agent.DefaultRegion,
		}}}}, nil
	}
	h, err := functions.Handler(functions.Selection{Roles: []function.Role{
		function.RoleAPI, function.RoleAccounts, function.RoleExec,
	}},
		open,
		functions.Guards{Guard: functiontest.NewGuard()})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func answer(t *testing.T, h http.Handler, r function.Route, token, body string) openapitest.Exchange {
	t.Helper()
	path := strings.NewReplacer("{asset}", "start.js", "{key}", "KEY").Replace(r.Path)
	for strings.Contains(path, "{") {
		from := strings.Index(path, "{")
		path = path[:from] + "0b7c2a54-6f1d-4d0e-9c1b-2f6d3a8e5b90" + path[from+strings.Index(path[from:], "}")+1:]
	}
	if body == badID {
		path, body = strings.ReplaceAll(path, "0b7c2a54-6f1d-4d0e-9c1b-2f6d3a8e5b90", "none"), ""
	}
	req := httptest.NewRequest(r.Method, path, strings.NewReader(body))
	req.Header.Set("Authorization", "Bearer "+token)
	if body == notJSON {
		req.Header.Set("Content-Type", "text/plain")
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	return openapitest.Exchange{
		Method: r.Method, Path: r.Path, Status: w.Code, Header: w.Header(),
		Body: w.Body.Bytes(),
	}
}

// Special bodies for request.
const (
	badID   = "(invalid id in the path)"
	notJSON = "(not JSON)"
)

// TestDescribe_MatchesResponses sends every route the requests that are answered before a store is called.
func TestDescribe_MatchesResponses(t *testing.T) {
	t.Parallel()
	routes := functions.Routes(functions.Dependencies{})
	doc, err := openapitest.Parse(describeAll(t))
	if err != nil {
		t.Fatal(err)
	}
	h := handlerWithoutStores(t)
	seen := map[int]int{}
	for _, r := range routes {
		for _, token := range []string{
			"", "garbage", functiontest.MemberToken("org_1"),
			functiontest.AdminToken("org_1"),
		} {
			for _, body := range []string{"", "{}", "[", notJSON, badID, strings.Repeat(" ", 1<<20)} {
				x := answer(t, h, r, token, body)
				seen[x.Status]++
				if err := doc.Check(x); err != nil {
					t.Errorf("%s with token %q and body %.20q: %v", r.Name, token, body, err)
				}
			}
		}
	}
	for _, status := range []int{200, 401, 403, 413, 415, 422} {
		if seen[status] == 0 {
			t.Errorf("no response had status %d", status)
		}
	}
}

func TestDescribe_ExamplesAreAccepted(t *testing.T) {
	t.Parallel()
	routes := functions.Routes(functions.Dependencies{})
	doc, h := loadAll(t), handlerWithoutStores(t)
	for _, r := range routes {
		op := doc.Paths.Value(strings.ReplaceAll(r.Path, "...}", "}")).GetOperation(r.Method)
		if op.RequestBody == nil || r.Streams() {
			continue
		}
		body, err := json.Marshal(op.RequestBody.Value.Content.Get("application/json").Example)
		if err != nil {
			t.Fatal(err)
		}
		if x := answer(t, h, r, functiontest.AdminToken("org_1"),
			string(body)); slices.Contains([]int{400, 413, 415, 422}, x.Status) {
			t.Errorf("%s: response to its example = %d: %s", r.Name, x.Status, x.Body)
		}
	}
}

// TestDescribe_IncludesAmendments checks the parts of schemas that are not derived from fields.
func TestDescribe_IncludesAmendments(t *testing.T) {
	t.Parallel()
	schemas := loadAll(t).Components.Schemas
	if open := schemas["AgentConfig"].Value.AdditionalProperties.Has; open == nil || !*open {
		t.Error("AgentConfig: additionalProperties is not true")
	}
	reason := schemas["AgentConfig"].Value.Properties["status_reason"].Value.AnyOf
	if len(reason) != 2 || reason[0].Ref != "#/components/schemas/AgentStatusReason" ||
		!reason[1].Value.Type.Is("null") {
		t.Errorf("status_reason = %+v, want AgentStatusReason or null", reason)
	}
	if s := schemas["AgentStatus"].Value; !s.Type.Is("string") || len(s.Enum) != 7 {
		t.Errorf("AgentStatus has type %v and enum %v, want a string with 7 values", s.Type, s.Enum)
	}
	if id := schemas["Agent"].Value.Properties["id"].Value; id.Format != "uuid" {
		t.Errorf("format of Agent.id = %q, want uuid", id.Format)
	}
}
