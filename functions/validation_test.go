package functions_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"agents.example/controlplane/functions"
	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/function"
)

// handlerOf serves the routes of the catalogue behind a guard without stores.
func handlerOf(t testing.TB, d functions.Dependencies) http.Handler {
	t.Helper()
	h, err := functions.Handler(functions.Selection{Roles: []function.Role{
		function.RoleAPI, function.RoleAccounts, function.RoleExec,
	}},
		func([]function.Need) (functions.Dependencies, error) { return d, nil },
		functions.Guards{Guard: functiontest.NewGuard()})
	must(t, err)
	return h
}

// handlerWithoutStores serves routes that panic at their first call of a port: a request must be refused before.
func handlerWithoutStores(t *testing.T) http.Handler {
	t.Helper()
	return handlerOf(t, functions.Dependencies{Settings: functions.Settings{
		Cells: agent.Cells{{Name: "a", Region: "us-central1"}, {Name: "b", Region: "europe-west1"}},
	}})
}

// send sends a request as an admin.
func send(t *testing.T, h http.Handler, method, path, body string) functiontest.Response {
	t.Helper()
	options := []functiontest.Option{functiontest.AsAdmin(org)}
	if body != "" {
		options = append(options, functiontest.RawBody(body))
	}
	return functiontest.Send(t, h, method, path, options...)
}

type violation struct {
	Type string         `json:"type"`
	Loc  []any          `json:"loc"`
	Msg  string         `json:"msg"`
	Ctx  map[string]any `json:"ctx"`
}

// TestValidation_SpeaksLikeFastAPI compares every answer with the one of a FastAPI service with the same models.
func TestValidation_SpeaksLikeFastAPI(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("testdata/validation.json")
	must(t, err)
	var golden struct {
		Cases []struct {
			Case, Method, Path string
			Body               *string
			Detail             []violation
		}
	}
	must(t, json.Unmarshal(raw, &golden))
	h := handlerWithoutStores(t)
	for _, c := range golden.Cases {
		t.Run(c.Case, func(t *testing.T) {
			t.Parallel()
			body := ""
			if c.Body != nil {
				body = *c.Body
			}
			res := send(t, h, c.Method, c.Path, body).Want(t, http.StatusUnprocessableEntity, "validation_error")
			if res.Text("request_id") == "" {
				t.Errorf("the answer has no request_id: %s", res.Body)
			}
			compareViolations(t, violationsOf(t, res), c.Detail)
		})
	}
}

func violationsOf(t *testing.T, res functiontest.Response) []violation {
	t.Helper()
	var problem struct{ Detail []violation }
	res.Decode(t, &problem)
	return problem.Detail
}

func compareViolations(t *testing.T, got, want []violation) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("got %d violations %+v, want %d", len(got), got, len(want))
	}
	for _, w := range want {
		if !slices.ContainsFunc(got, func(g violation) bool { return matches(g, w) }) {
			t.Errorf("no violation matches %+v in %+v", w, got)
		}
	}
}

// matches reports whether a violation is the wanted one. The position of a JSON error and empty wants are not compared.
func matches(got, want violation) bool {
	loc := fmt.Sprint(got.Loc) == fmt.Sprint(want.Loc)
	if want.Type == "json_invalid" {
		loc = len(got.Loc) > 0 && got.Loc[0] == "body"
	}
	return got.Type == want.Type && loc && (want.Msg == "" || got.Msg == want.Msg) &&
		(want.Ctx == nil || reflect.DeepEqual(got.Ctx, want.Ctx))
}

