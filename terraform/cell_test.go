//go:build unix

package terraform_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"agents.example/controlplane/emulators/cluster"
	"agents.example/controlplane/emulators/clustertest"
	"agents.example/controlplane/infra/gke"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/credential"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/provisioning"
)

const caller = "prod-reconcile-agent@my-project.iam.gserviceaccount.com"

// cellObjects renders the files of cell/ as Terraform does, without kinds that the local cluster does not serve.
func cellObjects(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	// in the order of cell.tf
	files := []string{
		"cell/gateway.yaml", "cell/access.yaml", "cell/guard.yaml", "cell/fence.yaml", "cell/metrics.yaml",
		"cell/dns.yaml",
	}
	if all, err := filepath.Glob("cell/*.yaml"); err != nil || len(all) != len(files) {
		t.Fatalf("files in cell/ = %v, want %v (%v): update this test", all, files, err)
	}
	var objects []*unstructured.Unstructured
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		template, diags := hclsyntax.ParseTemplate(b, name, hcl.InitialPos)
		if diags.HasErrors() {
			t.Fatal(diags)
		}
		text, diags := template.Value(&hcl.EvalContext{
			Functions: functionsOfTerraform(),
			Variables: map[string]cty.Value{
				"gateway": cty.ObjectVal(map[string]cty.Value{
					"namespace": cty.StringVal("agent-gateway"),
					"name":      cty.StringVal("agents"),
				}),
				"callers": cty.ListVal([]cty.Value{cty.StringVal(caller)}),
				"domain":  cty.StringVal("agents.example.com"),
				"address": cty.StringVal("prod-cell"), "certificate_map": cty.StringVal("prod-agents"),
				"cell":    cty.StringVal("cell"),
				"project": cty.StringVal("my-project"), "image": cty.StringVal("image"),
			},
		})
		if diags.HasErrors() {
			t.Fatal(diags)
		}
		for d := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text.AsString()), 4096); ; {
			o := &unstructured.Unstructured{}
			if err := d.Decode(&o.Object); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if kind := o.GetKind(); kind != "ClusterPodMonitoring" && kind != "Gateway" {
				objects = append(objects, o)
			}
		}
	}
	return objects
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

