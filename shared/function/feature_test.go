package function_test

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"testing"

	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/plan"
)

type featureInput struct {
	Query struct {
		Number int `json:"number,omitempty"`
	} `json:"query"`
}

// TestFeatures: what is part of a plan's feature is for organizations on such a plan.
func TestFeatures(t *testing.T) {
	t.Parallel()
	const gated, open = "/api/v1/gated", "/api/v1/open"
	down := fault.New(fault.Unavailable, "store_unavailable", "Later.")
	for name, c := range map[string]struct {
		path, token string
		plans       *plans
		status      int
		code        string
		asked       int
	}{
		"the plan has it": {path: gated, token: "other", plans: &plans{}, status: 200, code: "", asked: 1},
		"the plan lacks it": {path: gated, token: "admin", plans: &plans{}, status: 403,
			code: "plan_feature_required", asked: 1},
		"invalid, where it lacks": {path: gated + "?number=x", token: "admin", plans: &plans{}, status: 403,
			code: "plan_feature_required", asked: 1},
		"invalid, where it has": {path: gated + "?number=x", token: "other", plans: &plans{}, status: 422,
			code: "validation_error", asked: 1},
		"an organization never seen": {path: gated, token: "other",
			plans: &plans{fail: fault.New(fault.NotFound, "not_found", "No.")}, status: 403,
			code: "plan_feature_required", asked: 1},
		"nobody to ask": {path: gated, token: "other", plans: nil, status: 403,
			code: "plan_feature_required", asked: 0},
		"the store is down": {path: gated, token: "other", plans: &plans{fail: down}, status: 503,
			code: "store_unavailable", asked: 1},
		"the store has a defect": {path: gated, token: "other", plans: &plans{fail: errors.New("why")},
			status: 500, code: "internal_error", asked: 1},
		"a member": {path: gated, token: "member", plans: &plans{}, status: 403,
			code: "role_required", asked: 0},
		"no organization": {path: gated, token: "nowhere", plans: &plans{}, status: 403,
			code: "organization_required", asked: 0},
		"nobody": {path: gated, token: "garbage", plans: &plans{}, status: 401,
			code: "invalid_token", asked: 0},
		"what is part of every plan": {path: open, token: "admin", plans: &plans{}, status: 200, code: "", asked: 0},
		"the same while it is down": {path: open, token: "admin", plans: &plans{fail: down}, status: 200, code: "",
			asked: 0},
		"what is part of none at all": {path: "/api/v1/never", token: "other", plans: &plans{}, status: 403,
			code: "plan_feature_required", asked: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := function.Guard{Authenticator: tokens{}}
			if c.plans != nil {
				g.Organizations = c.plans
			}
			var served []function.Served
			for path, feature := range map[string]string{gated: plan.AuditLog, open: "",
				"/api/v1/never": "time_travel"} {
				r := function.Route{
					Name: "Test", Method: http.MethodGet, Path: path, Access: function.Admin, Feature: feature,
					Status: http.StatusOK,
					Handle: function.Handle(func(context.Context, featureInput) (echo, error) {
						return echo{"x"},
							nil
					}),
				}
				served = append(served, function.Served{Method: r.Method, Path: r.Path, Handler: r.Handler(g)})
			}
			r := call(t, function.Mux(served), keyed("GET", c.path, c.token, ""))
			code, _ := r.body["code"].(string)
			if r.status != c.status || code != c.code || (r.status == 503) != (r.header.Get("Retry-After") != "") {
				t.Errorf("%d %v, want %d %s", r.status, r.body, c.status, c.code)
			}
			if c.plans != nil && c.plans.asked != c.asked {
				t.Errorf("the plan was asked for %d times, want %d", c.plans.asked, c.asked)
			}
			if name == "the plan lacks it" {
				want := map[string]any{"feature": "audit_log", "plan": "hobby", "upgrade_to": "enterprise"}
				if !reflect.DeepEqual(r.body["meta"], want) {
					t.Errorf("meta %v, want %v", r.body["meta"], want)
				}
			}
		})
	}
}
