package cloud_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"cloud.google.com/go/firestore"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"agents.example/controlplane/emulators/cloud"
	"agents.example/controlplane/emulators/clustertest"
	"agents.example/controlplane/emulators/dataplane"
	"agents.example/controlplane/emulators/node"
	"agents.example/controlplane/shared/image"
)

// startOnNode starts a cloud whose agents run the probe as containers. Where runc is not installed, gVisor runs all
// agents.
func startOnNode(t *testing.T) deployment {
	t.Helper()
	clustertest.RequireNode(t)
	programs, err := dataplane.BuildImagePackages(t.Context(),
		"agents.example/controlplane/emulators/node/testdata/probe")
	if err != nil {
		t.Fatal(err)
	}
	runc, _ := exec.LookPath("runc")
	outside := openOutside(t)
	d := start(t, false, func(o *cloud.Options) {
		o.Dir, o.Binaries = clustertest.NodeDir(t), ""
		o.Node = &cloud.NodeOptions{
			AgentImage: &node.Image{Program: filepath.Join(programs, "probe")}, Runc: runc,
			Images: builds(t, filepath.Join(programs, "probe")), Hosts: outside.hosts, Roots: outside.roots,
		}
		o.Node.Images["database"] = node.Image{Tarball: databaseTarball(t)}
		o.Catalog = []image.Image{databaseEntry("database")}
	})
	d.outside = outside
	return d
}

// testTwentyAgents creates 20 agents concurrently, and deletes them.
func testTwentyAgents(t *testing.T, d deployment) {
	const agents = 20
	var ids []string
	for i := range agents {
		ids = append(ids, d.create(t, fmt.Sprintf(`{"name": "one of many %d", "resource_plan": "hobby"}`, i)))
	}
	for _, id := range ids {
		d.awaitStatus(t, id, "running")
	}
	for _, id := range ids {
		d.must(t, http.StatusAccepted, http.MethodDelete, "/agents/"+id, "")
	}
	for _, id := range ids {
		d.await(t, id, "gone", func(a answer) bool { return a.status == http.StatusNotFound })
	}
}

// testProbe runs an agent in a runtime until it is deleted.
func testProbe(t *testing.T, d deployment, runtime string) {
	if runtime == "runc" {
		clustertest.Runc(t)
	}
	a := d.probe(t, runtime)
	t.Run("the process has the pod's security context", a.testSecurityContext)
	t.Run("connections follow the network policies", a.testConnections)
	t.Run("files survive a restart and a stop", a.testFiles)
	t.Run("a container that is killed starts again", a.testKill)
	t.Run("a container that needs too much memory starts again", a.testOutOfMemory)
	t.Run("deletion leaves nothing", a.testDeletion)
}

// probed is an agent that runs the probe.
type probed struct {
	deployment
	hosted
	runtime string
}

func (d deployment) probe(t *testing.T, runtime string) probed {
	t.Helper()
	return d.probeWith(t, runtime, `"config": {}`)
}

// probeWith runs the probe in an agent with a field of its creation.
func (d deployment) probeWith(t *testing.T, runtime, field string) probed {
	t.Helper()
	h := d.host(t, fmt.Sprintf(`{"name": %q, "resource_plan": "hobby", %s}`, "probe in "+runtime, field))
	if runtime == "gVisor" {
		d.must(t, http.StatusOK, http.MethodPost, "/agents/"+h.id+"/migrate-sandbox", `{"enabled": true}`)
		d.await(t, h.id, "sandboxed", func(a answer) bool { return a.body["dashboard_warming"] == false })
	}
	return probed{deployment: d, hosted: h, runtime: runtime}
}

// ask calls the probe's API, and decodes what it answers.
func (p probed) ask(t *testing.T, method, path, body string) (fields map[string]any) {
	t.Helper()
	status, text := p.request(t, method, path, body)
	if status != http.StatusOK {
		t.Fatalf("%s %s: status %d: %s", method, path, status, text)
	}
	if err := json.Unmarshal([]byte(text), &fields); err != nil {
		t.Fatalf("%s %s: %v in %q", method, path, err, text)
	}
	return fields
}

