package agents_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"agents.example/controlplane/functions/agents"
	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/secretwrite"
)

// reached is a store that answers every valid request with a conflict.
type reached struct{ agent.Store }

func (reached) Get(context.Context, string) (agent.Agent, error) {
	return agent.Agent{}, fault.New(fault.Conflict, "reached", "The request was valid.")
}

// TestPutSecrets_NamesEveryViolationWithoutValues compares the violations of bodies. No answer holds a value.
func TestPutSecrets_NamesEveryViolationWithoutValues(t *testing.T) {
	t.Parallel()
	r := agents.PutSecrets(secretwrite.Service{Agents: reached{}}, agent.Display{})
	keys := func(n int) string {
		parts := make([]string, n)
		for i := range parts {
			parts[i] = fmt.Sprintf(`"K%d": "canary"`, i)
		}
		return `{"secrets": {` + strings.Join(parts, ",") + `}}`
	}
	value := func(v string) string { return `{"secrets": {"A_TOKEN": "` + v + `"}}` }
	injected := func(v, inject string) string {
		return `{"secrets": {"A_TOKEN": "` + v + `"}, "inject": {"A_TOKEN": ` + inject + `}}`
	}
	for name, c := range map[string]struct {
		body   string
		status int
		want   []string // type and loc
	}{
		"one value":           {body: value("canary"), status: 409, want: nil},
		"a deletion":          {body: `{"secrets": {"A_TOKEN": null}}`, status: 409, want: nil},
		"the largest value":   {body: value(strings.Repeat("x", 65_536)), status: 409, want: nil},
		"a key in lower case": {body: `{"secrets": {"log_level": "canary"}}`, status: 409, want: nil},
		"twenty keys":         {body: keys(20), status: 409, want: nil},
		"no body":             {body: ``, status: 422, want: []string{"missing [body]"}},
		"no secrets":          {body: `{"secret": {"A": "canary"}}`, status: 422, want: []string{"missing [body secrets]"}},
		"secrets is null":     {body: `{"secrets": null}`, status: 422, want: []string{"dict_type [body secrets]"}},
		"secrets is a string": {
			body: `{"secrets": "canary"}`, status: 422, want: []string{"dict_type [body secrets]"},
		},
		"secrets is empty": {body: `{"secrets": {}}`, status: 422, want: []string{"too_short [body secrets]"}},
		"twenty-one keys":  {body: keys(21), status: 422, want: []string{"too_long [body secrets]"}},
		"values of other types": {
			body: `{"secrets": {"A": 1, "B": ["canary"]}}`, status: 422,
			want: []string{"string_type [body secrets A]", "string_type [body secrets B]"},
		},
		"an empty value": {body: value(""), status: 422, want: []string{"string_too_short [body secrets A_TOKEN]"}},
		"a value one byte too long": {
			body: value(strings.Repeat("x", 65_535) + "ü"), status: 422,
			want: []string{"value_error [body secrets A_TOKEN]"},
		},
		"a value with a NUL": {
			body: value(`canary\u0000`), status: 422, want: []string{"value_error [body secrets A_TOKEN]"},
		},
		"malformed keys": {
			body: `{"secrets": {"1A": "canary", "A-B": null, "": "canary"}}`, status: 422,
			want: []string{
				"value_error [body secrets 1A]", "value_error [body secrets A-B]",
				"value_error [body secrets ]",
			},
		},
		"keys of the dashboard": {body: `{"secrets": {"DASHBOARD_PASSWORD": "canary", "api_server_key": "canary", "X_GATEWAY_TOKEN": "canary"}}`, status: 422, want: []string{"value_error [body secrets DASHBOARD_PASSWORD]", "value_error [body secrets X_GATEWAY_TOKEN]", "value_error [body secrets api_server_key]"}},
		"keys of the platform": {
			body: `{"secrets": {"PATH": "canary", "KUBERNETES_X": "canary"}}`, status: 422,
			want: []string{"value_error [body secrets KUBERNETES_X]", "value_error [body secrets PATH]"},
		},
		"a brokered value": {body: injected("canary", `{"hosts": ["a.example"]}`), status: 409, want: nil},
		"a brokered value of the largest size": {
			body:   injected(strings.Repeat("x", 8<<10), `{"hosts": ["a.example"], "header": "X", "format": "{value}"}`),
			status: 409, want: nil,
		},
		"a brokered value one byte too long": {
			body: injected(strings.Repeat("x", 8<<10+1), `{"hosts": ["a.example"]}`), status: 422,
			want: []string{"value_error [body secrets A_TOKEN]"},
		},
		"a brokered value of two lines": {
			body: injected(`canary\r\nX: y`, `{"hosts": ["a.example"]}`), status: 422,
			want: []string{"value_error [body secrets A_TOKEN]"},
		},
		"brokered without hosts": {
			body: injected("canary", `{}`), status: 422, want: []string{"missing [body inject A_TOKEN hosts]"},
		},
		"brokered at all hosts": {
			body: injected("canary", `{"hosts": ["*.example.com"]}`), status: 422,
			want: []string{"value_error [body inject A_TOKEN hosts]"},
		},
		"brokered in a header of the connection": {
			body: injected("canary", `{"hosts": ["a.example"], "header": "Host"}`), status: 422,
			want: []string{"value_error [body inject A_TOKEN header]"},
		},
		"brokered without its mark": {
			body: injected("canary", `{"hosts": ["a.example"], "format": "Bearer"}`), status: 422,
			want: []string{"value_error [body inject A_TOKEN format]"},
		},
		"brokered as no object": {
			body: injected("canary", `["a.example"]`), status: 422,
			want: []string{"model_attributes_type [body inject A_TOKEN]"},
		},
		"a brokered deletion": {
			body:   `{"secrets": {"A_TOKEN": null}, "inject": {"A_TOKEN": {"hosts": ["a.example"]}}}`,
			status: 422, want: []string{"value_error [body inject A_TOKEN]"},
		},
		"brokered without a value": {
			body: `{"secrets": {"B": "canary"}, "inject": {"A_TOKEN": {"hosts": ["a.example"]}}}`, status: 422,
			want: []string{"value_error [body inject A_TOKEN]"},
		},
		"a body that is no JSON":      {body: `canary`, status: 422, want: []string{"json_invalid [body 1]"}},
		"a body over half a mebibyte": {body: value(strings.Repeat("x", 512<<10)), status: 413, want: nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			res := functiontest.Call(t, r, functiontest.AsAdmin("org-1"), functiontest.RawBody(c.body),
				functiontest.Path("agent_id", "5b9f8c0a-7d1e-4c53-9a8e-2f64d1a7c3b9"))
			if text := string(res.Body); strings.Contains(text, "canary") || strings.Contains(text, `"input"`) {
				t.Errorf("the answer repeats the request: %s", text)
			}
			if res.Status != c.status {
				t.Fatalf("status = %d, want %d: %s", res.Status, c.status, res.Body)
			}
			var got []string
			if res.Status == http.StatusUnprocessableEntity {
				var problem struct{ Detail []function.Violation }
				res.Decode(t, &problem)
				for _, v := range problem.Detail {
					got = append(got, fmt.Sprint(v.Type, " ", v.Loc))
				}
			}
			slices.Sort(got)
			slices.Sort(c.want)
			if !slices.Equal(got, c.want) {
				t.Errorf("violations = %v, want %v", got, c.want)
			}
		})
	}
}
