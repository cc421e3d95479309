package cloud_test

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// testFiles writes a file that must outlive the agent's pods.
func (p probed) testFiles(t *testing.T) {
	if got := p.ask(t, http.MethodPut, "/file?name=kept", "content"); got["error"] != "" {
		t.Fatalf("write a file: %v", got["error"])
	}
	for _, change := range [][]string{{"restart"}, {"stop", "start"}} {
		before := p.podUID(t, p.id)
		for _, action := range change {
			p.must(t, http.StatusOK, http.MethodPost, "/agents/"+p.id+"/"+action, "")
			if action == "stop" {
				p.await(t, p.id, "without a pod", func(answer) bool {
					pods, err := p.cluster.Pods("agent-"+p.id).List(t.Context(), metav1.ListOptions{})
					return err == nil && len(pods.Items) == 0
				})
			}
		}
		p.await(t, p.id, "running again", func(a answer) bool {
			return a.body["status"] == "running" && a.body["dashboard_warming"] == false
		})
		if p.podUID(t, p.id) == before {
			t.Fatalf("after %v, the pod is the same", change)
		}
		status, text := p.request(t, http.MethodGet, "/file?name=kept", "")
		if status != http.StatusOK || text != "content" {
			t.Errorf("the file after %v: status %d, %q", change, status, text)
		}
	}
}

// pod returns the agent's pod.
func (p probed) pod(t *testing.T) *corev1.Pod {
	t.Helper()
	pod, err := p.cluster.Pods("agent-"+p.id).Get(t.Context(), "agent-0", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

// container returns the status of the agent's container.
func container(pod *corev1.Pod) corev1.ContainerStatus {
	if len(pod.Status.ContainerStatuses) == 0 {
		return corev1.ContainerStatus{}
	}
	return pod.Status.ContainerStatuses[0]
}

// awaitRestart waits until the agent's container runs again after restarts restarts, and returns how the former run
// ended.
func (p probed) awaitRestart(t *testing.T, restarts int32) *corev1.ContainerStateTerminated {
	t.Helper()
	var last *corev1.ContainerStateTerminated
	p.await(t, p.id, "ready after a restart of its container", func(answer) bool {
		pod := p.pod(t)
		c := container(pod)
		last = c.LastTerminationState.Terminated
		return c.RestartCount > restarts && c.Ready && last != nil
	})
	return last
}

// testKill kills the container's process with SIGKILL, or its sandbox.
func (p probed) testKill(t *testing.T) {
	before := container(p.pod(t)).RestartCount
	name := "probe"
	if p.runtime == "gVisor" {
		name = "runsc-sandbox"
	}
	if killed := p.killProcesses(t, name); killed == 0 {
		t.Fatalf("the pod has no process %s", name)
	}
	last := p.awaitRestart(t, before)
	t.Logf("after SIGKILL: reason %s, exit code %d", last.Reason, last.ExitCode)
	if want := map[string]int32{"runc": 137, "gVisor": 128}[p.runtime]; last.ExitCode != want {
		t.Errorf("exit code after SIGKILL = %d, want %d", last.ExitCode, want)
	}
	checkEqual(t, "status of the agent", p.awaitStatus(t, p.id, "running").body["status"], "running")
}

// testOutOfMemory makes the container need more memory than its limit.
func (p probed) testOutOfMemory(t *testing.T) {
	before := container(p.pod(t)).RestartCount
	p.await(t, p.id, "out of memory", func(answer) bool {
		if container(p.pod(t)).RestartCount > before {
			return true
		}
		p.exhaust(t) // the container may not serve yet
		return false
	})
	last := p.awaitRestart(t, before)
	t.Logf("out of memory: reason %s, exit code %d", last.Reason, last.ExitCode)
	want := corev1.ContainerStateTerminated{Reason: "OOMKilled", ExitCode: 137}
	if p.runtime == "gVisor" {
		want.ExitCode = 128
	}
	if last.Reason != want.Reason || last.ExitCode != want.ExitCode {
		t.Errorf("the container ended with %s/%d, want %s/%d", last.Reason, last.ExitCode, want.Reason, want.ExitCode)
	}
}

// exhaust makes the container use memory until it is killed, which ends the request.
func (p probed) exhaust(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(p.api, "/")+"/exhaust", nil)
	if err != nil {
		t.Fatal(err)
	}
	p.useKey(req)
	if res, err := p.Client.Do(req); err == nil {
		_ = res.Body.Close()
	}
}

// testDeletion looks for what a deleted agent leaves on the node and on the host.
func (p probed) testDeletion(t *testing.T) {
	pod := p.pod(t)
	claim, err := p.cluster.PersistentVolumeClaims(pod.Namespace).Get(t.Context(), "data", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	names := []string{string(pod.UID), claim.Spec.VolumeName}
	for _, name := range names {
		if len(p.traces(t, name)) == 0 {
			t.Errorf("an agent that runs has no trace of %s, so this test would not see one", name)
		}
	}
	p.must(t, http.StatusAccepted, http.MethodDelete, "/agents/"+p.id, "")
	began := time.Now()
	p.await(t, p.id, "gone", func(a answer) bool { return a.status == http.StatusNotFound })
	t.Logf("deleted after %s", time.Since(began).Round(time.Millisecond))
	for end := time.Now().Add(patience); ; <-time.After(time.Second) { // a look reads all files of the node
		left := p.traces(t, names...)
		if len(left) == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s after the deletion, the agent has left %s", patience, left)
		}
	}
}

// traces returns the mounts, control groups, processes and directories of the node that have one of the names.
func (p probed) traces(t *testing.T, names ...string) (found []string) {
	t.Helper()
	named := func(text string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return strings.Contains(text, name) })
	}
	for _, pid := range nodeProcesses(t, p.dir) {
		for _, file := range []string{"mountinfo", "cgroup", "cmdline"} {
			text, err := os.ReadFile(filepath.Join("/proc", pid, file))
			if err == nil && named(string(text)) {
				found = append(found, file+" of process "+pid)
			}
		}
	}
	for _, root := range []string{p.dir, "/sys/fs/cgroup"} {
		err := filepath.WalkDir(root, func(path string, _ os.DirEntry, err error) error {
			if err == nil && named(filepath.Base(path)) && !strings.Contains(path, "/pods/") {
				found = append(found, path)
			}
			return nil // what disappears in between is no trace
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return found
}

// nodeProcesses returns the processes in the mount namespaces of a node whose state is below a directory.
func nodeProcesses(t *testing.T, dir string) (pids []string) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, process := range all {
		text, err := os.ReadFile(filepath.Join(process, "cgroup"))
		if err == nil && strings.Contains(string(text), "agents-node-") {
			pids = append(pids, filepath.Base(process))
		}
	}
	return pids
}

// killProcesses kills the processes of the agent's pod whose command line begins with a name, and returns their number.
func (p probed) killProcesses(t *testing.T, name string) (killed int) {
	t.Helper()
	uid := string(p.pod(t).UID)
	for _, pid := range nodeProcesses(t, p.dir) {
		group, _ := os.ReadFile(filepath.Join("/proc", pid, "cgroup"))
		command, _ := os.ReadFile(filepath.Join("/proc", pid, "cmdline"))
		program, _, _ := strings.Cut(string(command), "\x00")
		if strings.Contains(string(group), uid) && filepath.Base(program) == name {
			if err := exec.CommandContext(t.Context(), "kill", "-KILL", pid).Run(); err != nil {
				t.Fatal(err)
			}
			killed++
		}
	}
	return killed
}
