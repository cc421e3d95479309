package terraform_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/zclconf/go-cty/cty"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"agents.example/controlplane/emulators/rpc"
	"agents.example/controlplane/emulators/secretmanageremu"
	"agents.example/controlplane/functions"
	"agents.example/controlplane/infra/secretmanager"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/provisioning"
	"agents.example/controlplane/shared/secret"
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

// The conditions of grants, as the table below names them.
const (
	inDatabase     = `resource.name == "projects/my-project/databases/agents-prod"`
	inAgentSecrets = `resource.name.startsWith("projects/123456789012/secrets/prod-agent-")`
	inBrokered     = `resource.name.startsWith("projects/123456789012/secrets/prod-inject-")`
	inAllSecrets   = inAgentSecrets + " || " + inBrokered
	inCredentials  = inAgentSecrets +
		` && resource.name.extract("/secrets/{name}/versions/").endsWith("-credentials")` +
		` && !resource.name.extract("/secrets/{name}/versions/").endsWith("-env-credentials")`
	inClients = `resource.name.startsWith("projects/_/buckets/my-project-prod-builds/objects/clients/")` +
		` || resource.name == "projects/_/buckets/my-project-prod-builds"` +
		` && api.getAttribute("storage.googleapis.com/objectListPrefix", "").startsWith("clients/")`
)

// custom is the name of a custom role.
func custom(id string) string { return "projects/my-project/roles/prod_" + id }

// conditions maps roles to the conditions of their grants on the project. "cells" is a grant on the project of the
// cells, and "nudges" and "webhooks" are some on a topic of nudges.
type conditions map[string]string

