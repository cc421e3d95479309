//go:build unix

package terraform_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/zclconf/go-cty/cty"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"agents.example/controlplane/emulators/clustertest"
	"agents.example/controlplane/infra/gke"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/credential"
	"agents.example/controlplane/shared/image"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/provisioning"
	"agents.example/controlplane/terraform/cell"
)

// The accounts of the functions that call the API servers, by need.
const (
	reconciler = "prod-reconcile-agent@my-project.iam.gserviceaccount.com"
	observer   = "prod-observe-agents@my-project.iam.gserviceaccount.com"
	collector  = "prod-collect-orphans@my-project.iam.gserviceaccount.com"
	logReader  = "prod-get-agent-logs@my-project.iam.gserviceaccount.com"
	enterer    = "prod-exec-in-agent@my-project.iam.gserviceaccount.com"
	// RBAC lets these two do everything, so that only admission policies hold them back.
	unboundReconciler = "prod-unbound-worker@my-project.iam.gserviceaccount.com"
	unboundObserver   = "prod-unbound-observer@my-project.iam.gserviceaccount.com"
	// stranger is an account of another environment in the same project. IAM lets it connect.
	stranger = "staging-reconcile-agent@my-project.iam.gserviceaccount.com"
)

// gateAddress is in the range of Services of the tests' clusters.
const gateAddress = "10.96.0.53"

// cellObjects renders the files of cell/ as Terraform does.
func cellObjects(t *testing.T, change ...func(*cell.Values)) []*unstructured.Unstructured {
	t.Helper()
	digest := "@sha256:" + strings.Repeat("0", 64)
	values := cell.Values{
		Domain: "cell.agents.example.net", Image: "image" + digest, AgentImage: "agent" + digest,
		Callers: map[string][]string{
			"cluster_apply": {reconciler, unboundReconciler}, "cluster_look": {observer, unboundObserver},
			"cluster_collect": {collector}, "pod_logs": {logReader}, "pod_exec": {enterer},
			"pod_quiesce": {reconciler, unboundReconciler},
			"log_keep":    {observer, reconciler, unboundObserver, unboundReconciler},
		},
		Project: "my-project", NudgeTopic: "prod-agent-nudges", Environment: "prod", GateAddress: gateAddress,
		EgressTopic: "prod-egress-reports", GateSecret: "google_secret_manager_secret_version.gate.name",
		WarmAgents: 1, WarmMillicores: 260, WarmMiB: 1056,
		Address: "prod-cell", CertificateMap: "prod-agents", SSLPolicy: "prod-edge", SecurityPolicy: "prod-agents",
	}
	for _, f := range change {
		f(&values)
	}
	objects, err := cell.Objects(values)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// TestCell_RendersEveryFile compares the order of the files with cell.tf.
func TestCell_RendersEveryFile(t *testing.T) {
	t.Parallel()
	all, err := filepath.Glob("cell/*.yaml")
	if err != nil || len(all) != len(cell.Files()) {
		t.Errorf("files in cell/ = %v, want %v (%v): update cell.Files", all, cell.Files(), err)
	}
	b := read(t, "cell.tf")
	want := `"` + strings.Join(cell.Files(), `", "`) + `"`
	if !strings.Contains(b, want) {
		t.Errorf("cell.tf does not render the files in the order of cell.Files: %s", want)
	}
}

// served reports whether the local cluster serves the kind of an object. It has no Gateway and none of GKE's kinds.
func served(o *unstructured.Unstructured) bool {
	return !slices.Contains([]string{"gateway.networking.k8s.io", "networking.gke.io", "monitoring.googleapis.com"},
		o.GroupVersionKind().Group)
}

// apply applies an object server-side, as apply-cells.sh does.
func apply(ctx context.Context, client dynamic.Interface, o *unstructured.Unstructured) error {
	plural, _ := meta.UnsafeGuessKindToResource(o.GroupVersionKind())
	var to dynamic.ResourceInterface = client.Resource(plural)
	if o.GetNamespace() != "" {
		to = client.Resource(plural).Namespace(o.GetNamespace())
	}
	_, err := to.Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: "deployment", Force: true})
	return err
}

// cellFixture is a real API server with the objects of every cell.
type cellFixture struct {
	kubeconfig string
	admin      dynamic.Interface
}

