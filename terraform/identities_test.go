package terraform_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"agents.example/controlplane/functions"
)

// grant is a role on one resource.
type grant struct{ Resource, Role, Member string }

// TestDelivery_HasExactlyItsGrants holds what Pub/Sub may do: sign pushes as the push account, which alone may call
// workers, and move dead letters. Without the last two grants of the table, dead letters are delivered forever.
func TestDelivery_HasExactlyItsGrants(t *testing.T) {
	t.Parallel()
	const (
		pubsub = "serviceAccount:service-123456789012@gcp-sa-pubsub.iam.gserviceaccount.com"
		push   = "google_service_account.push.member"
	)
	everyTopology(t, func(t *testing.T, m *module) {
		want := map[string]grant{
			"google_service_account_iam_member push_signer": {
				Resource: "google_service_account.push.name", Role: "roles/iam.serviceAccountTokenCreator",
				Member: pubsub,
			},
			`google_pubsub_topic_iam_member dead_letter["agent-nudges-dead"]`: {
				Resource: "prod-agent-nudges-dead", Role: "roles/pubsub.publisher", Member: pubsub,
			},
			`google_pubsub_subscription_iam_member dead_letter["ReconcileAgent"]`: {
				Resource: "prod-reconcile-agent", Role: "roles/pubsub.subscriber", Member: pubsub,
			},
		}
		for _, w := range functions.Workers(functions.Dependencies{}) {
			service := m.local(t, "service_of").GetAttr(w.Name).AsString()
			want[`google_cloud_run_v2_service_iam_member push["`+service+`"]`] = grant{
				Resource: "prod-" + service, Role: "roles/run.invoker", Member: push,
			}
		}
		got := map[string]grant{}
		for typ, resource := range map[string]string{
			"google_service_account_iam_member":      "service_account_id",
			"google_pubsub_topic_iam_member":         "topic",
			"google_pubsub_subscription_iam_member":  "subscription",
			"google_cloud_run_v2_service_iam_member": "name",
		} {
			for address, v := range m.resources(t, typ) {
				g := grant{Resource: text(t, v, resource), Role: text(t, v, "role"), Member: text(t, v, "member")}
				// Functions publish, too.
				if typ != "google_pubsub_topic_iam_member" || g.Member == pubsub || g.Member == push {
					got[typ+" "+address] = g
				}
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("grants (-want +got):\n%s", diff)
		}
	})
}

// TestPushes_AreSignedForTheirWorker compares the address and the audience of each subscription with the worker's
// service and path. A worker accepts tokens for its own address only.
func TestPushes_AreSignedForTheirWorker(t *testing.T) {
	t.Parallel()
	everyTopology(t, func(t *testing.T, m *module) {
		subscriptions := m.resources(t, "google_pubsub_subscription")
		services := m.resources(t, "google_cloud_run_v2_service")
		for _, w := range functions.Workers(functions.Dependencies{}) {
			service := m.local(t, "service_of").GetAttr(w.Name).AsString()
			url := "https://prod-" + service + "-123456789012.us-central1.run.app"
			s := subscriptions[`worker["`+w.Name+`"]`]
			want := map[string]string{
				"endpoint": url + "/workers/" + w.Name, "audience": url, "account": "google_service_account.push.email",
				"topic": `google_pubsub_topic.this["` + string(w.Topic) + `"].id`, "audience of the service": url,
				"account of the service": "prod-push@my-project.iam.gserviceaccount.com",
			}
			environment := variables(t, services[`this["`+service+`"]`])
			got := map[string]string{
				"endpoint": text(t, s, "push_config.0.push_endpoint"), "topic": text(t, s, "topic"),
				"audience":                text(t, s, "push_config.0.oidc_token.0.audience"),
				"account":                 text(t, s, "push_config.0.oidc_token.0.service_account_email"),
				"audience of the service": environment["PUSH_AUDIENCE"],
				"account of the service":  environment["PUSH_SERVICE_ACCOUNT"],
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", w.Name, diff)
			}
		}
	})
}
