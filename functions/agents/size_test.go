package agents_test

import (
	"net/http"
	"strings"
	"testing"

	"agents.example/controlplane/functions/backendtest"
	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/plan"
)

// usage reads what the organization takes up.
func usage(t *testing.T, b *backendtest.Backend) map[string]any {
	t.Helper()
	found, _ := b.CallNamed(t, "GetCurrentOrganization", functiontest.AsAdmin(org)).
		Want(t, http.StatusOK, "").JSON["usage"].(map[string]any)
	return found
}

func TestUpdateAgent_ChangesTheSize(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	b.SetPlan(t, org, plan.Startup)
	id := b.RunningAgent(t, org, nil).ID
	res := patchAgent(t, b, id, `{"resource_plan": "startup", "name": "larger"}`).Want(t, http.StatusOK, "")
	if res.JSON["resource_plan"] != "startup" || res.JSON["dashboard_warming"] != true || res.JSON["name"] != "larger" {
		t.Errorf("the answer is %s, want the plan startup and dashboard_warming", res.Body)
	}
	if got := usage(t, b)["cpu_cores"]; got != 2.0 {
		t.Errorf("the organization uses %v cores, want 2", got)
	}
	b.Reconcile(t, id)
	if a := b.Agent(t, id); a.Status != agent.Running || !a.Converged() || a.Warming || a.Plan != plan.Startup {
		t.Errorf("the agent is %s on %s, generation %d of %d; want running on startup", a.Status, a.Plan,
			a.ObservedGeneration, a.Generation)
	}
	patchAgent(t, b, id, `{"resource_plan": "starter"}`).Want(t, http.StatusConflict, "storage_cannot_shrink")
	patchAgent(t, b, id, `{"resource_plan": "pro"}`).Want(t, http.StatusPaymentRequired, "plan_capacity_exceeded")
	patchAgent(t, b, id, `{"resource_plan": "golden"}`).Want(t, http.StatusUnprocessableEntity, "validation_error")

	b.SetPlan(t, org, plan.Enterprise)
	log := b.CallNamed(t, "ListAuditLog", functiontest.AsAdmin(org)).Want(t, http.StatusOK, "")
	if want := `{"field":"resource_plan","old":"hobby","new":"startup"}`; !strings.Contains(string(log.Body), want) {
		t.Errorf("the audit log is %s, want the change %s", log.Body, want)
	}
}

func TestUpdateAgent_RehearsesASize(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	b.SetPlan(t, org, plan.Startup)
	id := b.RunningAgent(t, org, nil).ID
	res := patchAgent(t, b, id, `{"resource_plan": "startup"}`, dryRun()).Want(t, http.StatusOK, "")
	would, _ := res.JSON["would"].(map[string]any)
	before, _ := would["usage_before"].(map[string]any)
	after, _ := would["usage_after"].(map[string]any)
	for what, got := range map[string][2]any{
		"restarts":                 {would["restarts"], true},
		"storage before":           {before["storage_bytes"], float64(5 << 30)},
		"storage after":            {after["storage_bytes"], float64(20 << 30)},
		"monthly_price_before_usd": {would["monthly_price_before_usd"], 109.0},
		"monthly_price_after_usd":  {would["monthly_price_after_usd"], 109.0},
		"monthly_price_change_usd": {would["monthly_price_change_usd"], 0.0},
	} {
		if got[0] != got[1] {
			t.Errorf("%s = %v, want %v", what, got[0], got[1])
		}
	}
	if seconds, ok := would["downtime_seconds_estimate"].(float64); !ok || seconds < 0 {
		t.Errorf("downtime_seconds_estimate = %v, want an estimate", would["downtime_seconds_estimate"])
	}
	if got := b.Agent(t, id).Plan; got != plan.Hobby {
		t.Errorf("the rehearsal moved the agent to %s", got)
	}
	patchAgent(t, b, id, `{"resource_plan": "pro"}`, dryRun()).Want(t, http.StatusPaymentRequired, "plan_capacity_exceeded")
	b.SetPlan(t, org, plan.Enterprise)
	res = patchAgent(t, b, id, `{"resource_plan": "startup"}`, dryRun()).Want(t, http.StatusOK, "")
	would, _ = res.JSON["would"].(map[string]any)
	for _, price := range []string{"monthly_price_before_usd", "monthly_price_after_usd", "monthly_price_change_usd"} {
		if value, ok := would[price]; !ok || value != nil {
			t.Errorf("%s of a plan by contract = %v, want null", price, value)
		}
	}
}
