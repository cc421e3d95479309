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

type numberInput struct {
	Query struct {
		Number int `json:"number,omitempty"`
	} `json:"query"`
}

const (
	auditLogPath    = "/api/v1/audit-log"   // needs the feature audit_log, which Enterprise has and Hobby lacks
	everyPlanPath   = "/api/v1/every-plan"  // needs no feature
	unavailablePath = "/api/v1/unavailable" // needs a feature that no plan has
)

// serveFeatureRoutes serves routes for admins. organizations may be nil.
func serveFeatureRoutes(organizations *fakeOrganizations) http.Handler {
	var g function.Guard
	if organizations != nil {
		g.Organizations = organizations
	}
	var routes []function.Route
	for path, feature := range map[string]string{
		auditLogPath: plan.AuditLog, everyPlanPath: "", unavailablePath: "time_travel",
	} {
		routes = append(routes, function.Route{
			Name: "Test", Method: http.MethodGet, Path: path, Access: function.Admin, Feature: feature,
			Status: http.StatusOK,
			Handle: function.Handle(func(context.Context, numberInput) (echo, error) { return echo{"x"}, nil }),
		})
	}
	return serveRoutes(g, routes...)
}

func TestRoute_RequiresPlanFeature(t *testing.T) {
	t.Parallel()
	storeDown := fault.New(fault.Unavailable, "store_unavailable", "Later.")
	unknown := fault.New(fault.NotFound, "not_found", "No.")
	const enterprise, hobby = "other-admin", "admin" // tokens
	for name, c := range map[string]struct {
		path, token     string
		noOrganizations bool
		organizationErr error
		wantStatus      int
		wantCode        string
		wantReads       int // of the organization
	}{
		"plan has the feature": {path: auditLogPath, token: enterprise, wantStatus: 200, wantReads: 1},
		"plan lacks the feature": {
			path: auditLogPath, token: hobby, wantStatus: 403, wantCode: "plan_feature_required", wantReads: 1,
		},
		"plan lacks the feature and request is invalid": {
			path: auditLogPath + "?number=x", token: hobby,
			wantStatus: 403, wantCode: "plan_feature_required", wantReads: 1,
		},
		"plan has the feature and request is invalid": {
			path: auditLogPath + "?number=x", token: enterprise,
			wantStatus: 422, wantCode: "validation_error", wantReads: 1,
		},
		"organization without record": {
			path: auditLogPath, token: enterprise, organizationErr: unknown,
			wantStatus: 403, wantCode: "plan_feature_required", wantReads: 1,
		},
		"guard without organizations": {
			path: auditLogPath, token: enterprise, noOrganizations: true,
			wantStatus: 403, wantCode: "plan_feature_required", wantReads: 0,
		},
		"store is down": {
			path: auditLogPath, token: enterprise, organizationErr: storeDown,
			wantStatus: 503, wantCode: "store_unavailable", wantReads: 1,
		},
		"store fails": {
			path: auditLogPath, token: enterprise, organizationErr: errors.New("why"),
			wantStatus: 500, wantCode: "internal_error", wantReads: 1,
		},
		"member": {path: auditLogPath, token: "member", wantStatus: 403, wantCode: "role_required", wantReads: 0},
		"caller without organization": {
			path: auditLogPath, token: "no-organization", wantStatus: 403, wantCode: "organization_required",
		},
		"invalid token":         {path: auditLogPath, token: "garbage", wantStatus: 401, wantCode: "invalid_token"},
		"route without feature": {path: everyPlanPath, token: hobby, wantStatus: 200, wantReads: 0},
		"route without feature and store is down": {
			path: everyPlanPath, token: hobby, organizationErr: storeDown, wantStatus: 200,
		},
		"feature of no plan": {
			path: unavailablePath, token: enterprise, wantStatus: 403, wantCode: "plan_feature_required", wantReads: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			organizations := &fakeOrganizations{err: c.organizationErr}
			if c.noOrganizations {
				organizations = nil
			}
			r := send(t, serveFeatureRoutes(organizations), newRequest("GET", c.path, c.token, ""))
			r.check(t, c.wantStatus, c.wantCode)
			if got := r.header.Get("Retry-After"); (got != "") != (c.wantStatus == 503) {
				t.Errorf("Retry-After = %q with status %d", got, r.status)
			}
			if organizations != nil && organizations.calls != c.wantReads {
				t.Errorf("the organization was read %d times, want %d", organizations.calls, c.wantReads)
			}
		})
	}
}

func TestRoute_NamesThePlanToUpgradeTo(t *testing.T) {
	t.Parallel()
	r := send(t, serveFeatureRoutes(&fakeOrganizations{}), newRequest("GET", auditLogPath, "admin", ""))
	want := map[string]any{"feature": "audit_log", "plan": "hobby", "upgrade_to": "enterprise"}
	if got := r.body["meta"]; !reflect.DeepEqual(got, want) {
		t.Errorf("meta = %v, want %v", got, want)
	}
	const detail = "The hobby plan does not include the audit log feature. Upgrade the plan."
	if got := r.body["detail"]; got != detail {
		t.Errorf("detail = %q, want %q", got, detail)
	}
}
