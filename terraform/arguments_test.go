package terraform_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// orders lists every meta-argument of the module that no value shows: what a resource waits for, and how it is
// replaced. Each row says what happens without it.
func orders() map[string]string {
	const before = "create_before_destroy = true"
	return map[string]string{
		// What uses these could be replaced only after them, so that Terraform could not delete them.
		"google_certificate_manager_certificate.api":       before,
		"google_certificate_manager_dns_authorization.api": before,
		"google_compute_security_policy.edge":              before,
		// Google deletes none of these while others use it, and those would be changed only after the deletion. Every
		// deployment would fail then, as after a change of alert_emails or of the topology.
		"google_compute_backend_service.service":             before,
		"google_monitoring_notification_channel.cells_email": before,
		"google_monitoring_notification_channel.email":       before,
		// The first instance of a revision reads secrets, and its first queries need indexes.
		"google_cloud_run_v2_service.this": "depends_on = [ google_secret_manager_secret_iam_member.service, " +
			"google_project_iam_member.service, google_pubsub_topic_iam_member.service, " +
			"google_pubsub_topic_iam_member.webhooks, google_firestore_index.this, google_firestore_field.this, ]",
		// A cluster makes nodes immediately, as an account that may write their logs.
		"google_container_cluster.cell": "depends_on = [google_project_iam_member.nodes]",
		// Monitoring refuses an alert about a metric that does not exist.
		"google_monitoring_alert_policy.this": "depends_on = [google_logging_metric.calls, " +
			"google_logging_metric.event, google_logging_metric.start]",
		// A right names its role. While the database is replaced, services have both rights.
		"google_project_iam_member.service": "depends_on = [google_project_iam_custom_role.this]; " + before,
		// The first pushes would be refused.
		"google_pubsub_subscription.worker": "depends_on = [ google_cloud_run_v2_service_iam_member.push, " +
			"google_service_account_iam_member.push_signer, ]",
		// The pool of workload identities exists with the first cluster.
		"google_project_iam_member.gate":               "depends_on = [google_container_cluster.cell]",
		"google_pubsub_topic_iam_member.gate":          "depends_on = [google_container_cluster.cell]",
		"google_secret_manager_secret_iam_member.gate": "depends_on = [google_container_cluster.cell]",
		"google_pubsub_topic_iam_member.notifier":      "depends_on = [google_container_cluster.cell]",
		// The operator disables former versions, which no apply may enable again.
		"google_secret_manager_secret_version.generated": "ignore_changes = [enabled]",
		// Each apply would make another secret, which services do not believe until the load balancer sends it.
		"terraform_data.edge_secret": "ignore_changes = [input]",
	}
}

func TestResources_KeepTheirMetaArguments(t *testing.T) {
	t.Parallel()
	got := map[string]string{}
	m := load(t, nil)
	for address, b := range m.Blocks() {
		if b.Type != "resource" {
			continue
		}
		source := []byte(read(t, b.TypeRange.Filename))
		var found []string
		add := func(name string) {
			if a := b.Body.Attributes[name]; a != nil {
				found = append(found, strings.Join(strings.Fields(string(a.SrcRange.SliceBytes(source))), " "))
			}
		}
		add("depends_on")
		for _, inner := range b.Body.Blocks {
			if inner.Type != "lifecycle" {
				continue
			}
			for _, name := range slices.Sorted(maps.Keys(inner.Body.Attributes)) {
				found = append(found,
					strings.Join(strings.Fields(string(inner.Body.Attributes[name].SrcRange.SliceBytes(source))), " "))
			}
		}
		if len(found) > 0 {
			got[address] = strings.Join(found, "; ")
		}
	}
	if diff := cmp.Diff(orders(), got); diff != "" {
		t.Errorf("meta-arguments (-want +got):\n%s", diff)
	}
}
