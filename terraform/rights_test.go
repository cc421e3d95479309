//go:build unix

package terraform_test

import (
	"cmp"
	"context"
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/terraform/cell"
)

// The accounts of the pods in the cell.
const (
	routerAccount   = "system:serviceaccount:agent-gateway:agent-router"
	notifierAccount = "system:serviceaccount:agent-gateway:agent-notifier-prod"
)

// attempt is one call of the API server.
type attempt func(ctx context.Context, c dynamic.Interface) error

// at returns the resource in a namespace, or in all of them.
func at(c dynamic.Interface, resource, namespace string) dynamic.ResourceInterface {
	groups := map[string]schema.GroupVersionResource{
		"endpointslices":  {Group: "discovery.k8s.io", Version: "v1"},
		"statefulsets":    {Group: "apps", Version: "v1"},
		"deployments":     {Group: "apps", Version: "v1"},
		"networkpolicies": {Group: "networking.k8s.io", Version: "v1"},
		"roles":           {Group: "rbac.authorization.k8s.io", Version: "v1"},
		"clusterroles":    {Group: "rbac.authorization.k8s.io", Version: "v1"},
		"validatingadmissionpolicies": {
			Group: "admissionregistration.k8s.io", Version: "v1",
		},
		"volumesnapshots":        {Group: "snapshot.storage.k8s.io", Version: "v1"},
		"volumesnapshotcontents": {Group: "snapshot.storage.k8s.io", Version: "v1"},
	}
	gvr, ok := groups[resource]
	if !ok {
		gvr.Version = "v1"
	}
	gvr.Resource = resource
	if namespace == "" {
		return c.Resource(gvr)
	}
	return c.Resource(gvr).Namespace(namespace)
}

func list(resource, namespace string) attempt {
	return func(ctx context.Context, c dynamic.Interface) error {
		_, err := at(c, resource, namespace).List(ctx, metav1.ListOptions{Limit: 1})
		return err
	}
}

func watch(resource, namespace string) attempt {
	return func(ctx context.Context, c dynamic.Interface) error {
		w, err := at(c, resource, namespace).Watch(ctx, metav1.ListOptions{})
		if err == nil {
			w.Stop()
		}
		return err
	}
}

func get(resource, namespace, name string, subresource ...string) attempt {
	return func(ctx context.Context, c dynamic.Interface) error {
		_, err := at(c, resource, namespace).Get(ctx, name, metav1.GetOptions{}, subresource...)
		return err
	}
}

// Writes are dry runs: the API server authorizes and admits them, and stores nothing.
func dryRun() []string { return []string{metav1.DryRunAll} }

func remove(resource, namespace, name string) attempt {
	return func(ctx context.Context, c dynamic.Interface) error {
		return at(c, resource, namespace).Delete(ctx, name, metav1.DeleteOptions{DryRun: dryRun()})
	}
}

func patch(resource, namespace, name string, subresource ...string) attempt {
	return func(ctx context.Context, c dynamic.Interface) error {
		_, err := at(c, resource, namespace).Patch(ctx, name, types.MergePatchType, []byte("{}"),
			metav1.PatchOptions{DryRun: dryRun()}, subresource...)
		return err
	}
}

func create(kind schema.GroupVersionKind, resource, namespace, name string, subresource ...string) attempt {
	return func(ctx context.Context, c dynamic.Interface) error {
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(kind)
		o.SetName(name)
		_, err := at(c, resource, namespace).Create(ctx, o, metav1.CreateOptions{DryRun: dryRun()}, subresource...)
		return err
	}
}

// createNamespace creates a namespace as isolated as agents' are.
func createNamespace(name string) attempt {
	return func(ctx context.Context, c dynamic.Interface) error {
		id, _ := agent.IDFromNamespace(name)
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Namespace"})
		o.SetName(name)
		o.SetLabels(map[string]string{
			"agents.example/agent-id": id, "pod-security.kubernetes.io/enforce": "restricted",
			"pod-security.kubernetes.io/enforce-version": "v1.35",
		})
		_, err := at(c, "namespaces", "").Create(ctx, o, metav1.CreateOptions{DryRun: dryRun()})
		return err
	}
}

