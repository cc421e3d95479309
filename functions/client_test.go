package functions_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
	"sigs.k8s.io/yaml"

	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/shared/audit/seal"
	"agents.example/controlplane/shared/client"
)

// clientOperation is an operation of the description that the client has a method for.
type clientOperation struct {
	*openapi3.Operation
	path string
}

// clientOperations returns the operations by their ids, without those that the generator leaves out.
func clientOperations(t *testing.T) (map[string]clientOperation, routers.Router) {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData([]byte(readDocument(t, "functions/openapi.json")))
	must(t, err)
	doc.Servers = nil
	router, err := legacy.NewRouter(doc, openapi3.DisableExamplesValidation()) // TestDescribe_IsValid has
	must(t, err)
	var config struct {
		Output struct {
			Excluded []string `json:"exclude-operation-ids"`
		} `json:"output-options"`
	}
	must(t, yaml.Unmarshal([]byte(readDocument(t, "shared/client/generate/config.yaml")), &config))
	found := map[string]clientOperation{}
	for path, item := range doc.Paths.Map() {
		for _, o := range item.Operations() {
			if !slices.Contains(config.Output.Excluded, o.OperationID) {
				found[o.OperationID] = clientOperation{o, path}
			}
		}
	}
	return found, router
}

// queryParameters returns the parameters in the query, in the order of the description.
func (o clientOperation) queryParameters() []*openapi3.Parameter {
	var all []*openapi3.Parameter
	for _, p := range o.Parameters {
		if p.Value.In == openapi3.ParameterInQuery {
			all = append(all, p.Value)
		}
	}
	return all
}

// example returns the body of the example; nil if the operation takes none.
func (o clientOperation) example(t *testing.T) []byte {
	t.Helper()
	if o.RequestBody == nil {
		return nil
	}
	text, err := json.Marshal(o.RequestBody.Value.Content.Get("application/json").Example)
	if err != nil || string(text) == "null" {
		t.Fatalf("the description has no example of the body: %v", err)
	}
	return text
}

// ids returns the values of the parameters in the path, in their order.
func (o clientOperation) ids(path map[string]string) []string {
	ids := []string{}
	for part := range strings.SplitSeq(o.path, "/") {
		if name, ok := strings.CutPrefix(part, "{"); ok {
			ids = append(ids, path[strings.TrimSuffix(name, "}")])
		}
	}
	return ids
}

// pathSamples returns a value for each parameter in a path.
func pathSamples() map[string]string {
	path := map[string]string{"key": "OPENAI_API_KEY", "user_id": userID, "snapshot_id": unknownSnapshot}
	for _, id := range []string{"agent_id", "operation_id", "key_id", "webhook_id", "delivery_id"} {
		path[id] = unknownID
	}
	return path
}

// sampleText returns a value of a parameter that is text.
func sampleText(name string) string {
	if name == "seal" {
		return seal.Anchor{Sequence: 1, Hash: seal.NoHash}.String()
	}
	return "a b&c"
}

// callMethod calls the client's method of an operation, with the values of path parameters and the body of the example,
// and with all query parameters if filled is true. It reads lists and streams to their ends.
func (o clientOperation) callMethod(t *testing.T, c *client.Client, path map[string]string, filled bool) error {
	t.Helper()
	method := reflect.ValueOf(c).MethodByName(o.OperationID)
	if !method.IsValid() {
		t.Fatal("the client has no such method: run go generate ./shared/client")
	}
	ids := o.ids(path)
	var args []reflect.Value
	for i := range method.Type().NumIn() - 1 { // the last ones are options
		switch in := method.Type().In(i); {
		case in == reflect.TypeFor[context.Context]():
			args = append(args, reflect.ValueOf(t.Context()))
		case in.Kind() == reflect.String && in.PkgPath() == "":
			args = append(args, reflect.ValueOf(ids[0]))
			ids = ids[1:]
		case strings.HasSuffix(in.Name(), "Params"):
			params := reflect.New(in).Elem()
			if filled {
				o.fill(t, params)
			}
			args = append(args, params)
		default:
			body := reflect.New(in)
			if err := json.Unmarshal(o.example(t), body.Interface()); err != nil {
				t.Fatalf("the body's type cannot hold the example: %v", err)
			}
			args = append(args, body.Elem())
		}
	}
	isDryRun := func(p *openapi3.Parameter) bool { return p.Name == "dry_run" }
	if filled && slices.ContainsFunc(o.queryParameters(), isDryRun) {
		args = append(args, reflect.ValueOf(client.DryRun(&client.Rehearsal{}))) // an option and no parameter
	}
	if len(ids) > 0 {
		t.Errorf("the method does not take %d of the path parameters", len(ids))
	}
	return methodError(t, method.Call(args))
}

