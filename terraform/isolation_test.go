//go:build unix

package terraform_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/zclconf/go-cty/cty"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"agents.example/controlplane/emulators/clustertest"
	"agents.example/controlplane/infra/gke"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/credential"
	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/image"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/provisioning"
	"agents.example/controlplane/terraform/cell"
)

// sharedCell is a cell that tests share. It gets its objects once: to apply them again would take back the images that
// another test admits. Tests that need it for themselves do not run in parallel with others.
type sharedCell struct {
	clustertest.Shared
	change   func(*cell.Values)
	mu       sync.Mutex
	prepared bool
}

// otherResolvers are name servers in addition to those of GKE.
func otherResolvers() []string { return []string{"10.8.0.10/32", "169.254.169.254/32"} }

var (
	// usual is a cell without settings, and other one with each that policies follow from.
	usual = sharedCell{change: func(*cell.Values) {}}
	other = sharedCell{change: func(v *cell.Values) {
		v.AgentAuth, v.Resolvers, v.StorageClass = dataplane.AuthImage, otherResolvers(), "premium-rwo"
		v.Registries = []string{"a.example/team/", "b.example:5000/"}
	}}
)

func TestMain(m *testing.M) {
	clustertest.Prepare()
	code := usual.Run(m).Run()
	if err := other.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// policyCell returns the usual cell.
func policyCell(t *testing.T) cellFixture {
	t.Helper()
	return usual.prepare(t)
}

// prepare starts the cell for the first test, and waits until its policies are enforced.
func (c *sharedCell) prepare(t *testing.T) cellFixture {
	t.Helper()
	kubeconfig := c.Start(t).Kubeconfig
	f := cellFixture{kubeconfig: kubeconfig, admin: client(t, kubeconfig)}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.prepared {
		f.applyTwice(t, append(cellObjects(t, c.change), unbound()), served)
		f.awaitPolicies(t)
		c.prepared = true
	}
	return f
}

// otherSettings are those of a worker in the other cell.
func otherSettings(s *gke.Settings) {
	s.Images.Agent, s.Images.Runtime = digestOf("agent", "0"), image.Runtime{Auth: dataplane.AuthImage}
	s.Resolvers, s.StorageClass = otherResolvers(), "premium-rwo"
}

// unbound gives all rights that RBAC can give.
func unbound() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
		"metadata": map[string]any{"name": "unbound"},
		"roleRef":  map[string]any{"apiGroup": rbacv1.GroupName, "kind": "ClusterRole", "name": "cluster-admin"},
		"subjects": []any{
			map[string]any{"apiGroup": rbacv1.GroupName, "kind": rbacv1.UserKind, "name": unboundReconciler},
			map[string]any{"apiGroup": rbacv1.GroupName, "kind": rbacv1.UserKind, "name": unboundObserver},
		},
	}}
}

// awaitPolicies waits until the API server enforces the last policy of the cell, which takes a moment.
func (f cellFixture) awaitPolicies(t *testing.T) {
	t.Helper()
	c, namespace := client(t, f.kubeconfigOf(t, unboundReconciler)), newAgent().Namespace()
	if err := apply(t.Context(), f.admin, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": namespace},
	}}); err != nil {
		t.Fatal(err)
	}
	miner := createObject("statefulsets", namespace, `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {a: b}}
  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: miner}]}}
`)
	clustertest.Eventually(t, func(ctx context.Context) error {
		if err := miner(ctx, c); err == nil || !strings.Contains(err.Error(), "no deployment with the images") {
			return fmt.Errorf("the policies are not enforced yet: %w", err)
		}
		return nil
	})
}

// digestOf returns an image by digest.
func digestOf(name string, digit string) string { return name + "@sha256:" + strings.Repeat(digit, 64) }