// attempts are calls by name. Each caller is held to all of them: those that it may make, and no others.
func attempts(a agent.Agent) map[string]attempt {
	own, another, gateway := a.Namespace(), newAgent().Namespace(), cell.GatewayNamespace
	const accounts, canary = "serviceaccounts", cell.CanaryNamespace
	core := schema.GroupVersion{Version: "v1"}.WithKind
	role := schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "Role"}
	token := schema.GroupVersionKind{Group: "authentication.k8s.io", Version: "v1", Kind: "TokenRequest"}
	return map[string]attempt{
		"list endpoint slices":                        list("endpointslices", ""),
		"watch endpoint slices":                       watch("endpointslices", ""),
		"write endpoint slices":                       patch("endpointslices", own, "agent"),
		"list pods":                                   list("pods", ""),
		"watch pods":                                  watch("pods", ""),
		"read an agent's pod":                         get("pods", own, "agent-0"),
		"read a pod of the cluster":                   get("pods", "kube-system", "probe"),
		"change an agent's pod":                       patch("pods", own, "agent-0"),
		"create a pod":                                create(core("Pod"), "pods", own, "probe"),
		"delete an agent's pod":                       remove("pods", own, "agent-0"),
		"run a command in an agent's pod":             get("pods", own, "agent-0", "exec"),
		"read an agent's log":                         get("pods", own, "agent-0", "log"),
		"read a log of the cluster":                   get("pods", "kube-system", "probe", "log"),
		"read the router's log":                       get("pods", gateway, "agent-router-0", "log"),
		"list namespaces":                             list("namespaces", ""),
		"watch namespaces":                            watch("namespaces", ""),
		"change an agent's namespace":                 patch("namespaces", "", own),
		"delete an agent's namespace":                 remove("namespaces", "", own),
		"create an agent's namespace":                 createNamespace(another),
		"change a namespace of the cluster":           patch("namespaces", "", "kube-system"),
		"delete a namespace of the cluster":           remove("namespaces", "", "default"),
		"delete the router's namespace":               remove("namespaces", "", gateway),
		"delete the canary's namespace":               remove("namespaces", "", canary),
		"add to the canary's namespace":               create(core("ConfigMap"), "configmaps", canary, "agent-env-0"),
		"list volumes":                                list("persistentvolumes", ""),
		"watch volumes":                               watch("persistentvolumes", ""),
		"delete a volume":                             remove("persistentvolumes", "", "probe"),
		"list an agent's secrets":                     list("secrets", own),
		"read an agent's secret":                      get("secrets", own, "probe"),
		"list the cluster's secrets":                  list("secrets", "kube-system"),
		"watch secrets":                               watch("secrets", ""),
		"change an agent's secret":                    patch("secrets", own, "probe"),
		"read an agent's secret by an empty patch":    patch("secrets", own, "probe"),
		"read the cluster's secret by an empty patch": patch("secrets", "kube-system", "probe"),
		"list objects":                                list("networkpolicies", ""),
		"change an agent's network policy":            patch("networkpolicies", own, "agent"),
		"delete an agent's network policy":            remove("networkpolicies", own, "agent"),
		"change the router's network policy":          patch("networkpolicies", gateway, "agent-router"),
		"change an agent's workload":                  patch("statefulsets", own, "agent"),
		"scale an agent's workload":                   patch("statefulsets", own, "agent", "scale"),
		"scale a workload of the cluster":             patch("statefulsets", "kube-system", "probe", "scale"),
		"delete an agent's workload":                  remove("statefulsets", own, "agent"),
		"delete an agent's volume claim":              remove("persistentvolumeclaims", own, "data"),
		"take a snapshot": createObject("volumesnapshots", own, "apiVersion: snapshot.storage.k8s.io/v1\n"+
			"kind: VolumeSnapshot\nmetadata: {name: snapshot-bbbbbbbb}\nspec: {volumeSnapshotClassName: agents, "+
			"source: {persistentVolumeClaimName: data}}"),
		"list an agent's snapshots":         list("volumesnapshots", own),
		"read an agent's snapshot":          get("volumesnapshots", own, "snapshot-aaaaaaaa"),
		"delete an agent's snapshot":        remove("volumesnapshots", own, "snapshot-aaaaaaaa"),
		"delete a snapshot of another name": remove("volumesnapshots", own, "probe"),
		"list the contents of snapshots":    list("volumesnapshotcontents", ""),
		"watch the contents of snapshots":   watch("volumesnapshotcontents", ""),
		"read the content of a snapshot":    get("volumesnapshotcontents", "", "probe"),
		"label the content of a snapshot":   edit("volumesnapshotcontents", "", "probe", addLabel),
		"note something on a content":       edit("volumesnapshotcontents", "", "probe", addAnnotation),
		"delete the data of a snapshot":     remove("volumesnapshotcontents", "", "probe"),
		"delete the content of a source":    remove("volumesnapshotcontents", "", own+"-source-0"),
		"change the router":                 patch("deployments", gateway, "agent-router"),
		"write to the router's namespace":   patch("configmaps", gateway, "probe"),
		"read an agent's kept log":          get("configmaps", own, "agent-log-1"),
		"read an agent's variables":         get("configmaps", own, "agent-env"),
		"keep a log":                        create(core("ConfigMap"), "configmaps", own, "agent-log-5"),
		"change a kept log":                 patch("configmaps", own, "agent-log-1"),
		"delete a kept log":                 remove("configmaps", own, "agent-log-1"),
		"create an agent's variables":       create(core("ConfigMap"), "configmaps", own, "agent-env-0"),
		"create settings of the cluster":    create(core("ConfigMap"), "configmaps", "kube-system", "x"),
		"list an agent's settings":          list("configmaps", own),
		"read the cluster's settings":       get("configmaps", "kube-system", "probe"),
		"give itself rights":                patch("clusterroles", "", "agent-logs"),
		"give itself rights in a namespace": create(role, "roles", own, "probe"),
		"lift its limits":                   remove("validatingadmissionpolicies", "", "agent-control-plane"),
		"make a token of the router":        create(token, accounts, gateway, "agent-router", "token"),
		"read nodes":                        list("nodes", ""),
	}
}

