//go:build unix

package gke

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"agents.example/controlplane/emulators/clustertest"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/provisioning"
)

// differences lists what a new snapshot of the cluster finds, as "object: problem".
func (w *world) differences(t *testing.T, a agent.Agent) []string {
	t.Helper()
	s, err := w.Objects(t.Context(), a.Cell)
	must(t, err)
	found := []string{}
	for _, d := range s.Differences(a) {
		found = append(found, fmt.Sprintf("%s: %s", strings.TrimSuffix(d.Object, " in "+a.Namespace()), d.Problem))
	}
	slices.Sort(found)
	return found
}

func (w *world) wantDifferences(t *testing.T, when string, a agent.Agent, want ...string) {
	t.Helper()
	if diff := cmp.Diff(append([]string{}, want...), w.differences(t, a)); diff != "" {
		t.Errorf("differences %s (-want +got):\n%s", when, diff)
	}
}

// edit patches an object as another program.
func (w *world) edit(t *testing.T, of target, kind types.PatchType, body string) {
	t.Helper()
	c, err := w.client("local")
	must(t, err)
	if _, err := c.objects.patch(t.Context(), of, patch{kind: kind, body: []byte(body)},
		metav1.PatchOptions{FieldManager: "another"}); err != nil {
		t.Fatalf("edit %s: %v", of, err)
	}
}

// runningAgent applies all objects of an agent, and waits for its pod.
func (w *world) runningAgent(t *testing.T, secrets ...string) agent.Agent {
	t.Helper()
	a := w.newAgent(t)
	a.Status, a.Generation = agent.Running, 3
	for _, key := range secrets {
		a.Env = append(a.Env, agent.EnvVar{Key: key, SecretVersion: 1})
	}
	w.apply(t, a, testRuntimeInput(secrets...))
	w.awaitReady(t, a)
	a.LastReadyIsolation = agent.Plain
	return a
}

func TestDifferences_OfAConvergedAgentAreNone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, secrets := range map[string][]string{"plain": nil, "with secrets": {"MODEL_API_KEY"}} {
		a := w.runningAgent(t, secrets...)
		w.wantDifferences(t, name, a)
		a.Status = agent.Stopped
		a.Generation++
		w.apply(t, a, provisioning.RuntimeInput{}, agent.StageRuntime, agent.StageRoute)
		w.wantDifferences(t, name+", stopped", a)
	}
	w.wantDifferences(t, "of a stopped agent without objects", agent.Agent{
		ID: "none", Plan: testAgent().Plan, Cell: "local", Status: agent.Stopped,
	})
}

// Each object is deleted or changed, found, and applied again.
func TestDifferences_FindEveryObjectAndApplyRestoresIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.runningAgent(t)
	admin, err := w.client("local")
	must(t, err)
	for _, o := range w.objects(t, a, testRuntimeInput(), agent.StageNames()[1:]) {
		of := targetOf(o)
		if of.gvk.Kind == "PersistentVolumeClaim" {
			continue
		}
		if err := admin.objects.delete(t.Context(), of, metav1.DeleteOptions{}); err != nil {
			t.Fatalf("delete %s: %v", of, err)
		}
		want := strings.TrimSuffix(of.String(), " in "+a.Namespace()) + ": missing"
		if of.gvk.Kind == "Secret" {
			want = strings.Replace(want, "Secret", "ConfigMap", 1) // collected with its owner
		}
		clustertest.Eventually(t, func(context.Context) error {
			if got := w.differences(t, a); !slices.Equal(got, []string{want}) {
				return fmt.Errorf("after the deletion of %s: differences %v, want %s", of, got, want)
			}
			return nil
		})
		w.apply(t, a, testRuntimeInput())
		w.wantDifferences(t, "after applying "+of.String()+" again", a)
	}
	w.awaitReady(t, a)
}