// admitImages sets the images that apply-cells.sh writes.
func (f cellFixture) admitImages(t *testing.T, key, images string) {
	t.Helper()
	body := fmt.Appendf(nil, `{"data":{%q:%q}}`, key, images)
	if _, err := at(f.admin, "configmaps", cell.GatewayNamespace).Patch(t.Context(), "agent-images",
		types.MergePatchType, body, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// images returns the object that apply-cells.sh keeps the images in.
func (f cellFixture) images(t *testing.T) map[string]any {
	t.Helper()
	o, err := at(f.admin, "configmaps", cell.GatewayNamespace).Get(t.Context(), "agent-images", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return o.Object
}

// applyAll applies all stages of an agent.
func applyAll(ctx context.Context, clusters *gke.Clusters, a agent.Agent) error {
	return applyStages(ctx, clusters, a, agent.StageNames())
}

func applyStages(ctx context.Context, clusters *gke.Clusters, a agent.Agent, stages []agent.StageName) error {
	input := provisioning.RuntimeInput{Secrets: map[string][]byte{}, Credentials: credential.Credentials{
		DashboardUsername: "admin", DashboardPassword: "password", APIKey: "key",
	}}
	for _, e := range a.Env {
		if e.Secret() {
			input.Secrets[e.Key] = []byte("value")
		}
	}
	for _, stage := range stages {
		if err := clusters.Apply(ctx, a, stage, input); err != nil {
			return fmt.Errorf("%s: %w", stage, err)
		}
	}
	return nil
}

// TestPolicies_AdmitEveryAgent applies agents with every plan and setting as the worker does, with a real API server
// that enforces the cell's admission policies.
func TestPolicies_AdmitEveryAgent(t *testing.T) {
	t.Parallel()
	f := policyCell(t)
	type row struct {
		change   func(*agent.Agent)
		settings func(*gke.Settings)
	}
	own := digestOf("agent", "0")
	rows := map[string]row{
		"an agent of the sample image": {},
		"a sandboxed agent":            {change: func(a *agent.Agent) { a.Sandbox = true }},
		"a stopped agent":              {change: func(a *agent.Agent) { a.Status = agent.Stopped }},
		"an agent with secrets": {change: func(a *agent.Agent) {
			a.Env = append(a.Env, agent.EnvVar{Key: "TOKEN", SecretVersion: 1})
		}},
		"an agent that sleeps":     {change: func(a *agent.Agent) { a.Sleep.AfterSeconds = agent.MinSleepSeconds }},
		"an image of the operator": {settings: func(s *gke.Settings) { s.Images.Agent = own }},
		"an image of the cell": {settings: func(s *gke.Settings) {
			s.Images.Cells = map[string]string{"cell": own}
		}},
		"a path for health": {settings: func(s *gke.Settings) {
			s.Images.Agent, s.Images.Runtime = own, image.Runtime{APIPort: 3001, HealthPath: "/healthz"}
		}},
	}
	for _, p := range plan.All() {
		rows["plan "+string(p.ID)] = row{change: func(a *agent.Agent) { a.Plan = p.ID }}
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			a := newAgent()
			if row.change != nil {
				row.change(&a)
			}
			var settings []func(*gke.Settings)
			if row.settings != nil {
				settings = append(settings, row.settings)
			}
			clusters := f.clusters(t, unboundReconciler, settings...)
			for range 2 { // the second time updates
				if err := applyAll(t.Context(), clusters, a); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestPolicies_AdmitAnAgentThatGrows moves an agent that ran from the smallest plan to the largest one.
func TestPolicies_AdmitAnAgentThatGrows(t *testing.T) {
	t.Parallel()
	f := policyCell(t)
	clusters, a := f.clusters(t, unboundReconciler), newAgent()
	plans := plan.All()
	a.Plan = plans[0].ID
	if err := applyAll(t.Context(), clusters, a); err != nil {
		t.Fatal(err)
	}
	clustertest.Eventually(t, func(ctx context.Context) error { return clusters.CheckReady(ctx, a) })
	a.Status, a.LastReadyIsolation, a.Plan = agent.Running, agent.Plain, plans[len(plans)-1].ID
	a.Generation++
	if err := applyAll(t.Context(), clusters, a); err != nil {
		t.Error(err)
	}
}

// TestPolicies_AdmitWhatOperatorsSet has a cell whose policies follow from other settings.
func TestPolicies_AdmitWhatOperatorsSet(t *testing.T) {
	t.Parallel()
	clusters := other.prepare(t).clusters(t, unboundReconciler, otherSettings)
	if err := applyAll(t.Context(), clusters, newAgent()); err != nil {
		t.Error(err)
	}
}

// TestPolicies_AdmitWhatOthersHaveSet: an agent's objects may have what no worker may write, from a program that the
// policies are not about, or from a release with other plans. The worker's next writes are about objects that have it.
func TestPolicies_AdmitWhatOthersHaveSet(t *testing.T) {
	t.Parallel()
	f, ctx, a := policyCell(t), t.Context(), newAgent()
	clusters := f.clusters(t, unboundReconciler)
	if err := clusters.Apply(ctx, a, agent.StageNamespace, provisioning.RuntimeInput{}); err != nil {
		t.Fatal(err)
	}
	claim := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "PersistentVolumeClaim",
		"metadata": map[string]any{"name": "data", "namespace": a.Namespace()},
		"spec": map[string]any{
			"accessModes": []any{"ReadWriteOnce"}, "storageClassName": "other",
			"resources": map[string]any{"requests": map[string]any{"storage": "300Gi"}},
		},
	}}
	if err := apply(ctx, f.admin, claim); err != nil {
		t.Fatal(err)
	}
	if err := applyAll(ctx, clusters, a); err != nil {
		t.Fatal(err)
	}
	preferred := `{"nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":1,"preference":` +
		`{"matchExpressions":[{"key":"a","operator":"Exists"}]}}]}}`
	for field, value := range map[string]string{
		"affinity": preferred, "tolerations": `[{"operator":"Exists"}]`, "nodeSelector": `{"disk":"fast"}`,
		"schedulerName": `"other"`, "hostname": `"other"`, "dnsPolicy": `"Default"`,
		"hostAliases": `[{"ip":"10.0.0.1","hostnames":["a.example"]}]`, "imagePullSecrets": `[{"name":"registry"}]`,
	} {
		body := `{"spec":{"template":{"spec":{"` + field + `":` + value + `}}}}`
		if _, err := at(f.admin, "statefulsets", a.Namespace()).Patch(ctx, "agent", types.MergePatchType,
			[]byte(body), metav1.PatchOptions{}); err != nil {
			t.Fatalf("%s: %v", field, err)
		}
		a.Generation++
		if err := applyAll(ctx, clusters, a); err != nil {
			t.Errorf("with %s: %v", field, err)
		}
	}
}

// TestPolicies_AdmitTheImagesOfReleases goes through a deployment: agents may run the images of the one before and of
// the one that is under way, and keep the images they have.
func TestPolicies_AdmitTheImagesOfReleases(t *testing.T) {
	t.Parallel()
	f := policyCell(t)
	of := func(image string) *gke.Clusters {
		return f.clusters(t, unboundReconciler, func(s *gke.Settings) { s.Images.Agent = image })
	}
	refuses := func(clusters *gke.Clusters) {
		t.Helper()
		clustertest.Eventually(t, func(ctx context.Context) error {
			err := applyAll(ctx, clusters, newAgent())
			if err == nil || !strings.Contains(cause(err), "no deployment with the images") {
				return fmt.Errorf("got %w, want a refusal of the images", err)
			}
			return nil
		})
	}
	admits := func(clusters *gke.Clusters, a agent.Agent) {
		t.Helper()
		clustertest.Eventually(t, func(ctx context.Context) error { return applyAll(ctx, clusters, a) })
	}
	// The images of the other tests stay.
	others, _, err := unstructured.NestedString(f.images(t), "data", "deployed")
	if err != nil {
		t.Fatal(err)
	}
	before, after, running := digestOf("agent", "1"), digestOf("agent", "2"), newAgent()
	former, next := of(before), of(after)
	f.admitImages(t, "deployed", others+" "+before)
	admits(former, running)
	refuses(next)
	f.admitImages(t, "next", after)
	admits(next, newAgent())
	admits(former, newAgent())

	f.admitImages(t, "previous", before)
	f.admitImages(t, "deployed", others+" "+after)
	f.admitImages(t, "next", "")
	admits(next, newAgent())
	admits(former, newAgent())

	f.admitImages(t, "previous", "")
	refuses(former)
	running.Env = nil
	running.Generation++
	if err := applyAll(t.Context(), former, running); err != nil {
		t.Errorf("an agent that has the former image: %v", err)
	}
}

// cause is the text of an error with what it wraps, which the texts of faults leave out.
func cause(err error) string {
	var parts []string
	for ; err != nil; err = errors.Unwrap(err) {
		parts = append(parts, err.Error())
	}
	return strings.Join(parts, ": ")
}

// TestGuard_FailsClosed holds that the API server refuses what it cannot check, and that the guard sees every write of
// every kind. A real API server refuses the writes in TestCell_GivesEveryCallerExactlyTheRightsItNeeds.
func TestGuard_FailsClosed(t *testing.T) {
	t.Parallel()
	guard := object[admissionv1.ValidatingAdmissionPolicy](t, "ValidatingAdmissionPolicy", "agent-control-plane")
	binding := object[admissionv1.ValidatingAdmissionPolicyBinding](t, "ValidatingAdmissionPolicyBinding",
		"agent-control-plane")
	if guard.Spec.FailurePolicy == nil || *guard.Spec.FailurePolicy != admissionv1.Fail {
		t.Errorf("failurePolicy = %v, want Fail", guard.Spec.FailurePolicy)
	}
	writes := []admissionv1.OperationType{"CREATE", "UPDATE", "DELETE", "CONNECT"}
	want := []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
		Operations: writes,
		Rule: admissionv1.Rule{
			APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*/*"},
		},
	}}}
	if diff := cmp.Diff(want, guard.Spec.MatchConstraints.ResourceRules); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
	if exempt := guard.Spec.MatchConstraints.ExcludeResourceRules; exempt != nil {
		t.Errorf("the guard leaves out %v", exempt)
	}
	if n := len(guard.Spec.MatchConditions); n != 1 {
		t.Errorf("%d match conditions, want only the one on the caller", n)
	}
	if binding.Spec.PolicyName != guard.Name || binding.Spec.MatchResources != nil ||
		!cmp.Equal(binding.Spec.ValidationActions, []admissionv1.ValidationAction{admissionv1.Deny}) {
		t.Errorf("binding = %+v, want it to deny in every namespace", binding.Spec)
	}
}

// TestPolicies_FailClosed holds that each admission policy of the cell is bound, denies in every namespace, and denies
// what it cannot check. All but those of the fence and about pods are about functions, and about all of them.
func TestPolicies_FailClosed(t *testing.T) {
	t.Parallel()
	condition := object[admissionv1.ValidatingAdmissionPolicy](t, "ValidatingAdmissionPolicy",
		"agent-control-plane").Spec.MatchConditions
	// Each workload is restricted by one of these two.
	divided := map[string]admissionv1.MatchCondition{
		"agent-workload": {Name: "agents", Expression: "object.metadata.name != 'reader'"},
		"agent-reader":   {Name: "reader", Expression: "object.metadata.name == 'reader'"},
	}
	found := 0
	for _, o := range cellObjects(t) {
		if o.GetKind() != "ValidatingAdmissionPolicy" {
			continue
		}
		found++
		policy := object[admissionv1.ValidatingAdmissionPolicy](t, o.GetKind(), o.GetName())
		binding := object[admissionv1.ValidatingAdmissionPolicyBinding](t, o.GetKind()+"Binding", o.GetName())
		if policy.Spec.FailurePolicy == nil || *policy.Spec.FailurePolicy != admissionv1.Fail {
			t.Errorf("%s: failurePolicy = %v, want Fail", o.GetName(), policy.Spec.FailurePolicy)
		}
		want := condition
		if c, ok := divided[o.GetName()]; ok {
			want = append(slices.Clone(condition), c)
		}
		if slices.Contains([]string{"agent-generation", "agent-way-out"}, o.GetName()) {
			want = policy.Spec.MatchConditions // they are about generations, whoever writes
		}
		selector := (*metav1.LabelSelector)(nil)
		if strings.HasPrefix(o.GetName(), "agent-pod-") { // controllers create pods
			want, selector = nil, agentsNamespaces()
		}
		if !cmp.Equal(policy.Spec.MatchConditions, want) {
			t.Errorf("%s is about %v, want %v", o.GetName(), policy.Spec.MatchConditions, want)
		}
		if got := policy.Spec.MatchConstraints.NamespaceSelector; !cmp.Equal(got, selector) {
			t.Errorf("%s is about namespaces %v, want %v", o.GetName(), got, selector)
		}
		if binding.Spec.PolicyName != o.GetName() || binding.Spec.MatchResources != nil ||
			!cmp.Equal(binding.Spec.ValidationActions, []admissionv1.ValidationAction{admissionv1.Deny}) {
			t.Errorf("binding = %+v, want it to deny in every namespace", binding.Spec)
		}
		if params := binding.Spec.ParamRef; params != nil && (params.ParameterNotFoundAction == nil ||
			*params.ParameterNotFoundAction != admissionv1.DenyAction) {
			t.Errorf("%s admits without its parameters", o.GetName())
		}
		for _, v := range policy.Spec.Validations {
			// Workers give up on any other reason.
			if v.Reason == nil || *v.Reason != metav1.StatusReasonForbidden {
				t.Errorf("%s: the reason of %s is %v, want Forbidden", o.GetName(), v.Expression, v.Reason)
			}
		}
	}
	if found != 15 {
		t.Errorf("%d policies, want 15", found)
	}
}

// agentsNamespaces selects namespaces by the label that agent-namespace wants.
func agentsNamespaces() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: "agents.example/agent-id", Operator: metav1.LabelSelectorOpExists},
	}}
}

// TestApplyCells_AdmitsImagesBeforeServicesStart runs the script before a deployment of the image "new" to two cells.
func TestApplyCells_AdmitsImagesBeforeServicesStart(t *testing.T) {
	t.Parallel()
	require(t, "python3")
	type images struct{ Previous, Next string }
	const clusters = `{"clusters":{"value":{"a1":{"name":"test-a1","region":"r"},"b1":{"name":"test-b1","region":"r"}}}`
	const outputs = clusters + `,"revisions":{"value":"{\"routes\":\"routes-2\",\"worker\":\"worker-2\"}"}}`
	for name, row := range map[string]struct {
		outputs string
		// present is the record of images in the cells; empty if there is none.
		present string
		// serving are the revisions that have the traffic; empty if all of the former deployment have it.
		serving string
		// broken is the cell that cannot be reached.
		broken string
		want   map[string]images
	}{
		"no cell exists": {outputs: "{}"},
		"the first deployment failed before its clusters": {
			outputs: `{"base_url":{"value":"https://api.example.com"},"revisions":{"value":"{}"}}`,
		},
		"cells of an earlier release have no record": {
			outputs: outputs,
			want:    map[string]images{"a1": {Next: "new"}, "b1": {Next: "new own"}},
		},
		"the former deployment ended": {
			outputs: outputs, present: `{"deployed":"old","previous":"older","next":""}`,
			want: map[string]images{"a1": {"old", "new"}, "b1": {"old", "new own"}},
		},
		"the former deployment failed": {
			outputs: outputs, present: `{"deployed":"old","previous":"older","next":"failed"}`,
			want: map[string]images{"a1": {"old", "failed new"}, "b1": {"old", "failed new own"}},
		},
		"the former deployment failed its test": {
			outputs: outputs, present: `{"deployed":"failed","previous":"old","next":""}`,
			serving: `{"routes": "routes-1", "worker": "worker-1"}`,
			want:    map[string]images{"a1": {"old failed", "new"}, "b1": {"old failed", "new own"}},
		},
		"a part of the former deployment does not serve": {
			outputs: outputs, present: `{"deployed":"half","previous":"old","next":""}`,
			serving: `{"routes": "routes-2", "worker": "worker-1"}`,
			want:    map[string]images{"a1": {"old half", "new"}, "b1": {"old half", "new own"}},
		},
		"the first deployment serves without being told to": {
			outputs: outputs, present: `{"deployed":"old","previous":""}`, serving: "{}",
			want: map[string]images{"a1": {"old", "new"}, "b1": {"old", "new own"}},
		},
		"the outputs of an earlier release name no revisions": {
			outputs: clusters + "}", present: `{"deployed":"old","previous":"older"}`,
			serving: `{"routes": "routes-1"}`,
			want:    map[string]images{"a1": {"old", "new"}, "b1": {"old", "new own"}},
		},
		"the release is deployed again": {
			outputs: outputs, present: `{"deployed":"new","previous":"old","next":""}`,
			want: map[string]images{"a1": {"old", "new"}, "b1": {"new", "new own"}},
		},
		"one cell cannot be reached": {
			outputs: outputs, present: `{"deployed":"old"}`, broken: "a1",
			want: map[string]images{"b1": {"old", "new own"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProject(t, 1)
			p.answer(t, "outputs.json", row.outputs)
			if row.serving == "" {
				row.serving = `{"routes": "routes-2", "worker": "worker-2"}`
			}
			p.answer(t, "serving.json", row.serving)
			p.answer(t, "images.json", `"{\"a1\":[\"new\"],\"b1\":[\"new\",\"own\"]}"`)
			record := ""
			if row.present != "" {
				record = `{"kind":"ConfigMap","data":` + row.present + `}`
			}
			p.answer(t, "record.json", record)
			p.write(t, filepath.Join(p.bin, "gcloud.bash"), `
gcloud() { [ "$4" != "test-`+row.broken+`" ] && echo "${4#test-}" >"$GCLOUD_STATE/cell"; }
`, 0o600)
			p.write(t, filepath.Join(p.bin, "kubectl"), `#!/bin/sh -e
case "$*" in
	"get configmap agent-images --namespace=agent-gateway --ignore-not-found --output=json")
		cat "$GCLOUD_STATE/record.json" ;;
	"apply --server-side --force-conflicts --field-manager=release -f "*)
		cp "$6" "$GCLOUD_STATE/$(cat "$GCLOUD_STATE/cell").applied" ;;
	*) exit 1 ;;
esac
`, 0o755)
			p.succeed(t, "apply-cells.sh", "--admit="+filepath.Join(p.state, "images.json"),
				filepath.Join(p.state, "outputs.json"), "project-1", filepath.Join(p.state, "serving.json"))
			got := map[string]images{}
			for _, name := range []string{"a1", "b1"} {
				b, err := os.ReadFile(filepath.Join(p.state, name+".applied"))
				if os.IsNotExist(err) {
					continue
				}
				var applied corev1.ConfigMap
				if err := errors.Join(err, json.Unmarshal(b, &applied)); err != nil {
					t.Fatal(err)
				}
				if applied.Kind != "ConfigMap" || applied.Name != "agent-images" ||
					applied.Namespace != cell.GatewayNamespace || len(applied.Data) != 2 {
					t.Errorf("%s: applied %s, want the record of images", name, b)
				}
				got[name] = images{Previous: applied.Data["previous"], Next: applied.Data["next"]}
			}
			if diff := cmp.Diff(row.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("images (-want +got):\n%s", diff)
			}
		})
	}
}

// TestCellImages_FollowFromVariables holds that the build can read the images before Terraform applies anything.
func TestCellImages_FollowFromVariables(t *testing.T) {
	t.Parallel()
	got := load(t, everything()).local(t, "cell_images")
	digest := func(name, digit string) cty.Value { return cty.StringVal(digestOf(name, digit)) }
	want := map[string][]cty.Value{
		"a1": {digest("image", "0"), digest("agent", "0")}, "b1": {digest("image", "0"), digest("agent", "1")},
	}
	for name, images := range want {
		if list := got.GetAttr(name).AsValueSlice(); !slices.EqualFunc(list, images, cty.Value.RawEquals) {
			t.Errorf("images of %s = %#v, want %#v", name, list, images)
		}
	}
}
