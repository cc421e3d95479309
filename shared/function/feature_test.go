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
		"the plan has it":             {gated, "other", &plans{}, 200, "", 1},
		"the plan lacks it":           {gated, "admin", &plans{}, 403, "plan_feature_required", 1},
		"invalid, where it lacks":     {gated + "?number=x", "admin", &plans{}, 403, "plan_feature_required", 1},
		"invalid, where it has":       {gated + "?number=x", "other", &plans{}, 422, "validation_error", 1},
		"an organization never seen":  {gated, "other", &plans{fail: fault.New(fault.NotFound, "not_found", "No.")}, 403, "plan_feature_required", 1},
		"nobody to ask":               {gated, "other", nil, 403, "plan_feature_required", 0},
		"the store is down":           {gated, "other", &plans{fail: down}, 503, "store_unavailable", 1},
		"the store has a defect":      {gated, "other", &plans{fail: errors.New("why")}, 500, "internal_error", 1},
		"a member":                    {gated, "member", &plans{}, 403, "role_required", 0},
		"no organization":             {gated, "nowhere", &plans{}, 403, "organization_required", 0},
		"nobody":                      {gated, "garbage", &plans{}, 401, "invalid_token", 0},
		"what is part of every plan":  {open, "admin", &plans{}, 200, "", 0},
		"the same while it is down":   {open, "admin", &plans{fail: down}, 200, "", 0},
		"what is part of none at all": {"/api/v1/never", "other", &plans{}, 403, "plan_feature_required", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := function.Guard{Authenticator: tokens{}}
			if c.plans != nil {
				g.Organizations = c.plans
			}
			var served []function.Served
			for path, feature := range map[string]string{gated: plan.AuditLog, open: "", "/api/v1/never": "time_travel"} {
				r := function.Route{
					Name: "Test", Method: http.MethodGet, Path: path, Access: function.Admin, Feature: feature, Status: http.StatusOK,
					Handle: function.Handle(func(context.Context, featureInput) (echo, error) { return echo{"x"}, nil }),
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