// applyTwice applies some of the objects as apply-cells.sh does, twice: a deployment applies them again.
func (f cellFixture) applyTwice(t *testing.T, objects []*unstructured.Unstructured,
	some func(*unstructured.Unstructured) bool,
) {
	t.Helper()
	for range 2 {
		for _, o := range objects {
			if !some(o) {
				continue
			}
			if err := apply(t.Context(), f.admin, o); err != nil {
				t.Fatalf("%s %s: %v", o.GetKind(), o.GetName(), err)
			}
		}
	}
}

// kubeconfigOf returns a kubeconfig with which a client is the user. GKE knows functions by their Google identities.
func (f cellFixture) kubeconfigOf(t *testing.T, user string) string {
	t.Helper()
	config, err := clientcmd.LoadFromFile(f.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range config.AuthInfos {
		info.Impersonate = user
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// clusters returns the control plane's client of the cell as a user. change changes its settings.
func (f cellFixture) clusters(t *testing.T, user string, change ...func(*gke.Settings)) *gke.Clusters {
	t.Helper()
	settings := gke.Settings{
		Cells:           []gke.Cell{{Name: "cell", Kubeconfig: f.kubeconfigOf(t, user)}},
		Images:          image.BuiltIn{Platform: "image@sha256:" + strings.Repeat("0", 64)},
		Addresses:       agent.Addresses{Domain: "agents.example.net", Scheme: "https"},
		RouterNamespace: cell.GatewayNamespace, GateAddress: gateAddress,
		Database: "test",
	}
	for _, f := range change {
		f(&settings)
	}
	clusters, err := gke.Open(t.Context(), settings)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { clusters.Close() }) //nolint:errcheck // closing connections
	return clusters
}

func client(t *testing.T, kubeconfig string) dynamic.Interface {
	t.Helper()
	config := clustertest.Config(t, kubeconfig)
	c, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func newAgent() agent.Agent {
	return agent.Agent{
		ID: uuid.NewString(), OrganizationID: "org", Name: "one", Plan: plan.Hobby, Cell: "cell", Region: "us-central1",
		Status: agent.Provisioning, Stages: agent.NewStages(), Env: []agent.EnvVar{{Key: "A", Value: "1"}}, Slug: "one",
	}
}

// TestCell_GivesEveryCallerExactlyTheRightsItNeeds runs the calls of each function, and then calls that must be
// refused, against a real API server with the objects that Terraform renders.
func TestCell_GivesEveryCallerExactlyTheRightsItNeeds(t *testing.T) {
	f := policyCell(t) // without t.Parallel: other agents of the cell neither come nor go
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	awaitGuard(ctx, t, client(t, f.kubeconfigOf(t, reconciler)))
	a := newAgent()
	reconciles, looks, collects := f.clusters(t, reconciler), f.clusters(t, observer), f.clusters(t, collector)
	others := map[string]bool{} // agents of other tests
	former, err := collects.Namespaces(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range former {
		others[p.AgentID] = true
	}
	provision(ctx, t, reconciles, a)
	if _, err := looks.Objects(ctx, "cell"); err != nil {
		t.Errorf("list objects: %v", err)
	}
	pods, err := looks.Pods(ctx, "cell")
	pods = slices.DeleteFunc(pods, func(p provisioning.Pod) bool { return others[p.AgentID] })
	if err != nil || len(pods) != 1 {
		t.Errorf("list pods: %d, %v; want 1", len(pods), err)
	}
	if found, err := looks.Existence(ctx, a); err != nil || !found.Pod {
		t.Errorf("look for the pod: %+v, %v; want it", found, err)
	}
	useSnapshots(ctx, t, reconciles)
	checkRights(ctx, t, f, a)
	checkCommands(ctx, t, f, a)
	checkPods(ctx, t, f)
	placements, err := collects.Namespaces(ctx)
	placements = slices.DeleteFunc(placements, func(p provisioning.Placement) bool { return others[p.AgentID] })
	if err != nil || len(placements) != 1 {
		t.Fatalf("list namespaces: %d, %v; want 1", len(placements), err)
	}
	for _, since := range []time.Time{time.Now(), {}} {
		if err := collects.MarkNamespace(ctx, placements[0], since); err != nil {
			t.Errorf("mark a namespace: %v", err)
		}
	}
	if err := collects.DeleteSources(ctx); err != nil {
		t.Errorf("delete the sources of volumes: %v", err)
	}
	if err := collects.DeleteNamespace(ctx, placements[0]); err != nil {
		t.Errorf("delete a namespace: %v", err)
	}
	if err := reconciles.Delete(ctx, a); err != nil {
		t.Errorf("delete: %v", err)
	}
	clustertest.Eventually(t, func(ctx context.Context) error {
		gone, err := reconciles.CheckGone(ctx, a)
		if err == nil && !gone.All() {
			err = errors.New("the agent's objects still exist")
		}
		return err
	})
}

// provision applies all stages twice, as a redelivery does, then a next generation, and prunes the former one.
func provision(ctx context.Context, t *testing.T, clusters *gke.Clusters, a agent.Agent) {
	t.Helper()
	input := provisioning.RuntimeInput{Credentials: credential.Generate("admin")}
	next := a
	next.Generation++
	next.Rollout++
	for _, generation := range []agent.Agent{a, a, next} {
		for _, stage := range agent.StageNames() {
			if err := clusters.Apply(ctx, generation, stage, input); err != nil {
				t.Fatalf("%s of generation %d: %v", stage, generation.Generation, err)
			}
		}
	}
	clustertest.Eventually(t, func(ctx context.Context) error { return clusters.CheckReady(ctx, next) })
	if err := clusters.Prune(ctx, next); err != nil {
		t.Errorf("prune: %v", err)
	}
	var stale *provisioning.Stale
	if err := clusters.Apply(ctx, a, agent.StageRuntime, input); !errors.As(err, &stale) {
		t.Errorf("apply a former generation: error %v, want Stale", err)
	}
}

// useSnapshots takes a snapshot of an agent, restores it, makes a clone from it, and deletes everything.
func useSnapshots(ctx context.Context, t *testing.T, clusters *gke.Clusters) {
	t.Helper()
	a, clone := newAgent(), newAgent()
	provision(ctx, t, clusters, a)
	a.Generation, a.Rollout, a.Status, a.LastReadyIsolation = a.Generation+1, a.Rollout+1, agent.Running, agent.Plain
	s, err := a.RequestSnapshot(agent.SnapshotRequest{Consistency: agent.ConsistentAfterCrash}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	clustertest.Eventually(t, func(ctx context.Context) error {
		seen, err := clusters.Snapshot(ctx, a, s, false)
		a.RecordSnapshot(s.ID, seen, time.Now())
		if err == nil && !seen.Ready {
			err = fmt.Errorf("the snapshot is not ready: %+v", seen)
		}
		return err
	})
	if s, err = a.Snapshot(s.ID); err != nil {
		t.Fatal(err)
	}
	clone.Volume.Source = agent.VolumeSource{SnapshotID: s.ID, Handle: s.Handle}
	provision(ctx, t, clusters, clone)
	if err := a.Restore(s.ID, time.Now()); err != nil {
		t.Fatal(err)
	}
	a.Rollout++
	provision(ctx, t, clusters, a)
	clustertest.Eventually(t, func(ctx context.Context) error {
		noVolume, volumeErr := clusters.DeleteVolume(ctx, a, 0)
		noSnapshot, snapshotErr := clusters.DeleteSnapshot(ctx, a, s)
		if err := errors.Join(volumeErr, snapshotErr); err != nil || !noVolume || !noSnapshot {
			return fmt.Errorf("the former volume is gone: %t, the snapshot: %t: %w", noVolume, noSnapshot, err)
		}
		return nil
	})
	clustertest.Eventually(t, func(ctx context.Context) error {
		for _, a := range []agent.Agent{a, clone} {
			gone, err := provisioning.Gone{}, clusters.Delete(ctx, a)
			if err == nil {
				gone, err = clusters.CheckGone(ctx, a)
			}
			if err != nil || !gone.All() {
				return fmt.Errorf("gone %+v: %w", gone, err)
			}
		}
		return nil
	})
}

func configMap(namespace string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "probe", "namespace": namespace},
	}}
}

// awaitGuard waits until the API server enforces the admission policy, which takes a moment.
func awaitGuard(ctx context.Context, t *testing.T, worker dynamic.Interface) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := apply(ctx, worker, configMap("default"))
		if err != nil && strings.Contains(err.Error(), "agents' namespaces only") {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("the worker can write to a namespace without an agent: %v", err)
		case <-tick.C:
		}
	}
}

