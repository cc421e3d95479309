package terraform_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestCustomRoles_HaveExactlyTheirPermissions holds what each custom role permits. A permission that is added here
// must be one that a function uses.
func TestCustomRoles_HaveExactlyTheirPermissions(t *testing.T) {
	t.Parallel()
	want := map[string][]string{
		"prod_secret_creator": {"secretmanager.secrets.create"},
		"prod_secret_lister":  {"secretmanager.secrets.list"},
		"prod_secret_writer": {
			"secretmanager.versions.add", "secretmanager.versions.get", "secretmanager.versions.list",
		},
		"prod_secret_manager": {
			"secretmanager.secrets.delete", "secretmanager.versions.access", "secretmanager.versions.add",
			"secretmanager.versions.destroy",
		},
		"prod_secret_collector": {
			"secretmanager.secrets.delete", "secretmanager.secrets.get", "secretmanager.secrets.update",
		},
		"prod_metric_reader":  {"monitoring.timeSeries.list"},
		"prod_cluster_caller": {"container.clusters.connect"},
		"prod_member_admin":   {"firebaseauth.users.get", "firebaseauth.users.update"},
	}
	got := map[string][]string{}
	for _, role := range load(t, nil).resources(t, "google_project_iam_custom_role") {
		got[text(t, role, "role_id")] = texts(t, find(t, role, "permissions"))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("permissions of custom roles (-want +got):\n%s", diff)
	}
}