// TestGrants_AreTheNarrowest has the roles of every need once more, for whoever changes one.
func TestGrants_AreTheNarrowest(t *testing.T) {
	t.Parallel()
	want := map[string]conditions{
		"firestore":      {"roles/datastore.user": inDatabase},
		"firestore_read": {"roles/datastore.viewer": inDatabase},
		"publish":        {"roles/pubsub.publisher": "nudges"},
		"nudge_webhooks": {"roles/pubsub.publisher": "webhooks"},
		"secret_add":     {custom("secret_creator"): "", custom("secret_writer"): inAllSecrets},
		"secret_read":    {"roles/secretmanager.secretAccessor": inCredentials},
		"secret_manage": {
			custom("secret_creator"): "", custom("secret_lister"): "", custom("secret_manager"): inAgentSecrets,
			custom("secret_destroyer"): inBrokered,
		},
		"secret_collect":  {custom("secret_lister"): "", custom("secret_collector"): inAllSecrets},
		"cluster_apply":   {custom("cluster_caller"): "cells"},
		"cluster_look":    {custom("cluster_caller"): "cells"},
		"cluster_collect": {custom("cluster_caller"): "cells"},
		"pod_logs":        {custom("cluster_caller"): "cells"},
		"log_keep":        {custom("cluster_caller"): "cells"},
		"pod_exec":        {custom("cluster_caller"): "cells"},
		"pod_quiesce":     {custom("cluster_caller"): "cells"},
		"monitoring":      {custom("metric_reader"): "cells"},
		"members":         {},
		"backups_read":    {custom("backup_reader"): ""},
		"clients_read":    {"roles/storage.objectViewer": inClients},
		"handoff_sign":    {}, "payments": {}, "gateway_access": {}, "webhook_sign": {}, "webhook_send": {},
	}
	for issuer, members := range map[string]conditions{
		"https://issuer.example":                             {},
		"https://securetoken.google.com/my-project":          {custom("member_admin"): ""},
		"https://securetoken.google.com/my-project-of-users": {},
	} {
		want := maps.Clone(want)
		want["members"] = members
		m := load(t, map[string]cty.Value{"identity_issuer": cty.StringVal(issuer)})
		places, got := m.local(t, "places").AsValueMap(), map[string]conditions{}
		for need, grant := range m.local(t, "grants").AsValueMap() {
			got[need] = conditions{}
			for role, place := range grant.GetAttr("roles").AsValueMap() {
				p := places[place.AsString()]
				got[need][role] = p.GetAttr("where").AsString()
				if on := p.GetAttr("on").AsString(); on != "project" {
					got[need][role] += on
				}
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("grants with the issuer %s (-want +got):\n%s", issuer, diff)
		}
	}
}

// TestRoles_NoneAdministers refuses basic roles and roles that administer, in every resource that grants one.
func TestRoles_NoneAdministers(t *testing.T) {
	t.Parallel()
	tooWide := regexp.MustCompile(`^roles/(.*[aA]dmin|(.*\.)?(owner|editor)|viewer)$`)
	everyTopology(t, func(t *testing.T, m *module) {
		granted := 0
		for _, typ := range m.Types() {
			for address, r := range m.resources(t, typ) {
				if !r.Type().HasAttribute("role") {
					continue
				}
				granted++
				if role := text(t, r, "role"); tooWide.MatchString(role) {
					t.Errorf("%s.%s grants %s", typ, address, role)
				}
			}
		}
		if granted < 20 {
			t.Errorf("found %d grants only: correct this test", granted)
		}
	})
}

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
		"prod_secret_destroyer": {
			"secretmanager.secrets.delete", "secretmanager.versions.destroy", "secretmanager.versions.get",
		},
		"prod_secret_collector": {
			"secretmanager.secrets.delete", "secretmanager.secrets.get", "secretmanager.secrets.update",
		},
		"prod_metric_reader":  {"monitoring.timeSeries.list"},
		"prod_cluster_caller": {"container.clusters.connect"},
		"prod_backup_reader":  {"datastore.backups.list", "datastore.databases.getMetadata"},
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

// permission is what a method of Secret Manager requires, on the project or on the secret that is called.
type permission struct {
	name      string
	onProject bool
}

// permissions maps the methods of Secret Manager to what they require, as its page on access control says.
func permissions() map[string]permission {
	return map[string]permission{
		"CreateSecret":         {"secretmanager.secrets.create", true},
		"ListSecrets":          {"secretmanager.secrets.list", true},
		"GetSecret":            {"secretmanager.secrets.get", false},
		"UpdateSecret":         {"secretmanager.secrets.update", false},
		"DeleteSecret":         {"secretmanager.secrets.delete", false},
		"AddSecretVersion":     {"secretmanager.versions.add", false},
		"AccessSecretVersion":  {"secretmanager.versions.access", false},
		"GetSecretVersion":     {"secretmanager.versions.get", false},
		"ListSecretVersions":   {"secretmanager.versions.list", false},
		"DestroySecretVersion": {"secretmanager.versions.destroy", false},
	}
}

// need is a need's roles: the permissions that they grant, by condition.
type need struct {
	granted map[string][]string

	mu   sync.Mutex
	used map[string]bool
}

// needNamed reads the grants of a need from the module.
func needNamed(t *testing.T, m *module, name string) *need {
	t.Helper()
	roles := map[string][]string{"roles/secretmanager.secretAccessor": {"secretmanager.versions.access"}}
	for id, name := range m.local(t, "custom_roles").AsValueMap() {
		roles[name.AsString()] = texts(t, m.local(t, "role_permissions").GetAttr(id))
	}
	places, n := m.local(t, "places").AsValueMap(), &need{granted: map[string][]string{}, used: map[string]bool{}}
	for role, place := range m.local(t, "grants").GetAttr(name).GetAttr("roles").AsValueMap() {
		where := places[place.AsString()].GetAttr("where").AsString()
		n.granted[where] = append(n.granted[where], roles[role]...)
	}
	return n
}

var projectOf = regexp.MustCompile(`^projects/[^/]+`)

// authorize refuses the calls that the grants do not allow. IAM knows the project by its number.
func (n *need) authorize(t *testing.T) rpc.Hook {
	return func(method, resource string) rpc.Fault {
		required := permissions()[method]
		resource = projectOf.ReplaceAllString(resource, "projects/123456789012")
		if required.onProject {
			resource = "projects/123456789012"
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		n.used[required.name] = true
		for where, granted := range n.granted {
			if slices.Contains(granted, required.name) && condition(t, where, resource) {
				return rpc.Fault{}
			}
		}
		return rpc.Fault{Before: status.Errorf(codes.PermissionDenied, "%s denied on %s", required.name, resource)}
	}
}

// owners are two agents: one that has no secret yet, and one that has credentials, the variable TOKEN and the brokered
// secret TOKEN.
type owners struct{ fresh, existing string }

// TestSecretGrants_AllowWhatTheirPortsCall uses every method of the ports of secrets with the grants of their need. The
// grants allow each call, and grant nothing that no call uses.
func TestSecretGrants_AllowWhatTheirPortsCall(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(context.Context, *secretmanager.Store, owners) error{
		"secret_add": addSecrets, "secret_read": readSecrets, "secret_manage": manageSecrets,
		"secret_collect": collectSecrets,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, s := openSecrets(t, "staging")
			agents := owners{uuid.NewString(), uuid.NewString()}
			if _, _, err := s.EnsureCredentials(t.Context(), agents.existing, "admin"); err != nil {
				t.Fatal(err)
			}
			for _, key := range []string{"TOKEN", brokeredToken()} {
				if _, err := s.Put(t.Context(), agents.existing, key, []byte("value")); err != nil {
					t.Fatal(err)
				}
			}
			// A module evaluates one expression at a time.
			n := needNamed(t, load(t, map[string]cty.Value{"environment": cty.StringVal("staging")}), name)
			server.Inject(n.authorize(t))
			if err := call(t.Context(), s, agents); err != nil {
				t.Errorf("with the grants of %s: %v", name, err)
			}
			for granted := range maps.Values(n.granted) {
				for _, p := range granted {
					if !n.used[p] {
						t.Errorf("%s grants %s, which no call uses", name, p)
					}
				}
			}
		})
	}
}