func TestDifferences_FindForeignChangesAndApplyRevertsThem(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.runningAgent(t)
	in := func(group, version, kind, name string) target {
		of := core(kind, a.Namespace(), name)
		of.gvk.Group, of.gvk.Version = group, version
		return of
	}
	allow := in("networking.k8s.io", "v1", "NetworkPolicy", agentName)
	set := in("apps", "v1", "StatefulSet", agentName)
	for name, c := range map[string]struct {
		of    target
		kind  types.PatchType
		patch string
	}{
		"an egress rule": {of: allow, kind: types.JSONPatchType, patch: `[{"op":"add","path":"/spec/egress/-","value":{}}]`},
		"no ingress":     {of: allow, kind: types.JSONPatchType, patch: `[{"op":"remove","path":"/spec/ingress"}]`},
		"a quota": {
			of: in("", "v1", "ResourceQuota", agentName), kind: types.MergePatchType,
			patch: `{"spec":{"hard":{"pods":"50"}}}`,
		},
		"no quota of pods": {
			of: in("", "v1", "ResourceQuota", agentName), kind: types.MergePatchType,
			patch: `{"spec":{"hard":{"pods":null}}}`,
		},
		"a token": {
			of: set, kind: types.MergePatchType,
			patch: `{"spec":{"template":{"spec":{"automountServiceAccountToken":true}}}}`,
		},
		"a port of the service": {
			of: in("", "v1", "Service", agentName), kind: types.JSONPatchType,
			patch: `[{"op":"replace","path":"/spec/ports/0/targetPort","value":1}]`,
		},
		"no pod security": {
			of: core("Namespace", "", a.Namespace()), kind: types.MergePatchType,
			patch: `{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"privileged"}}}`,
		},
		"an image": {
			of: set, kind: types.StrategicMergePatchType,
			patch: `{"spec":{"template":{"spec":{"containers":[{"name":"agent","image":"another"}]}}}}`,
		},
		"the front's image": {
			of: set, kind: types.StrategicMergePatchType,
			patch: `{"spec":{"template":{"spec":{"initContainers":[{"name":"front","image":"another"}]}}}}`,
		},
		"the front's hostname": {
			of: set, kind: types.StrategicMergePatchType,
			patch: `{"spec":{"template":{"spec":{"initContainers":[{"name":"front","env":[{"name":"AGENT_HOSTNAME",` +
				`"value":"other.example.com"}]}]}}}}`,
		},
		"replicas": {of: set, kind: types.MergePatchType, patch: `{"spec":{"replicas":0}}`},
	} {
		w.edit(t, c.of, c.kind, c.patch)
		want := strings.TrimSuffix(c.of.String(), " in "+a.Namespace()) + ": changed"
		w.wantDifferences(t, "after a change of "+name, a, want)
		w.apply(t, a, testRuntimeInput())
		w.wantDifferences(t, "after "+name+" was applied again", a)
	}
	// What others add is not ours to take away: applying would leave it.
	w.edit(t, set, types.MergePatchType, `{"metadata":{"annotations":{"note":"mine"}}}`)
	w.wantDifferences(t, "after a foreign annotation", a)
}

func TestDifferences_FindAStoppedAgentThatRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.runningAgent(t)
	stopped := a
	stopped.Status = agent.Stopped
	stopped.Generation++
	const service, workload = "Service agent: changed", "StatefulSet agent: changed"
	w.wantDifferences(t, "before the scale-down", stopped, service, workload)
	w.apply(t, stopped, provisioning.RuntimeInput{}, agent.StageRuntime)
	w.wantDifferences(t, "while the route promises a pod", stopped, service)
	w.apply(t, stopped, provisioning.RuntimeInput{}, agent.StageRoute)
	w.wantDifferences(t, "after the scale-down", stopped)
	set := core("StatefulSet", a.Namespace(), agentName)
	set.gvk.Group = "apps"
	w.edit(t, set, types.MergePatchType, `{"spec":{"replicas":1}}`)
	w.wantDifferences(t, "after a scale-up", stopped, workload)
	w.apply(t, stopped, provisioning.RuntimeInput{}, agent.StageRuntime)
	w.wantDifferences(t, "after the second scale-down", stopped)
}