// TestRightsHaveNoWildcard holds that no rule has a wildcard and none reads Secrets.
func TestRightsHaveNoWildcard(t *testing.T) {
	t.Parallel()
	found := 0
	for _, o := range cellObjects(t) {
		rules, _, _ := unstructured.NestedSlice(o.Object, "rules")
		for _, rule := range rules {
			found++
			for field, values := range rule.(map[string]any) {
				if slices.Contains(values.([]any), any("*")) {
					t.Errorf("%s %s: %s is a wildcard in %v", o.GetKind(), o.GetName(), field, rule)
				}
			}
			text := fmt.Sprint(rule)
			if strings.Contains(text, "secrets") &&
				(strings.Contains(text, "get") || strings.Contains(text, "list") || strings.Contains(text, "watch")) {
				t.Errorf("%s %s reads secrets: %v", o.GetKind(), o.GetName(), rule)
			}
		}
	}
	if found == 0 {
		t.Error("no rules were found")
	}
}

// callersOf are the accounts that may call the API servers, by need. In each topology the service of all routes can
// answer GetAgentLogs.
func callersOf(topology string) map[string][]string {
	account := func(service string) string { return "prod-" + service + "@my-project.iam.gserviceaccount.com" }
	worker, routes := account("worker"), account("routes")
	switch topology {
	case "route":
		return map[string][]string{
			"cluster_apply": {reconciler}, "cluster_look": {account("check-drift"), observer},
			"cluster_collect": {collector}, "pod_logs": {logReader, routes}, "pod_quiesce": {reconciler},
			"log_keep": {account("check-drift"), observer, reconciler},
			"pod_exec": {
				account("delete-agent-files"), enterer, account("export-snapshot"), account("get-agent-files"),
				account("open-agent-terminal"),
				account("put-agent-files"),
			},
		}
	case "group":
		return map[string][]string{
			"cluster_apply": {worker}, "cluster_look": {worker}, "cluster_collect": {worker},
			"pod_logs": {account("accounts"), routes}, "pod_exec": {account("exec")}, "log_keep": {worker},
			"pod_quiesce": {worker},
		}
	default:
		return map[string][]string{
			"cluster_apply": {worker}, "cluster_look": {worker}, "cluster_collect": {worker}, "pod_logs": {routes},
			"log_keep": {worker}, "pod_quiesce": {worker},
			"pod_exec": {account("exec")},
		}
	}
}

