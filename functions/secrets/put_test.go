package secrets_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"agents.example/controlplane/functions/secrets"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/document"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/secretwrite"
)

// reached is a store that says that a request was valid.
type reached struct{ agent.Store }

func (reached) Get(context.Context, string) (agent.Agent, error) {
	return agent.Agent{}, fault.New(fault.Conflict, "reached", "The request was valid.")
}

type admin struct{}

func (admin) Authenticate(ctx context.Context, _ string, _ document.Ref) (context.Context, identity.Caller, error) {
	return ctx, identity.Caller{ID: "u", OrganizationID: "org_1", Role: identity.RoleAdmin}, nil
}

// TestPutTellsAllThatIsWrong compares the violations of bodies, which never hold a value.
func TestPutTellsAllThatIsWrong(t *testing.T) {
	t.Parallel()
	r := secrets.Put(secretwrite.Service{Agents: reached{}})
	h := function.Mux([]function.Served{{Method: r.Method, Path: r.Path,
		Handler: r.Handler(function.Guard{Authenticator: admin{}})}})
	keys := func(n int) string {
		parts := make([]string, n)
		for i := range parts {
			parts[i] = fmt.Sprintf(`"K%d": "canary"`, i)
		}
		return `{"secrets": {` + strings.Join(parts, ",") + `}}`
	}
	value := func(v string) string { return `{"secrets": {"A_TOKEN": "` + v + `"}}` }
	for name, c := range map[string]struct {
		body   string
		status int
		want   []string // type and loc
	}{
		"one":               {body: value("canary"), status: 409, want: nil},
		"a deletion":        {body: `{"secrets": {"A_TOKEN": null}}`, status: 409, want: nil},
		"the largest value": {body: value(strings.Repeat("x", 65_536)), status: 409, want: nil},
		"any key":           {body: `{"secrets": {"log_level": "canary"}}`, status: 409, want: nil},
		"twenty":            {body: keys(20), status: 409, want: nil},
		"nothing":           {body: ``, status: 422, want: []string{"missing [body]"}},
		"no secrets": {body: `{"secret": {"A": "canary"}}`, status: 422,
			want: []string{"missing [body secrets]"}},
		"null": {body: `{"secrets": null}`, status: 422,
			want: []string{"dict_type [body secrets]"}},
		"a string": {body: `{"secrets": "canary"}`, status: 422,
			want: []string{"dict_type [body secrets]"}},
		"none":       {body: `{"secrets": {}}`, status: 422, want: []string{"too_short [body secrets]"}},
		"twenty-one": {body: keys(21), status: 422, want: []string{"too_long [body secrets]"}},
		"a number": {body: `{"secrets": {"A": 1, "B": ["canary"]}}`, status: 422,
			want: []string{"string_type [body secrets A]", "string_type [body secrets B]"}},
		"an empty value": {body: value(""), status: 422,
			want: []string{"string_too_short [body secrets A_TOKEN]"}},
		"a byte too many": {body: value(strings.Repeat("x", 65_535) + "ü"), status: 422,
			want: []string{"value_error [body secrets A_TOKEN]"}},
		"a NUL": {body: value(`canary\u0000`), status: 422,
			want: []string{"value_error [body secrets A_TOKEN]"}},
		"keys that can't be": {body: `{"secrets": {"1A": "canary", "A-B": null, "": "canary"}}`, status: 422,
			want: []string{"value_error [body secrets 1A]", "value_error [body secrets A-B]",
				"value_error [body secrets ]"}},
		"the dashboard's": {body: `{"secrets": {"DASHBOARD_PASSWORD": "canary", "api_server_key": "canary", "X_GATEWAY_TOKEN": "canary"}}`, status: 422, want: []string{"value_error [body secrets DASHBOARD_PASSWORD]", "value_error [body secrets X_GATEWAY_TOKEN]", "value_error [body secrets api_server_key]"}},
		"the platform's": {body: `{"secrets": {"PATH": "canary", "KUBERNETES_X": "canary"}}`, status: 422,
			want: []string{"value_error [body secrets KUBERNETES_X]", "value_error [body secrets PATH]"}},
		"no JSON":                   {body: `canary`, status: 422, want: []string{"json_invalid [body 1]"}},
		"more than half a mebibyte": {body: value(strings.Repeat("x", 512<<10)), status: 413, want: nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := httptest.NewRequest(http.MethodPut, "/agents/5b9f8c0a-7d1e-4c53-9a8e-2f64d1a7c3b9/secrets",
				strings.NewReader(c.body))
			req.Header.Set("Authorization", "Bearer token")
			w := httptest.NewRecorder()
			h.ServeHTTP(w, req)
			if strings.Contains(w.Body.String(), "canary") || strings.Contains(w.Body.String(), `"input"`) {
				t.Errorf("the answer repeats what was sent: %s", w.Body)
			}
			var got []string
			if w.Code == http.StatusUnprocessableEntity {
				var body struct{ Detail []function.Violation }
				if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
					t.Fatal(err)
				}
				for _, v := range body.Detail {
					got = append(got, fmt.Sprint(v.Type, " ", v.Loc))
				}
				slices.Sort(got)
			}
			slices.Sort(c.want)
			if w.Code != c.status || !slices.Equal(got, c.want) {
				t.Errorf("%d %v, want %d %v", w.Code, got, c.status, c.want)
			}
		})
	}
}