// TestDifferences_FindNoneInTheRouteOfAnAgentThatFallsAsleep: its Service stays as it is, and is watched as before.
func TestDifferences_FindNoneInTheRouteOfAnAgentThatFallsAsleep(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.runningAgent(t)
	a.Generation++
	a.Sleep = agent.SleepPolicy{AfterSeconds: 300, WakeOn: []agent.Waker{agent.RequestWakes}}
	a.PublicPaths = []string{"/hooks/"}
	w.apply(t, a, testRuntimeInput())
	asleep := a
	asleep.Status, asleep.StatusReason = agent.Paused, agent.ReasonIdle
	asleep.Generation++
	const service, workload = "Service agent: changed", "StatefulSet agent: changed"
	w.wantDifferences(t, "before the scale-down", asleep, workload)
	w.apply(t, asleep, provisioning.RuntimeInput{}, agent.StageRuntime)
	w.wantDifferences(t, "asleep", asleep)
	paused := asleep
	paused.StatusReason = ""
	w.wantDifferences(t, "paused by its owner", paused, service)
	for name := range dataplane.PublicPathLabels(a.PublicPaths) {
		w.edit(t, core("Service", a.Namespace(), agentName), types.MergePatchType,
			fmt.Sprintf(`{"metadata":{"labels":{%q:"00000000"}}}`, name))
		w.wantDifferences(t, "after a change of its public paths", asleep, service)
	}
}

func TestDifferences_FindOtherGenerations(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.runningAgent(t)
	next := changed(a, "debug")
	w.apply(t, next, testRuntimeInput(), agent.StageSecrets, agent.StageRuntime)
	w.wantDifferences(t, "before Prune", next, "ConfigMap "+environmentName(configHash(a))+": leftover")
	w.wantDifferences(t, "of a record that is older", a, "StatefulSet agent: changed")
	w.prune(t, next)
	w.wantDifferences(t, "after Prune", next)
}

// A release with another image must not restart all agents. One with other policies must reach them.
func TestDifferences_LeaveThePodTemplateOfAnotherRelease(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.runningAgent(t)
	later := newWorld(t, func(s *Settings) { s.Images.Runtime.HealthPath = "/healthz" })
	later.wantDifferences(t, "of another template", a)
	later = newWorld(t, func(s *Settings) { s.Resolvers = []string{"10.8.0.10/32"} })
	later.wantDifferences(t, "of another policy", a, "NetworkPolicy agent: changed")
	later.apply(t, a, testRuntimeInput())
	later.wantDifferences(t, "after applying again", a)
}

// An agent's plan decides its ports and its backups, so the objects of one plan differ from those of another.
func TestDifferences_FindThePoliciesOfAnotherPlan(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := onPlan(w.runningAgent(t), plan.Business)
	w.apply(t, a, testRuntimeInput())
	w.apply(t, onPlan(a, plan.Hobby), testRuntimeInput(), agent.StageNamespace, agent.StagePolicy)
	w.wantDifferences(t, "with the policies of hobby", a,
		"Namespace "+a.Namespace()+": changed", "NetworkPolicy agent: changed", "ResourceQuota agent: changed")
	w.apply(t, a, testRuntimeInput())
	w.wantDifferences(t, "after applying again", a)
	w.apply(t, onPlan(a, plan.Hobby), testRuntimeInput(), agent.StageNamespace)
	namespace, err := w.admin.Namespaces().Get(t.Context(), a.Namespace(), metav1.GetOptions{})
	must(t, err)
	if backup, ok := namespace.Labels["agents.example/backup"]; ok {
		t.Errorf("the namespace of an agent on hobby keeps the backup label %q", backup)
	}
}

func onPlan(a agent.Agent, id plan.ID) agent.Agent {
	a.Plan = id
	return a
}

// The pinned release of Pod Security is the one that TestNamespace_PoliciesAreEnforced runs against.
func TestPodSecurityVersion_IsTheTestedOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	text, err := w.admin.REST().Get().AbsPath("/version").DoRaw(t.Context())
	var version struct{ Major, Minor string }
	if err == nil {
		err = json.Unmarshal(text, &version)
	}
	must(t, err)
	if tested := "v" + version.Major + "." + version.Minor; podSecurityVersion != tested {
		t.Errorf("namespaces pin Pod Security to %s, but the tests run against %s", podSecurityVersion, tested)
	}
}