// Changes of the metadata of an object.
const (
	addLabel      = `[{"op":"add","path":"/metadata/labels","value":{"a":"b"}}]`
	addAnnotation = `[{"op":"add","path":"/metadata/annotations","value":{"a":"b"}}]`
)

// granted are the attempts that each caller may make.
func granted() map[string][]string {
	return map[string][]string{
		routerAccount: {"list endpoint slices", "watch endpoint slices"},
		notifierAccount: {
			"list pods", "watch pods", "read an agent's pod", "read a pod of the cluster", "list namespaces",
			"watch namespaces", "list volumes", "watch volumes",
		},
		reconciler: {
			"read an agent's pod", "list volumes", "change an agent's namespace",
			"delete an agent's namespace", "create an agent's namespace", "change an agent's secret",
			"read an agent's secret by an empty patch",
			"change an agent's network policy", "change an agent's workload",
			"read an agent's log", "keep a log", "delete a kept log", "create an agent's variables",
			"list an agent's settings", "delete an agent's volume claim", "take a snapshot",
			"list an agent's snapshots", "read an agent's snapshot", "delete an agent's snapshot",
			"list the contents of snapshots",
			"read the content of a snapshot", "label the content of a snapshot", "delete the content of a source",
		},
		observer: {
			"list pods", "read an agent's pod", "list namespaces", "list objects", "read an agent's log", "keep a log",
			"delete a kept log", "list an agent's settings",
		},
		collector: {
			"list namespaces", "change an agent's namespace", "delete an agent's namespace",
			"scale an agent's workload", "list the contents of snapshots", "label the content of a snapshot",
			"delete the content of a source",
		},
		logReader: {"read an agent's pod", "read an agent's log", "read an agent's kept log"},
		enterer:   {}, // checkCommands names the container
		stranger:  {},
	}
}

