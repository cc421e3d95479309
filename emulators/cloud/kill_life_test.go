package cloud_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"agents.example/controlplane/shared/secret"
)

// chapter is a part of the life of an agent: a request, and what a worker makes of it.
type chapter struct {
	name, method string
	// path and body have ID instead of the agent's ID, and SNAPSHOT instead of that of its snapshot.
	path, body string
	status     int
	// await waits until the request is carried out.
	await func(t *testing.T, n *lane, id string)
	// check checks the world after the chapter. told lists the chapters so far, this one included.
	check func(t *testing.T, n *lane, id string, told []string)
}

func chapters() []chapter {
	return []chapter{
		{
			name: "create", method: http.MethodPost, path: "/api/v1/agents",
			body:   `{"name": "survivor", "resource_plan": "hobby", "env_vars": {"TOKEN": "first"}}`,
			status: http.StatusCreated, await: awaitCreation, check: checkCreation,
		},
		{
			name: "set", method: http.MethodPut, path: "/agents/ID/secrets", body: `{"secrets": {"TOKEN": "second"}}`,
			status: http.StatusAccepted, await: awaitOperations, check: checkSecret,
		},
		{
			name: "rotate", method: http.MethodPost, path: "/agents/ID/credentials/rotate",
			status: http.StatusOK, await: awaitOperations, check: checkRotation,
		},
		{
			name: "snapshot", method: http.MethodPost, path: "/api/v1/agents/ID/snapshots",
			body:   `{"consistency": "stop"}`,
			status: http.StatusCreated, await: awaitSnapshot, check: checkSnapshot,
		},
		{
			name: "restore", method: http.MethodPost, path: "/api/v1/agents/ID/restore",
			body: `{"snapshot_id": "SNAPSHOT"}`, status: http.StatusOK, await: awaitRestore, check: checkRestore,
		},
		{
			name: "unsnapshot", method: http.MethodDelete, path: "/api/v1/agents/ID/snapshots/SNAPSHOT",
			status: http.StatusAccepted, await: awaitUnsnapshot, check: checkUnsnapshot,
		},
		{
			name: "stop", method: http.MethodPost, path: "/agents/ID/stop", status: http.StatusOK, await: awaitStop,
			check: checkStop,
		},
		{
			name: "delete", method: http.MethodDelete, path: "/agents/ID", status: http.StatusAccepted,
			await: awaitDeletion, check: checkDeletion,
		},
	}
}

// fill puts ids into a path or a body.
func (n *lane) fill(text, id string) string {
	return strings.NewReplacer("ID", id, "SNAPSHOT", n.snapshot).Replace(text)
}

func awaitCreation(t *testing.T, n *lane, id string) {
	t.Helper()
	n.awaitStatus(t, id, "running")
	awaitOperations(t, n, id)
}

func awaitOperations(t *testing.T, n *lane, id string) {
	t.Helper()
	n.awaitOperations(t, id)
}

func awaitStop(t *testing.T, n *lane, id string) {
	t.Helper()
	n.await(t, id, "without a pod", func(answer) bool { return n.countPods(t, id) == 0 })
}

// awaitDeletion sweeps when a worker died: one worker at a time deletes an agent, and the sweep replaces it.
func awaitDeletion(t *testing.T, n *lane, id string) {
	t.Helper()
	n.await(t, id, "gone", func(a answer) bool {
		if a.status != http.StatusNotFound && n.worker.wasKilled() && n.idle() {
			n.sweep(t)
		}
		return a.status == http.StatusNotFound
	})
}

func checkCreation(t *testing.T, n *lane, id string, _ []string) {
	t.Helper()
	agents, err := n.records.agents(t.Context(), n.Ready.OrganizationID)
	if err != nil || len(agents) != 1 {
		t.Errorf("the organization has %d agents (%v), want 1", len(agents), err)
	}
	checkEqual(t, "namespaces of the agent", n.countNamespaces(t, id), 1)
	sets, err := n.cluster.StatefulSets("agent-"+id).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(sets.Items) != 1 {
		t.Errorf("stateful sets = %v, %v; want one", sets, err)
	}
	n.checkEnv(t, id, "TOKEN", "first")
	n.secretStore.checkVersions(t, id, "TOKEN", versions{added: 1, enabled: 1})
	n.checkFirstCredentials(t, id)
	checkEqual(t, "agents in the usage", n.usage(t)["agents"], 1.0)
	checkEqual(t, "cores in the usage are in use", n.usage(t)["cpu_cores"] != 0.0, true)
}

// checkFirstCredentials checks that the agent has credentials, and that concurrent runs of the worker, which may each
// generate some, left only those of one.
func (n *lane) checkFirstCredentials(t *testing.T, id string) {
	t.Helper()
	found, most := n.secretStore.countVersions(id, secret.CredentialsKey), n.takeWidest()
	if found.enabled != 1 || found.added > most {
		t.Errorf("%d concurrent runs: versions of the credentials = %+v, want 1 enabled of at most %[1]d", most, found)
	}
	n.firstCredentials = found.added
}

func checkSecret(t *testing.T, n *lane, id string, _ []string) {
	t.Helper()
	n.checkEnv(t, id, "TOKEN", "second")
	checkEqual(t, "secrets", n.secretsText(t, id), "TOKEN 2/2 true;")
	n.secretStore.checkVersions(t, id, "TOKEN", versions{added: 2, enabled: 1})
}