// Objects of earlier releases have no annotations. They stay, but what is missing is found.
func TestDifferences_LeaveObjectsOfEarlierReleases(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.runningAgent(t)
	admin, err := w.client("local")
	must(t, err)
	objects := w.objects(t, a, testRuntimeInput(), agent.StageNames())
	for _, o := range objects {
		w.edit(t, targetOf(o), types.MergePatchType,
			fmt.Sprintf(`{"metadata":{"annotations":{%q:null,%q:null}}}`, annotationContent, annotationGeneration))
	}
	environment := core("Secret", a.Namespace(), environmentName(configHash(a)))
	must(t, admin.objects.delete(t.Context(), environment, metav1.DeleteOptions{}))
	awaitAbsent(t, w.admin.ConfigMaps(a.Namespace()).Get, environmentName(configHash(a)))
	w.wantDifferences(t, "of an earlier release", a)
	quota := core("ResourceQuota", a.Namespace(), agentName)
	must(t, admin.objects.delete(t.Context(), quota, metav1.DeleteOptions{}))
	w.wantDifferences(t, "of an earlier release without a quota", a, "ResourceQuota agent: missing")
}

func TestDifferences_LostDataIsNoMissingObject(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.runningAgent(t)
	claims := w.admin.PersistentVolumeClaims(a.Namespace())
	must(t, claims.Delete(t.Context(), volumeName, metav1.DeleteOptions{}))
	w.wantDifferences(t, "without the claim", a, "PersistentVolumeClaim data: lost")
	unknown := a
	unknown.ID = "7c0f6f0e-3f0b-4f36-9a53-7a4a4a3f8a11"
	if got := w.differences(t, unknown); !slices.Contains(got, "Namespace "+unknown.Namespace()+": lost") {
		t.Errorf("differences without a namespace = %v, want the namespace lost", got)
	}
}

// The number of requests does not depend on the number of agents, and a list that breaks is an error.
func TestObjects_ListsEachKindOnceWhateverTheNumberOfAgents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	count := func() int {
		t.Helper()
		w.calls.take()
		must(t, errorOf(w.Objects(t.Context(), "local")))
		reads, writes := w.calls.take()
		if writes != 0 {
			t.Errorf("%d writes, want none", writes)
		}
		return reads
	}
	kinds := map[string]bool{}
	a := w.newAgent(t)
	for _, o := range w.objects(t, a, testRuntimeInput(), agent.StageNames()) {
		if kind := targetOf(o).gvk.Kind; kind != "Secret" {
			kinds[kind] = true
		}
	}
	before := count()
	for range 5 {
		w.apply(t, w.newAgent(t), testRuntimeInput(), agent.StageNamespace, agent.StagePolicy, agent.StageIdentity)
	}
	if after := count(); before != len(kinds) || after != before {
		t.Errorf("%d requests, and %d with more agents, want %d: one for each kind", before, after, len(kinds))
	}
	for broken := range before {
		requests := 0
		w.calls.breaks = func(*http.Request, http.RoundTripper) (*http.Response, error) {
			if requests++; requests > broken {
				return nil, errors.New("no route to host") // which client-go does not retry
			}
			return nil, nil
		}
		s, err := w.Objects(t.Context(), "local")
		if s != nil {
			t.Errorf("a snapshot although list %d fails", broken)
		}
		wantUnavailable(t, err, codeClusterUnavailable)
	}
}

// Every object that is applied is compared, but the Secret.
func TestListed_CoversEveryObject(t *testing.T) {
	t.Parallel()
	for _, cell := range []string{"local", "gke"} {
		a := testAgent()
		a.Cell = cell
		b := blueprintOf(t, a)
		var applied, compared []string
		for _, stage := range agent.StageNames() {
			objects, err := b.objects(stage)
			must(t, err)
			for _, o := range objects {
				if name := targetOf(o).String(); !strings.HasPrefix(name, "Secret") && !slices.Contains(applied, name) {
					applied = append(applied, name)
				}
			}
		}
		for _, o := range b.listed() {
			compared = append(compared, targetOf(o).String())
		}
		slices.Sort(applied)
		slices.Sort(compared)
		if diff := cmp.Diff(applied, compared); diff != "" {
			t.Errorf("cell %s: compared objects differ from applied ones (-applied +compared):\n%s", cell, diff)
		}
	}
}
