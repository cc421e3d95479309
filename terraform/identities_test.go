package terraform_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

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

// TestNotifier_IsKnownByTheServiceAccountOfItsEnvironment follows the identity of the notifier from the grant to its
// pod. Google knows ServiceAccounts of all clusters of a project by namespace and name: another environment's name must
// differ.
func TestNotifier_IsKnownByTheServiceAccountOfItsEnvironment(t *testing.T) {
	t.Parallel()
	for _, environment := range []string{"prod", "staging"} {
		account := "agent-notifier-" + environment
		m := load(t, map[string]cty.Value{"environment": cty.StringVal(environment)})
		grants := m.resources(t, "google_pubsub_topic_iam_member")
		want := "principal://iam.googleapis.com/projects/123456789012/locations/global/workloadIdentityPools/" +
			"my-project.svc.id.goog/subject/ns/agent-gateway/sa/" + account
		if got := text(t, grants["notifier"], "member"); got != want {
			t.Errorf("%s: the publisher is %s, want %s", environment, got, want)
		}
		got := map[string]string{}
		for _, o := range renderedObjects(t, m) {
			switch o.GetKind() {
			case "ServiceAccount":
				got["account "+o.GetNamespace()+"/"+o.GetName()] = "exists"
			case "Deployment":
				name, _, _ := unstructured.NestedString(o.Object, "spec", "template", "spec", "serviceAccountName")
				got["pods of "+o.GetNamespace()+"/"+o.GetName()] = name
			case "ClusterRoleBinding":
				subjects, _, _ := unstructured.NestedSlice(o.Object, "subjects")
				for _, s := range subjects {
					if name := s.(map[string]any)["name"].(string); strings.HasPrefix(name, "agent-notifier") {
						got["subject of "+o.GetName()] = name
					}
				}
			}
		}
		for what, want := range map[string]string{
			"account agent-gateway/" + account: "exists", "subject of agent-notifier": account,
			"pods of agent-gateway/agent-notifier": account, "pods of agent-gateway/agent-router": "agent-router",
		} {
			if got[what] != want {
				t.Errorf("%s: %s: %q, want %q", environment, what, got[what], want)
			}
		}
	}
}

// renderedObjects are the objects that Terraform renders for the first cell.
func renderedObjects(t *testing.T, m *module) []*unstructured.Unstructured {
	t.Helper()
	var objects []*unstructured.Unstructured
	for _, rendered := range m.local(t, "cell_objects").AsValueMap() {
		for d := yaml.NewYAMLOrJSONDecoder(strings.NewReader(rendered.AsString()), 4096); ; {
			o := &unstructured.Unstructured{}
			if err := d.Decode(&o.Object); errors.Is(err, io.EOF) {
				return objects
			} else if err != nil {
				t.Fatal(err)
			}
			objects = append(objects, o)
		}
	}
	return objects
}