func (p probed) request(t *testing.T, method, path, body string) (status int, text string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, strings.TrimSuffix(p.api, "/")+path,
		strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	p.useKey(req)
	res, err := p.Client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close() //nolint:errcheck // reading is over
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

func (p probed) testSecurityContext(t *testing.T) {
	got := p.ask(t, http.MethodGet, "/process", "")
	t.Logf("kernel %v", got["kernel"])
	want := map[string]any{
		"Uid": "65532 65532 65532 65532", "Gid": "0 0 0 0", "Groups": "0 65532",
		"CapEff": "0000000000000000", "CapBnd": "0000000000000000", "data": "dgrwxrwx--- 0:65532",
		"write data": "", "write tmp": "", "setuid": syscall.EPERM.Error(), "mount": syscall.EPERM.Error(),
	}
	if p.runtime == "gVisor" { // its kernel is the sandbox, which filters the calls of the host's
		want["Seccomp"] = "0"
	} else {
		want["Seccomp"], want["NoNewPrivs"] = "2", "1"
	}
	for field, value := range want {
		checkEqual(t, field, got[field], value)
	}
	checkEqual(t, "kernel is gVisor's", strings.HasSuffix(fmt.Sprint(got["kernel"]), "-gvisor"), p.runtime == "gVisor")
	if got["write root"] == "" {
		t.Error("the process can write to its root file system")
	}
}

// testConnections connects the agent with everything around it.
func (p probed) testConnections(t *testing.T) {
	other := p.host(t, `{"name": "neighbor", "resource_plan": "hobby"}`)
	own, neighbor := p.podAddress(t, "agent-"+p.id), p.podAddress(t, "agent-"+other.id)
	var table strings.Builder
	defer func() { t.Logf("in %s:\n%s", p.runtime, table.String()) }()
	check := func(from, to string, err string, allowed bool) {
		t.Helper()
		result := "allowed"
		if err != "" {
			result = "refused: " + err
		}
		fmt.Fprintf(&table, "%-22s -> %-44s %s\n", from, to, result)
		if (err == "") != allowed {
			t.Errorf("%s -> %s: %s; want allowed = %t", from, to, result, allowed)
		}
	}
	rows := []struct {
		what, address string
		allowed       bool
	}{
		{what: "the internet", address: "203.0.113.10:80", allowed: true},
		{what: "the control plane's API", address: "control-plane.example:80", allowed: true},
		{what: "the resolver of names", address: "169.254.20.10:53", allowed: true},
		{what: "another port of the resolver's address", address: "169.254.20.10:10250"},
		{what: "the metadata server", address: "169.254.169.254:80"},
		{what: "a host of the VPC", address: "10.99.0.10:80"},
		{what: "the API server", address: "10.96.0.1:443"},
		{what: "the kubelet", address: "10.77.255.1:10250"},
		{what: "the front of another agent", address: neighbor + ":8080"},
		{what: "the container of another agent", address: neighbor + ":3000"},
	}
	results := make([]string, len(rows))
	var dials sync.WaitGroup
	for i, row := range rows {
		dials.Go(func() {
			_, text := p.request(t, http.MethodGet, "/dial?network=tcp&address="+url.QueryEscape(row.address), "")
			results[i] = text
		})
	}
	dials.Wait()
	for i, row := range rows {
		var got struct{ Error string }
		if err := json.Unmarshal([]byte(results[i]), &got); err != nil {
			t.Fatalf("dial %s: %v in %q", row.address, err, results[i])
		}
		check("the agent", row.what+" "+row.address, got.Error, row.allowed)
	}
	sources := []struct{ what, address, port string }{
		{what: "Google's front end", address: "35.191.0.10", port: "8080"},
		{what: "Google's front end", address: "35.191.0.10", port: "3000"},
		{what: "the internet", address: "203.0.113.10", port: "8080"},
		{what: "a host of the VPC", address: "10.99.0.10", port: "8080"},
		{what: "a host of the VPC", address: "10.99.0.10", port: "9091"},
	}
	errs := make([]error, len(sources))
	for i, row := range sources {
		dials.Go(func() {
			conn, err := p.Node.DialFrom(t.Context(), row.address, "tcp", own+":"+row.port)
			if err == nil {
				_ = conn.Close()
			}
			errs[i] = err
		})
	}
	dials.Wait()
	for i, row := range sources {
		text := ""
		if errs[i] != nil {
			text = errs[i].Error()
		}
		check(row.what, "the agent's port "+row.port, text, false)
	}
	status, text := p.request(t, http.MethodGet, "/variable?name=PORT", "")
	check("the router", "the agent's port 8080", map[bool]string{false: text}[status == http.StatusOK], true)
	p.must(t, http.StatusAccepted, http.MethodDelete, "/agents/"+other.id, "")
}

// podAddress returns the address of the first pod of a namespace, or of one of its programs.
func (d deployment) podAddress(t *testing.T, namespace string, name ...string) string {
	t.Helper()
	o := metav1.ListOptions{}
	for _, n := range name {
		o.LabelSelector = "app.kubernetes.io/name=" + n
	}
	pods, err := d.cluster.Pods(namespace).List(t.Context(), o)
	if err != nil || len(pods.Items) == 0 {
		t.Fatalf("pods of %s %v = %v, %v; want one", namespace, name, pods, err)
	}
	return pods.Items[0].Status.PodIP
}

func testRealCrash(t *testing.T, d deployment) {
	id := d.create(t, `{"name": "crashes", "resource_plan": "hobby", "env_vars": {"MODE": "crash"}}`)
	checkFailure(t, d.awaitStatus(t, id, "error"), "pod_crash_loop")
	d.must(t, http.StatusAccepted, http.MethodDelete, "/agents/"+id, "")
}

// testRealImageGone changes the image of a running pod to one that the registry does not have. A restart repairs it.
func testRealImageGone(t *testing.T, d deployment) {
	id := d.create(t, `{"name": "without an image", "resource_plan": "hobby"}`)
	d.awaitStatus(t, id, "running")
	patch := []byte(`{"spec": {"containers": [{"name": "agent", "image": "agents.localhost/agent@sha256:` +
		strings.Repeat("0", 64) + `"}]}}`)
	_, err := d.cluster.Pods("agent-"+id).Patch(t.Context(), "agent-0", types.StrategicMergePatchType, patch,
		metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	checkFailure(t, d.awaitStatus(t, id, "error"), "image_pull_failed")
	d.must(t, http.StatusOK, http.MethodPost, "/agents/"+id+"/restart", "")
	d.awaitStatus(t, id, "running")
	d.must(t, http.StatusAccepted, http.MethodDelete, "/agents/"+id, "")
}

// testRealUnready moves the deadline of an agent that is never ready, instead of waiting ten minutes.
func testRealUnready(t *testing.T, d deployment) {
	id := d.create(t, `{"name": "never ready", "resource_plan": "hobby", "env_vars": {"MODE": "unready"}}`)
	d.await(t, id, "started", func(a answer) bool {
		pod, err := d.cluster.Pods("agent-"+id).Get(t.Context(), "agent-0", metav1.GetOptions{})
		return err == nil && container(pod).State.Running != nil && stages(a)["ready"] == "running"
	})
	openRecords(t, d.Cloud).expire(t, id)
	a := d.awaitStatus(t, id, "error")
	config, _ := a.body["config"].(map[string]any)
	t.Logf("error: %v", config["error"])
	d.must(t, http.StatusAccepted, http.MethodDelete, "/agents/"+id, "")
}

// expire lets the time run out that an agent has to become ready.
func (r records) expire(t *testing.T, id string) {
	t.Helper()
	now := time.Now()
	_, err := r.db.Collection("agents").Doc(id).Update(t.Context(), []firestore.Update{
		{Path: "deadline", Value: now}, {Path: "work_due_at", Value: now},
	})
	if err != nil {
		t.Fatal(err)
	}
}