// placeProbes creates objects that no caller may touch. An attempt on an object that does not exist proves nothing: the
// API server answers that before it admits the call.
func placeProbes(ctx context.Context, t *testing.T, f cellFixture) {
	t.Helper()
	for _, namespace := range []string{"kube-system", cell.GatewayNamespace} {
		labels := map[string]any{"app": "probe"}
		for kind, content := range map[string]map[string]any{
			"v1 ConfigMap": {}, "v1 Secret": {},
			"apps/v1 StatefulSet": {"spec": map[string]any{
				"replicas": int64(0), "selector": map[string]any{"matchLabels": labels},
				"template": map[string]any{
					"metadata": map[string]any{"labels": labels},
					"spec":     map[string]any{"containers": []any{map[string]any{"name": "probe", "image": "probe"}}},
				},
			}},
		} {
			apiVersion, name, _ := strings.Cut(kind, " ")
			o := &unstructured.Unstructured{Object: content}
			o.SetAPIVersion(apiVersion)
			o.SetKind(name)
			o.SetName("probe")
			o.SetNamespace(namespace)
			if err := apply(ctx, f.admin, o); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// command is an attempt to run a command in a pod.
type command struct {
	caller, namespace, pod, container string
	// command is what runs; empty for ls.
	command string
	want    bool
}

// quiesces is the attempt of the function that makes volumes quiet.
func quiesces(a agent.Agent, query string, want bool) command {
	return command{
		caller: reconciler, namespace: a.Namespace(), pod: "agent-0", container: "agent", command: query, want: want,
	}
}

// checkCommands holds where commands may run: in the container with the agent's image, and not in the front next to it.
// Only the functions that enter containers may.
func checkCommands(ctx context.Context, t *testing.T, f cellFixture, a agent.Agent) {
	t.Helper()
	for _, c := range []command{
		{caller: enterer, namespace: a.Namespace(), pod: "agent-0", container: "agent", want: true},
		{caller: enterer, namespace: a.Namespace(), pod: "agent-0", container: "front"},
		{caller: enterer, namespace: a.Namespace(), pod: "agent-0"},
		{caller: enterer, namespace: a.Namespace(), pod: "other-0", container: "agent"},
		{caller: enterer, namespace: "kube-system", pod: "agent-0", container: "agent"},
		{caller: logReader, namespace: a.Namespace(), pod: "agent-0", container: "agent"},
		{caller: reconciler, namespace: a.Namespace(), pod: "agent-0", container: "agent"},
		quiesces(a, "command=/quiesce&command=begin", true),
		quiesces(a, "command=/opt/app/bin/quiesce&command=end", true),
		quiesces(a, "command=/quiesce&command=other", false),
		quiesces(a, "command=/quiesce", false),
		quiesces(a, "command=/quiesce&command=begin&command=end", false),
		quiesces(a, "command=quiesce&command=begin", false),
		quiesces(a, "command=/bin/sh&command=begin", false),
		quiesces(a, "command=/bin/unquiesce&command=begin", false),
		quiesces(a, "command=/bin/../quiesce%0A&command=begin", false),
		quiesces(a, "command=/quiesce&command=begin&stdin=true", false),
		quiesces(a, "command=/quiesce&command=begin&tty=true", false),
		{
			caller: reconciler, namespace: a.Namespace(), pod: "agent-0", container: "front",
			command: "command=/quiesce&command=begin",
		},
	} {
		config, err := clientcmd.BuildConfigFromFlags("", f.kubeconfigOf(t, c.caller))
		if err != nil {
			t.Fatal(err)
		}
		for method := range strings.FieldsSeq("GET POST") {
			status := requestExec(ctx, t, config, method, "/api/v1/namespaces/"+c.namespace+"/pods/"+c.pod+
				"/exec?"+cmp.Or(c.command, "command=ls")+"&stdout=true&container="+c.container)
			if (status != http.StatusForbidden) != c.want {
				t.Errorf("%s: %s a command %q in %s/%s, container %q: status %d, want it allowed: %t", c.caller, method,
					c.command, c.namespace, c.pod, c.container, status, c.want)
			}
		}
	}
}

// requestExec asks for a command without an upgrade, so that an allowed one fails later, with another status than 403.
func requestExec(ctx context.Context, t *testing.T, config *rest.Config, method, path string) int {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	defer utilnet.CloseIdleConnectionsFor(client.Transport)
	req, err := http.NewRequestWithContext(ctx, method, config.Host+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	return res.StatusCode
}

// placeSnapshots creates a snapshot of an agent, the content of a source, and objects of other names.
func placeSnapshots(ctx context.Context, t *testing.T, f cellFixture, namespace string) {
	t.Helper()
	place := func(kind, in, name string, spec map[string]any) {
		o := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
		o.SetAPIVersion("snapshot.storage.k8s.io/v1")
		o.SetKind(kind)
		o.SetName(name)
		o.SetNamespace(in)
		if err := apply(ctx, f.admin, o); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"snapshot-aaaaaaaa", "probe"} {
		source := map[string]any{"persistentVolumeClaimName": "none"}
		place("VolumeSnapshot", namespace, name, map[string]any{"source": source})
	}
	for _, name := range []string{namespace + "-source-0", "probe"} {
		place("VolumeSnapshotContent", "", name, map[string]any{
			"deletionPolicy": "Retain", "driver": "none", "source": map[string]any{"snapshotHandle": "h"},
			"volumeSnapshotRef": map[string]any{"name": "source-0", "namespace": "none"},
		})
	}
}

// checkRights makes every attempt as every caller.
func checkRights(ctx context.Context, t *testing.T, f cellFixture, a agent.Agent) {
	t.Helper()
	placeProbes(ctx, t, f)
	log := &unstructured.Unstructured{}
	log.SetAPIVersion("v1")
	log.SetKind("ConfigMap")
	log.SetNamespace(a.Namespace())
	log.SetName("agent-log-1")
	if err := apply(ctx, f.admin, log); err != nil {
		t.Fatal(err)
	}
	placeSnapshots(ctx, t, f, a.Namespace())
	all := attempts(a)
	for caller, allowed := range granted() {
		may := map[string]bool{}
		for _, name := range allowed {
			if may[name] = true; all[name] == nil {
				t.Errorf("%q is no attempt", name)
			}
		}
		c := client(t, f.kubeconfigOf(t, caller))
		for name, try := range all {
			err := try(ctx, c)
			if refused := apierrors.IsForbidden(err); refused == may[name] {
				t.Errorf("%s: %s: got %v, want it allowed: %t", caller, name, err, may[name])
			}
		}
	}
}
