package terraform_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestBudget_OnlyNotifies holds that a budget exists once there is a billing account, and what it notifies of.
func TestBudget_OnlyNotifies(t *testing.T) {
	t.Parallel()
	if found := load(t, nil).resources(t, "google_billing_budget"); len(found) != 0 {
		t.Errorf("%d budgets without a billing account", len(found))
	}
	budget := load(t, everything()).resources(t, "google_billing_budget")[`project["012345-6789AB-CDEF01"]`]
	want := map[string]string{
		"billing_account": "012345-6789AB-CDEF01", "budget_filter.0.projects.0": "projects/123456789012",
		"amount.0.specified_amount.0.units": "500", "threshold_rules.0.threshold_percent": "0.5",
		"threshold_rules.1.threshold_percent": "0.9", "threshold_rules.2.threshold_percent": "1",
		"threshold_rules.3.spend_basis": "FORECASTED_SPEND",
		"all_updates_rule.0.monitoring_notification_channels.0": `google_monitoring_notification_channel.email[` +
			`"operator@example.com"].id`,
	}
	if diff := cmp.Diff(want, arguments(t, budget, want)); diff != "" {
		t.Errorf("budget (-want +got):\n%s", diff)
	}
}