// fill sets every query parameter.
func (o clientOperation) fill(t *testing.T, params reflect.Value) {
	t.Helper()
	described := o.queryParameters()
	if len(described) != params.NumField() {
		t.Fatalf("%d parameters, want %d", params.NumField(), len(described))
	}
	for i, p := range described {
		switch field := params.Field(i); {
		case field.Type() == reflect.TypeFor[time.Time]():
			field.Set(reflect.ValueOf(time.Now()))
		case field.Kind() == reflect.Int64:
			field.SetInt(2)
		case field.Kind() == reflect.Bool:
			field.SetBool(true)
		case len(p.Schema.Value.Enum) > 0:
			field.SetString(p.Schema.Value.Enum[0].(string)) //nolint:forcetypeassert // the field is a string
		default:
			field.SetString(sampleText(p.Name))
		}
	}
}

// methodError returns the error of a method, or the one that ends its list or stream.
func methodError(t *testing.T, results []reflect.Value) error {
	t.Helper()
	last := results[len(results)-1]
	if all := last.MethodByName("All"); all.IsValid() {
		last = all.Call([]reflect.Value{reflect.ValueOf(t.Context())})[0]
	}
	if last.Kind() == reflect.Func {
		for _, err := range last.Seq2() {
			if err, failed := err.Interface().(error); failed {
				return err
			}
		}
		return nil
	}
	err, _ := last.Interface().(error)
	return err
}

// TestClient_SendsWhatTheDescriptionSays calls each method with all parameters, and validates the request with another
// implementation of OpenAPI 3.1.
func TestClient_SendsWhatTheDescriptionSays(t *testing.T) {
	t.Parallel()
	operations, router := clientOperations(t)
	path := pathSamples()
	for id, o := range operations {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			server, checked := o.serve(t, router)
			c, err := client.New(server.URL, client.StaticToken("token"), client.WithHTTPClient(server.Client()))
			must(t, err)
			if e := client.AsError(o.callMethod(t, c, path, true)); *checked != 1 || e == nil {
				t.Errorf("%d requests and the error %v, want one request and 403", *checked, e)
			}
		})
	}
}

// serve checks the first of the requests that it counts, and refuses all of them.
func (o clientOperation) serve(t *testing.T, router routers.Router) (server *httptest.Server, checked *int) {
	t.Helper()
	checked = new(int)
	return functiontest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if *checked++; *checked == 1 {
			o.check(t, router, r)
		}
		w.WriteHeader(http.StatusForbidden) // of no interest
	})), checked
}

// check validates a request and compares it with the example.
func (o clientOperation) check(t *testing.T, router routers.Router, r *http.Request) {
	t.Helper()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Error(err)
	}
	r.Body = io.NopCloser(bytes.NewReader(text))
	route, params, err := router.FindRoute(r)
	if err != nil || route.Operation.OperationID != o.OperationID {
		t.Errorf("%s %s is no request of the operation: %v", r.Method, r.URL, err)
		return
	}
	if err := openapi3filter.ValidateRequest(t.Context(), &openapi3filter.RequestValidationInput{
		Request: r, PathParams: params, Route: route,
		Options: &openapi3filter.Options{
			AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, MultiError: true, SkipSettingDefaults: true,
		},
	}); err != nil {
		t.Errorf("%s %s: %v", r.Method, r.URL, err)
	}
	var want []string
	for _, p := range o.queryParameters() {
		want = append(want, p.Name)
	}
	slices.Sort(want)
	if got := slices.Sorted(maps.Keys(r.URL.Query())); !slices.Equal(got, want) {
		t.Errorf("the query has %q, want %q", got, want)
	}
	if example := o.example(t); !equalJSON(example, text) {
		t.Errorf("the body is %s, want the example: %s", text, example)
	}
}

// equalJSON compares texts without the order of keys.
func equalJSON(a, b []byte) bool {
	var x, y any
	_, _ = json.Unmarshal(a, &x), json.Unmarshal(b, &y) // empty texts are nil
	return reflect.DeepEqual(x, y)
}

// TestClient_ReachesEveryRoute calls each method against the routes.
func TestClient_ReachesEveryRoute(t *testing.T) {
	t.Parallel()
	operations, _ := clientOperations(t)
	for id, o := range operations {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			s := newSamplesFor(t, id)
			server, reached := s.serve(t)
			c, err := client.New(server.URL, client.StaticToken(functiontest.AdminToken(org)),
				client.WithHTTPClient(server.Client()))
			must(t, err)
			if err := o.callMethod(t, c, s.path, false); err != nil {
				t.Errorf("the method fails: %v", err)
			}
			if names := reached(); !slices.Equal(names, []string{id}) {
				t.Errorf("reached %q, want this route", names)
			}
		})
	}
}