// TestValidation_LocatesEveryViolation has rows that the vocabulary file lacks. Each is refused with exactly these
// locations.
func TestValidation_LocatesEveryViolation(t *testing.T) {
	t.Parallel()
	const one = "/api/v1/agents/3fa85f64-5717-4562-b3fc-2c963f66afa6"
	deep := strings.Repeat(`{"a":`, 9) + "1" + strings.Repeat("}", 9)
	cases := map[string]struct {
		method, path string // POST /agents if they are empty
		body         string
		want         []string
	}{
		"two violations of an empty name": {
			method: "POST", path: "/api/v1/agents", body: `{"name": ""}`,
			want: []string{"missing [body resource_plan]", "string_too_short [body name]"},
		},
		"a name of spaces": {
			method: "POST", path: "/api/v1/agents", body: `{"name": "  ", "resource_plan": "pro"}`,
			want: []string{"string_too_short [body name]"},
		},
		"a name with a control character": {
			method: "POST", path: "/api/v1/agents", body: `{"name": "a\u0007", "resource_plan": "pro"}`,
			want: []string{"value_error [body name]"},
		},
		"an unknown region": {
			body: `{"name": "a", "resource_plan": "pro", "region": "mars"}`, want: []string{"enum [body region]"},
		},
		"another cloud": {
			body: `{"name": "a", "resource_plan": "pro", "cloud": "aws"}`, want: []string{"enum [body cloud]"},
		},
		"a number in env_vars": {
			body: `{"name": "a", "resource_plan": "pro", "env_vars": {"A": 1}}`,
			want: []string{"string_type [body env_vars A]"},
		},
		"a file without a path": {
			body: `{"name": "a", "resource_plan": "pro", "files": [{}]}`,
			want: []string{"missing [body files 0 path]", "value_error [body files 0]"}, // nor content
		},
		"a file that is a number, and one at a wrong place": {
			body: `{"name": "a", "resource_plan": "pro", "files": [1, {"path": "/etc/a", "content": ""}]}`,
			want: []string{"model_attributes_type [body files 0]", "value_error [body files 1 path]"},
		},
		"numbers in place of objects": {
			body: `{"name": "a", "resource_plan": "pro", "sleep": 1, "egress": [], "schedules": ["x"], "config": 1}`,
			want: []string{
				"dict_type [body config]", "model_attributes_type [body egress]",
				"model_attributes_type [body schedules 0]", "model_attributes_type [body sleep]",
			},
		},
		"secrets for no hosts": {
			method: "PUT", path: one + "/secrets",
			body: `{"secrets": {"A": "x", "B": "x", "C": "x"}, "inject": {"A": {}, "B": null, "C": {"hosts": []}}}`,
			want: []string{
				"missing [body inject A hosts]", "model_attributes_type [body inject B]",
				"too_short [body inject C hosts]",
			},
		},
		"a URL that is too long": {
			method: "POST", path: "/api/v1/webhooks",
			body: `{"url": "https://a.example/` + strings.Repeat("a", 2048) + `"}`,
			want: []string{"string_too_long [body url]"},
		},
		"half of a character in a value": {
			body: `{"name": "a", "resource_plan": "pro", "env_vars": {"A": "x\ud83d"}}`,
			want: []string{"value_error [body env_vars A]"},
		},
		"half of a character in a secret": {
			method: "PUT", path: one + "/secrets", body: `{"secrets": {"A_TOKEN": "\ude00\ud83d"}}`,
			want: []string{"value_error [body secrets A_TOKEN]"},
		},
		"a dashboard key": {
			body: `{"name": "a", "resource_plan": "pro", "env_vars": {"DASHBOARD_PASSWORD": "x"}}`,
			want: []string{"value_error [body env_vars DASHBOARD_PASSWORD]"},
		},
		"a key with a dash": {
			body: `{"name": "a", "resource_plan": "pro", "env_vars": {"A-B": "x"}}`,
			want: []string{"value_error [body env_vars A-B]"},
		},
		"a deep config": {
			body: `{"name": "a", "resource_plan": "pro", "config": ` + deep + `}`,
			want: []string{"value_error [body config]"},
		},
		"a secret in a patch": {
			method: "PATCH", path: one, body: `{"env_vars": {"OPENAI_API_KEY": "x"}}`,
			want: []string{"value_error [body env_vars OPENAI_API_KEY]"},
		},
		"a secret under a reserved key in a patch": {
			method: "PATCH", path: one, body: `{"env_vars": {"DASHBOARD_TOKEN": "x"}}`,
			want: []string{"value_error [body env_vars DASHBOARD_TOKEN]"},
		},
		"a body that is null counts as none": {body: " null ", want: []string{"missing [body]"}},
		"a null sandbox switch": {
			method: "POST", path: one + "/migrate-sandbox", body: `{"enabled": null}`,
			want: []string{"bool_type [body enabled]"},
		},
		"path and body together": {
			method: "PATCH", path: "/agents/nope", body: `{"name": ""}`,
			want: []string{"string_too_short [body name]", "uuid_parsing [path agent_id]"},
		},
		"a limit that is no number": {
			method: "GET", path: "/agents?limit=many", want: []string{"int_parsing [query limit]"},
		},
		"a limit that is too large": {
			method: "GET", path: "/agents?limit=101", want: []string{"less_than_equal [query limit]"},
		},
		"an unknown status": {method: "GET", path: "/agents?status=sleeping", want: []string{"enum [query status]"}},
		"a key that lives too long": {
			method: "POST", path: "/api/v1/api-keys", body: `{"name": "k", "expires_in_days": 366}`,
			want: []string{"less_than_equal [body expires_in_days]"},
		},
		"a key that lives for a half": {
			method: "POST", path: "/api/v1/api-keys", body: `{"name": "k", "expires_in_days": 1.5}`,
			want: []string{"int_from_float [body expires_in_days]"},
		},
		"an unknown purpose": {
			method: "POST", path: "/api/v1/api-keys", body: `{"name": "k", "purpose": "fun"}`,
			want: []string{"enum [body purpose]"},
		},
		"invalid UTF-8": {body: "{\"name\": \"\xff\"}", want: []string{"json_invalid [body 0]"}},
		"a key that stands twice": {
			body: `{"name": "a", "resource_plan": "pro", "name": "b"}`, want: []string{"value_error [body name]"},
		},
		"keys that stand twice inside": {
			body: `{"name": "a", "resource_plan": "pro", "config": {"a": [1, {"b": 1, "b": {}}], "a": 2}}`,
			want: []string{"value_error [body config a 1 b]", "value_error [body config a]"},
		},
		"the same key in two objects": {
			body: `{"name": "", "resource_plan": "pro", "config": {"a": {"a": 1}, "b": {"a": [{"a": 1}, {"a": 2}]}}}`,
			want: []string{"string_too_short [body name]"},
		},
		"names in another case": {
			body: `{"NAME": "a", "Resource_Plan": "pro"}`,
			want: []string{"missing [body name]", "missing [body resource_plan]"},
		},
		"a query that is no text": {
			method: "GET", path: "/agents?name=%ff", want: []string{"string_unicode [query name]"},
		},
		"a filter that is no query": {
			method: "GET", path: "/agents?status=50%", want: []string{"value_error [query]"},
		},
		"two values": {body: `{} {}`, want: []string{"json_invalid [body 4]"}},
	}
	h := handlerWithoutStores(t)
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			res := send(t, h, cmp.Or(c.method, http.MethodPost), cmp.Or(c.path, "/agents"), c.body).
				Want(t, http.StatusUnprocessableEntity, "validation_error")
			found := map[string]bool{}
			for _, v := range violationsOf(t, res) {
				key := fmt.Sprintf("%s %v", v.Type, v.Loc)
				if found[key] {
					t.Errorf("%s is reported twice", key)
				}
				found[key] = true
			}
			for _, w := range c.want {
				if !found[w] {
					t.Errorf("no violation %s in %v", w, found)
				}
				delete(found, w)
			}
			if len(found) > 0 {
				t.Errorf("unexpected violations: %v", found)
			}
		})
	}
}

// TestValidation_BoundsWhatItAnswers sends thousands of violations below a key that is as long as half of the body. An
// answer with all their locations would have hundreds of megabytes.
func TestValidation_BoundsWhatItAnswers(t *testing.T) {
	t.Parallel()
	key := strings.Repeat("K", 200_000)
	body := `{"secrets": {}, "inject": {"` + key + `": {"hosts": [` + strings.Repeat("1, ", 10_000) + `1]}}}`
	res := send(t, handlerWithoutStores(t), "PUT", "/api/v1/agents/3fa85f64-5717-4562-b3fc-2c963f66afa6/secrets", body).
		Want(t, http.StatusUnprocessableEntity, "validation_error")
	if len(res.Body) > 1<<20 {
		t.Errorf("the answer has %d bytes, want at most 1 MiB", len(res.Body))
	}
}