// TestCells_GetTheObjectsThatTestsApply compares the output cell_objects, which apply-cells.sh applies, with what
// package cell renders for the tests on a real API server. It holds who may call the API servers in each topology.
func TestCells_GetTheObjectsThatTestsApply(t *testing.T) {
	t.Parallel()
	everyTopologyWith(t, map[string]cty.Value{
		"cells": cells("a1", "b1"), "agent_auth": cty.StringVal("image"), "agent_storage_class": cty.StringVal("class"),
		"agent_resolvers":  cty.TupleVal([]cty.Value{cty.StringVal("10.8.0.10/32")}),
		"agent_registries": cty.TupleVal([]cty.Value{cty.StringVal("a.example/x/"), cty.StringVal("b.example/")}),
	}, func(t *testing.T, m *module) {
		objects, err := m.Output("cell_objects")
		if err != nil {
			t.Fatal(err)
		}
		platform, agentImage := required()["image"].AsString(), required()["agent_image"].AsString()
		for _, name := range []string{"a1", "b1"} {
			values := cell.Values{
				Domain: name + ".agents.example.net", Image: platform, AgentImage: agentImage,
				Callers: callersOf(m.variable(t, "topology").AsString()),
				Project: "my-project", NudgeTopic: "prod-agent-nudges", Environment: "prod",
				EgressTopic: "prod-egress-reports", GateSecret: "google_secret_manager_secret_version.gate.name",
				WarmAgents: 1, WarmMillicores: 260, WarmMiB: 1056,
				Address: "prod-" + name, CertificateMap: "prod-agents", SSLPolicy: "prod-edge",
				AgentAuth: "image", Resolvers: []string{"10.8.0.10/32"}, StorageClass: "class",
				Registries: []string{"a.example/x/", "b.example/"}, SnapshotLocation: "us-central1",
			}
			if m.variable(t, "domain").AsString() != "" {
				values.SecurityPolicy = "prod-agents"
			}
			want, err := cell.Objects(values)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, decodeObjects(t, text(t, objects, name))); diff != "" {
				t.Errorf("objects of %s (-rendered by package cell +by Terraform):\n%s", name, diff)
			}
		}
	})
}

func decodeObjects(t *testing.T, documents string) []*unstructured.Unstructured {
	t.Helper()
	var objects []*unstructured.Unstructured
	for d := yaml.NewYAMLOrJSONDecoder(bytes.NewBufferString(documents), 4096); ; {
		o := &unstructured.Unstructured{}
		if err := d.Decode(&o.Object); errors.Is(err, io.EOF) {
			return objects
		} else if err != nil {
			t.Fatal(err)
		}
		objects = append(objects, o)
	}
}