func checkRotation(t *testing.T, n *lane, id string, told []string) {
	t.Helper()
	n.secretStore.checkVersions(t, id, secret.CredentialsKey, versions{added: n.firstCredentials + 1, enabled: 1})
	if slices.Contains(told, "set") {
		n.checkEnv(t, id, "TOKEN", "second")
	}
	a := n.must(t, http.StatusOK, http.MethodGet, "/agents/"+id, "")
	url, _ := a.body["dashboard_url"].(string)
	n.checkCredentials(t, url, n.revealCredentials(t, id), http.StatusNoContent)
}

func checkStop(t *testing.T, n *lane, id string, _ []string) {
	t.Helper()
	checkEqual(t, "namespaces of the agent", n.countNamespaces(t, id), 1)
	checkEqual(t, "pods", n.countPods(t, id), 0)
	checkEqual(t, "cores in the usage", n.usage(t)["cpu_cores"], 0.0)
}

func checkDeletion(t *testing.T, n *lane, id string, _ []string) {
	t.Helper()
	_, err := n.cluster.Namespaces().Get(t.Context(), "agent-"+id, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("the agent is gone, but its namespace is not: %v", err)
	}
	n.checkNoContents(t, id)
	checkEqual(t, "secrets left in the store", n.secretStore.countSecrets(id), 0)
	for _, what := range []string{"agents", "cpu_cores", "memory_bytes", "storage_bytes"} {
		checkEqual(t, what+" in the usage", n.usage(t)[what], 0.0)
	}
}

func (n *lane) usage(t *testing.T) map[string]any {
	t.Helper()
	a := n.must(t, http.StatusOK, http.MethodGet, "/api/v1/organizations/current", "")
	usage, _ := a.body["usage"].(map[string]any)
	return usage
}

func (d deployment) countPods(t *testing.T, id string) int {
	t.Helper()
	pods, err := d.cluster.Pods("agent-"+id).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return len(pods.Items)
}

// countNamespaces counts the namespaces of an agent; those of all agents if the id is empty.
func (d deployment) countNamespaces(t *testing.T, id string) int {
	t.Helper()
	selector := "agents.example/agent-id"
	if id != "" {
		selector += "=" + id
	}
	found, err := d.cluster.Namespaces().List(t.Context(), metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		t.Fatal(err)
	}
	return len(found.Items)
}

// murder kills a process of a lane at a point of each chapter of an agent's life.
type murder struct {
	*lane
	victim *victim
	at     killPoint
	// send sends the request of a chapter.
	send func(t *testing.T, c chapter, id string) answer
	// lengths are the numbers of changes of each chapter without a kill, if they are known. Chapters that end before
	// the point are left out.
	lengths map[string]int
}

// live runs the life. It returns the changes of the victim in the chapters in which it was killed; without a point, in
// all.
func (m murder) live(t *testing.T) map[string][]string {
	t.Helper()
	id, seen, told := "", map[string][]string{}, []string{}
	for _, c := range chapters() {
		if length, known := m.lengths[c.name]; known && m.at.change > length && m.optional(c) {
			continue
		}
		told = append(told, c.name)
		m.countDeliveries()
		m.takeWidest()
		m.victim.arm(m.at)
		if c.name == "delete" {
			// A deletion waits until no earlier run can add credentials any more.
			m.age(t, secret.StoringTime)
		}
		a := m.send(t, c, id)
		if id == "" {
			id, _ = a.body["id"].(string)
		}
		c.await(t, m.lane, id)
		deliveries := m.settle(t)
		changes, killed := m.victim.disarm()
		if killed || m.at.change == 0 {
			seen[c.name] = changes
		}
		if deliveries > 1+maxRedeliveries {
			t.Errorf("a message was delivered %d times, want at most %d", deliveries, 1+maxRedeliveries)
		}
		m.records.checkIdle(t, id)
		c.check(t, m.lane, id, told)
		if t.Failed() {
			t.Fatalf("chapters %q, killed %s; changes in the last chapter: %s", told, m.at, strings.Join(changes, ", "))
		}
	}
	return seen
}

// optional reports whether a life can do without a chapter. Later ones need a snapshot.
func (murder) optional(c chapter) bool {
	return c.name != "create" && c.name != "delete" && c.name != "snapshot"
}

// lengths counts the changes of each chapter.
func lengths(t *testing.T, uncut map[string][]string) (all map[string]int, longest, sum int) {
	t.Helper()
	all = map[string]int{}
	for _, c := range chapters() {
		n := len(uncut[c.name])
		t.Logf("%s: %d changes: %s", c.name, n, strings.Join(uncut[c.name], ", "))
		all[c.name], longest, sum = n, max(longest, n), sum+n
	}
	return all, longest, sum
}

// deaths counts kills by chapter and change.
type deaths map[string]map[string]int

func (d deaths) add(at killPoint, seen map[string][]string) {
	for chapter, changes := range seen {
		if d[chapter] == nil {
			d[chapter] = map[string]int{}
		}
		d[chapter][changes[at.change-1]]++
	}
}

// sum is the number of kills.
func (d deaths) sum() (n int) {
	for _, calls := range d {
		for _, kills := range calls {
			n += kills
		}
	}
	return n
}

// String is a table of the kills.
func (d deaths) String() string {
	text := fmt.Sprintf("%d kills", d.sum())
	for _, c := range chapters() {
		for _, call := range slices.Sorted(maps.Keys(d[c.name])) {
			text += fmt.Sprintf("\n%-10s | %2d | %s", c.name, d[c.name][call], call)
		}
	}
	return text
}