// startCell starts a real API server with the objects of every cell. It returns clients of an administrator and of the
// worker, and the worker's kubeconfig.
func startCell(t *testing.T) (admin, worker dynamic.Interface, kubeconfig string) {
	t.Helper()
	c := clustertest.Start(t, cluster.Options{})
	kubeconfig = filepath.Join(t.TempDir(), "worker.kubeconfig")
	config, err := clientcmd.LoadFromFile(c.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	admin = client(t, c.Kubeconfig)
	for _, user := range config.AuthInfos {
		user.Impersonate = caller // GKE knows the worker by its Google identity
	}
	if err := clientcmd.WriteToFile(*config, kubeconfig); err != nil {
		t.Fatal(err)
	}
	for _, o := range cellObjects(t) {
		if err := apply(t.Context(), admin, o); err != nil {
			t.Fatalf("%s %s: %v", o.GetKind(), o.GetName(), err)
		}
	}
	return admin, client(t, kubeconfig), kubeconfig
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

// TestWorker_HasExactlyTheRightsItNeeds runs the worker's calls against a real API server with the rules that Terraform
// applies to every cell, then tries calls that must be refused.
func TestWorker_HasExactlyTheRightsItNeeds(t *testing.T) {
	t.Parallel()
	admin, worker, kubeconfig := startCell(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	awaitGuard(ctx, t, worker)
	clusters, err := gke.Open(ctx, gke.Settings{
		Cells: []gke.Cell{{Name: "cell", Kubeconfig: kubeconfig}}, Image: "image@sha256:" + strings.Repeat("0", 64),
		Addresses: agent.Addresses{Domain: "agents.example.com", Scheme: "https"},
		Gateway:   gke.Gateway{Namespace: "agent-gateway", Name: "agents"},
		Database:  "test",
	})
	if err != nil {
		t.Fatal(err)
	}
	defer clusters.Close() //nolint:errcheck // closing connections
	a := agent.Agent{
		ID: uuid.NewString(), OrganizationID: "org", Name: "one", Plan: plan.Hobby, Cell: "cell", Region: "us-central1",
		Status: agent.Provisioning, Stages: agent.NewStages(), Env: []agent.EnvVar{{Key: "A", Value: "1"}}, Slug: "one",
	}
	input := provisioning.RuntimeInput{Credentials: credential.Generate("admin")}
	for _, stage := range agent.StageNames() {
		for range 2 { // a redelivery applies again
			if err := clusters.Apply(ctx, a, stage, input); err != nil {
				t.Fatalf("%s: %v", stage, err)
			}
		}
	}
	clustertest.Eventually(t, func(ctx context.Context) error { return clusters.CheckReady(ctx, a) })
	checkGenerations(ctx, t, clusters, a, input)
	if _, err := clusters.Objects(ctx, "cell"); err != nil {
		t.Errorf("list objects: %v", err)
	}
	placements, err := clusters.Namespaces(ctx)
	if err != nil || len(placements) != 1 {
		t.Fatalf("list namespaces: %d, %v; want 1", len(placements), err)
	}
	for _, since := range []time.Time{time.Now(), {}} {
		if err := clusters.MarkNamespace(ctx, placements[0], since); err != nil {
			t.Errorf("mark a namespace: %v", err)
		}
	}
	checkRefusals(ctx, t, admin, worker, a)
	if err := clusters.Delete(ctx, a); err != nil {
		t.Errorf("delete: %v", err)
	}
	clustertest.Eventually(t, func(ctx context.Context) error {
		gone, err := clusters.CheckGone(ctx, a)
		if err == nil && !gone {
			err = errors.New("the agent's objects still exist")
		}
		return err
	})
}

// checkGenerations prunes the environment of a former generation, and applies that generation again.
func checkGenerations(ctx context.Context, t *testing.T, clusters *gke.Clusters, a agent.Agent,
	input provisioning.RuntimeInput,
) {
	t.Helper()
	next := a
	next.Generation++
	next.Rollout++
	for _, stage := range agent.StageNames() {
		if err := clusters.Apply(ctx, next, stage, input); err != nil {
			t.Fatalf("%s of the next generation: %v", stage, err)
		}
	}
	if err := clusters.Prune(ctx, next); err != nil {
		t.Errorf("prune: %v", err)
	}
	var stale *provisioning.Stale
	if err := clusters.Apply(ctx, a, agent.StageRuntime, input); !errors.As(err, &stale) {
		t.Errorf("apply a former generation: error %v, want Stale", err)
	}
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

// checkRefusals tries calls that the worker must not be allowed to make.
func checkRefusals(ctx context.Context, t *testing.T, admin, worker dynamic.Interface, a agent.Agent) {
	t.Helper()
	resource := func(group, version, name string) schema.GroupVersionResource {
		return schema.GroupVersionResource{Group: group, Version: version, Resource: name}
	}
	secrets, namespaces := resource("", "v1", "secrets"), resource("", "v1", "namespaces")
	if _, err := admin.Resource(secrets).Namespace(a.Namespace()).List(ctx, metav1.ListOptions{}); err != nil {
		t.Fatalf("the administrator cannot list secrets: %v", err)
	}
	namespace := func(name string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Namespace",
			"metadata": map[string]any{
				"name": name, "labels": map[string]any{"app.kubernetes.io/managed-by": "agent-control-plane"},
			},
		}}
	}
	for what, try := range map[string]func() error{
		"read an agent's secrets": func() error {
			_, err := worker.Resource(secrets).Namespace(a.Namespace()).List(ctx, metav1.ListOptions{})
			return err
		},
		"read the cluster's secrets": func() error {
			_, err := worker.Resource(secrets).Namespace("kube-system").List(ctx, metav1.ListOptions{})
			return err
		},
		"read a secret by changing nothing": func() error {
			return apply(ctx, worker, &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "v1", "kind": "Secret",
				"metadata": map[string]any{"name": "any", "namespace": "kube-system"},
			}})
		},
		"take over a namespace of the cluster": func() error { return apply(ctx, worker, namespace("kube-system")) },
		"take over the gateway's namespace":    func() error { return apply(ctx, worker, namespace("agent-gateway")) },
		"write to the gateway's namespace":     func() error { return apply(ctx, worker, configMap("agent-gateway")) },
		"delete a namespace of the cluster": func() error {
			return worker.Resource(namespaces).Delete(ctx, "agent-gateway", metav1.DeleteOptions{})
		},
		"give itself rights": func() error {
			return apply(ctx, worker, &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
				"metadata": map[string]any{"name": "mine"},
				"roleRef": map[string]any{
					"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
					"name": "cluster-admin",
				},
				"subjects": []any{map[string]any{
					"apiGroup": "rbac.authorization.k8s.io", "kind": "User",
					"name": caller,
				}},
			}})
		},
		"lift its limits": func() error {
			policies := resource("admissionregistration.k8s.io", "v1", "validatingadmissionpolicies")
			return worker.Resource(policies).Delete(ctx, "agent-control-plane", metav1.DeleteOptions{})
		},
	} {
		if err := try(); !apierrors.IsForbidden(err) {
			t.Errorf("the worker can %s: got %v, want Forbidden", what, err)
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