// openSecrets opens the store of an environment's secrets, which are empty.
func openSecrets(t *testing.T, environment string) (*secretmanageremu.Server, *secretmanager.Store) {
	t.Helper()
	server, err := secretmanageremu.Start(t.Context(), secretmanageremu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := secretmanager.Open(t.Context(), secretmanager.Options{
		ProjectID: "my-project", Environment: environment, Database: "agents", Endpoint: server.Addr,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(s.Close(), server.Close()); err != nil {
			t.Error(err)
		}
	})
	return server, s
}

func brokeredToken() string { return secret.BrokeredKey("TOKEN") }

func addSecrets(ctx context.Context, s *secretmanager.Store, a owners) error {
	_, err := s.AddCredentials(ctx, a.existing, "admin")
	for _, key := range []string{"TOKEN", brokeredToken()} {
		version, put := s.Put(ctx, a.fresh, key, []byte("value"))
		_, found := s.LatestVersion(ctx, a.fresh, key)
		_, _, created := s.VersionCreated(ctx, a.fresh, key, version)
		err = errors.Join(err, put, found, created)
	}
	return err
}

func readSecrets(ctx context.Context, s *secretmanager.Store, a owners) error {
	_, err := s.GetCredentials(ctx, a.existing, 1)
	return err
}

func manageSecrets(ctx context.Context, s *secretmanager.Store, a owners) error {
	_, version, ensured := s.EnsureCredentials(ctx, a.fresh, "admin")
	_, got := s.GetCredentials(ctx, a.fresh, version)
	_, read := s.Read(ctx, a.existing, "TOKEN", 1)
	return errors.Join(ensured, got, read, s.DestroyVersions(ctx, a.existing, "TOKEN", 1, 2),
		s.DestroyVersions(ctx, a.existing, brokeredToken(), 1, 3), // the second one does not exist
		s.Destroy(ctx, a.existing, []string{"TOKEN", brokeredToken()}))
}

// collectSecrets marks the secrets of the existing agent and then deletes them.
func collectSecrets(ctx context.Context, s *secretmanager.Store, _ owners) error {
	for _, change := range []func(provisioning.SecretOwner) error{
		func(o provisioning.SecretOwner) error { return s.MarkSecrets(ctx, o, time.Now()) },
		func(o provisioning.SecretOwner) error { return s.DeleteSecrets(ctx, o) },
	} {
		listed, err := s.SecretOwners(ctx)
		if err != nil || len(listed) != 1 {
			return fmt.Errorf("%d owners of secrets are listed, want 1: %w", len(listed), err)
		}
		if err := change(listed[0]); err != nil {
			return err
		}
	}
	return nil
}

// TestSecretGrants_RefuseVariablesWhereOnlyCredentialsAreShown reads a variable, also one that is named like
// credentials, with the grants of revealing credentials.
func TestSecretGrants_RefuseVariablesWhereOnlyCredentialsAreShown(t *testing.T) {
	t.Parallel()
	server, s := openSecrets(t, "prod")
	agentID := uuid.NewString()
	keys := []string{"TOKEN", "credentials", "my_credentials"}
	for _, key := range keys {
		if _, err := s.Put(t.Context(), agentID, key, []byte("value")); err != nil {
			t.Fatal(err)
		}
	}
	server.Inject(needNamed(t, load(t, nil), "secret_read").authorize(t))
	for _, key := range keys {
		if _, err := s.Read(t.Context(), agentID, key, 1); err == nil {
			t.Errorf("the variable %s can be read", key)
		}
	}
}

// TestSecretGrants_KeepBrokeredValuesFromFunctions reads a brokered secret with the grants of each need.
func TestSecretGrants_KeepBrokeredValuesFromFunctions(t *testing.T) {
	t.Parallel()
	server, s := openSecrets(t, "prod")
	agentID := uuid.NewString()
	if _, err := s.Put(t.Context(), agentID, brokeredToken(), []byte("value")); err != nil {
		t.Fatal(err)
	}
	m := load(t, nil)
	for name := range m.local(t, "grants").AsValueMap() {
		server.Inject(needNamed(t, m, name).authorize(t))
		if _, err := s.Read(t.Context(), agentID, brokeredToken(), 1); fault.Code(err) != "secret_store_denied" {
			t.Errorf("with the grants of %s, the value of a brokered secret is read: %v", name, err)
		}
	}
}
