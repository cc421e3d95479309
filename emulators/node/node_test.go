//go:build unix

package node_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"

	"agents.example/controlplane/emulators/cluster"
	"agents.example/controlplane/emulators/clustertest"
	"agents.example/controlplane/emulators/dataplane"
	"agents.example/controlplane/emulators/kubeclient"
	"agents.example/controlplane/emulators/node"
)

// parentVariable makes the test binary start a cluster with a node below the directory that it names, and wait until it
// is killed.
const parentVariable = "NODE_TEST_PARENT"

func TestMain(m *testing.M) {
	if dir := os.Getenv(parentVariable); dir != "" {
		os.Exit(runParent(dir))
	}
	clustertest.Prepare()
	goleak.VerifyTestMain(m)
}

func runParent(dir string) int {
	ctx := context.Background()
	nodeDir := filepath.Join(dir, "node")
	c, err := cluster.Start(ctx, cluster.Options{
		Kind: cluster.Real, Dir: filepath.Join(dir, "cluster"), NodeSocket: node.Socket(nodeDir),
	})
	if err == nil {
		_, err = node.Start(ctx, node.Options{Dir: nodeDir, Cluster: c})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(c.Kubeconfig)
	select {}
}

// fixture is a cluster with a node, and an administrator's clients.
type fixture struct {
	node   *node.Node
	config *rest.Config
	client *kubeclient.Client
}

const (
	// probeImage is the name of the image of testdata/probe.
	probeImage = "probe"
	// platformImage is the name of the image with the programs of agents' pods.
	platformImage = "platform"
)

func start(t *testing.T) fixture {
	t.Helper()
	clustertest.RequireNode(t)
	programs, err := dataplane.BuildImagePackages(t.Context(),
		"agents.example/controlplane/emulators/node/testdata/probe")
	if err != nil {
		t.Fatal(err)
	}
	platform, err := dataplane.BuildImage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	runc, _ := exec.LookPath("runc")
	c, n := clustertest.StartNode(t, node.Options{Runc: runc, Images: map[string]node.Image{
		probeImage: {Program: filepath.Join(programs, "probe")}, platformImage: {Programs: platform},
	}})
	return fixture{n, clustertest.Config(t, c.Kubeconfig), clustertest.Client(t, c.Kubeconfig)}
}

// run runs a pod of the probe until it is ready.
func (f fixture) run(t *testing.T, namespace string, change func(*corev1.Pod)) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "pod", Namespace: namespace},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: new(int64),
			Containers: []corev1.Container{{
				Name: "main", Image: f.node.Images[probeImage], Env: []corev1.EnvVar{{Name: "PORT", Value: "8080"}},
			}},
		},
	}
	change(pod)
	clustertest.Eventually(t, func(ctx context.Context) error { // refused until the namespace has a service account
		_, err := f.client.Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
		return err
	})
	var running *corev1.Pod
	clustertest.Eventually(t, func(ctx context.Context) (err error) {
		running, err = f.client.Pods(namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range running.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("pod %s/%s is not ready: %+v", namespace, pod.Name, running.Status.ContainerStatuses)
	})
	return running
}

// exec runs a program in a pod's first container, as `kubectl exec` does, and returns what it printed.
func (f fixture) exec(t *testing.T, pod *corev1.Pod, command ...string) (string, error) {
	t.Helper()
	req := f.client.Subresource(pod.Namespace, pod.Name, "exec",
		&corev1.PodExecOptions{Command: command, Stdout: true, Stderr: true})
	executor, err := remotecommand.NewWebSocketExecutor(f.config, "GET", req.URL().String())
	if err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	err = executor.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: &stdout, Stderr: &stderr})
	return stdout.String() + stderr.String(), err
}

// startParent starts a process that starts a node below dir. The process is killed with the test, or by kill.
func startParent(t *testing.T, dir string) (kubeconfig string, kill func()) {
	t.Helper()
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), parentVariable+"="+dir)
	parent.Stderr = os.Stderr
	output, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	kill = sync.OnceFunc(func() {
		_ = parent.Process.Kill()
		_ = parent.Wait()
	})
	t.Cleanup(kill)
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		t.Fatalf("the parent did not start a node: %q, %v", line, err)
	}
	return strings.TrimSpace(line), kill
}

// TestNode_LeavesNothing kills the process that started a node. The host was not changed while the node ran, and
// nothing of the node is left.
func TestNode_LeavesNothing(t *testing.T) {
	clustertest.RequireNode(t)
	dir := clustertest.NodeDir(t)
	before := host(t)
	_, kill := startParent(t, dir)
	checkHost(t, "while the node runs", before)
	groups := groupsOf(t, processesOf(t, dir))
	if len(groups) == 0 {
		t.Fatal("a node that runs has no control groups, so this test would not see them")
	}
	kill()
	began := time.Now()
	clustertest.Eventually(t, func(context.Context) error {
		if left := processesOf(t, dir); len(left) > 0 {
			return fmt.Errorf("processes are left: %v", left)
		}
		for _, group := range groups {
			if _, err := os.Stat(group); !errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("control group %s is left: %w", group, err)
			}
		}
		return nil
	})
	t.Logf("nothing is left %s after the kill", time.Since(began).Round(time.Millisecond))
	checkHost(t, "after the node", before)
}

func checkHost(t *testing.T, when string, want map[string]string) {
	t.Helper()
	for what, got := range host(t) {
		if got != want[what] {
			t.Errorf("%s, the host's %s are\n%s\nwant as before:\n%s", when, what, got, want[what])
		}
	}
}

// host returns what a node could change on the host.
func host(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for what, file := range map[string]string{
		"mounts": "/proc/self/mountinfo", "routes": "/proc/net/route", "network interfaces": "/proc/net/dev",
		"sockets of netfilter's queues": "/proc/net/netfilter/nfnetlink_queue",
		"setting net.ipv4.ip_forward":   "/proc/sys/net/ipv4/ip_forward",
	} {
		text, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		all[what] = string(text)
	}
	var names []string // the counters change
	for line := range strings.Lines(all["network interfaces"]) {
		name, _, _ := strings.Cut(line, ":")
		names = append(names, strings.TrimSpace(name))
	}
	all["network interfaces"] = strings.Join(names, " ")
	return all
}

// groupsOf returns the control groups of nodes that processes are in.
func groupsOf(t *testing.T, pids map[int]string) (groups []string) {
	t.Helper()
	for pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
		if err != nil {
			continue // it ended
		}
		for line := range strings.Lines(string(text)) {
			parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
			before, after, ok := strings.Cut(parts[2], "agents-node-")
			if !ok {
				continue
			}
			name, _, _ := strings.Cut(after, "/")
			group := filepath.Join("/sys/fs/cgroup", strings.TrimPrefix(parts[1], "name="), before, "agents-node-"+name)
			if !slices.Contains(groups, group) {
				groups = append(groups, group)
			}
		}
	}
	return groups
}

// processesOf returns the command lines that name a directory, by process.
func processesOf(t *testing.T, dir string) map[int]string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	found := map[int]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it ended
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			t.Fatal(err)
		}
		if line := strings.ReplaceAll(string(text), "\x00", " "); strings.Contains(line, dir) {
			found[pid] = line
		}
	}
	return found
}

func TestNode_RunsPods(t *testing.T) {
	f := start(t)
	t.Run("in their runtime", f.testRuntimes)
	t.Run("without policies, everything is connected", f.testConnections)
	t.Run("of the platform's image", f.testPlatform)
}

// testRuntimes reads the version of the kernel in a container, as `kubectl exec` and `kubectl logs` show it.
func (f fixture) testRuntimes(t *testing.T) {
	var host syscall.Utsname
	if err := syscall.Uname(&host); err != nil {
		t.Fatal(err)
	}
	for runtime, test := range map[string]struct {
		class *string
		want  string
	}{
		"runc":   {nil, text(host.Release[:])},
		"gVisor": {new("gvisor"), "4.19.0-gvisor"},
	} {
		t.Run(runtime, func(t *testing.T) {
			t.Parallel()
			if runtime == "runc" {
				clustertest.Runc(t)
			}
			pod := f.run(t, "default", func(pod *corev1.Pod) {
				pod.Name, pod.Spec.RuntimeClassName = strings.ToLower(runtime), test.class
			})
			if pod.Spec.NodeName != node.Name {
				t.Errorf("the pod runs on node %s", pod.Spec.NodeName)
			}
			if got, err := f.exec(t, pod, "/probe", "kernel"); err != nil || got != test.want+"\n" {
				t.Errorf("kernel = %q, %v; want %s", got, err, test.want)
			}
			if got, err := f.exec(t, pod, "/nothing"); err == nil {
				t.Errorf("a program that does not exist ran and printed %q", got)
			}
			log, err := f.client.Subresource(pod.Namespace, pod.Name, "log", &corev1.PodLogOptions{}).DoRaw(t.Context())
			if err != nil || !strings.Contains(string(log), "the probe runs") {
				t.Errorf("log = %q, %v", log, err)
			}
		})
	}
}

// text returns a string of C.
func text(chars []int8) string {
	var b strings.Builder
	for _, c := range chars {
		if c == 0 {
			break
		}
		b.WriteByte(byte(c))
	}
	return b.String()
}

// testPlatform runs the sample agent, as agents without an image do.
func (f fixture) testPlatform(t *testing.T) {
	pod := f.run(t, "default", func(pod *corev1.Pod) {
		pod.Name = "sample"
		pod.Spec.Containers[0].Image = f.node.Images[platformImage]
		pod.Spec.Containers[0].Command = []string{"/ko-app/sampleagent"}
	})
	client := &http.Client{Transport: &http.Transport{DialContext: f.node.DialContext}}
	defer client.CloseIdleConnections()
	clustertest.Eventually(t, func(ctx context.Context) error { // the pod has no probe that waits until it serves
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+pod.Status.PodIP+":8080/healthz", nil)
		if err != nil {
			return err
		}
		res, err := client.Do(req)
		if err == nil && res.StatusCode != http.StatusOK {
			err = errors.New(res.Status)
		}
		if res != nil {
			err = errors.Join(err, res.Body.Close())
		}
		return err
	})
}

// testConnections shows that nothing but policies refuses the connections that agents' policies must refuse.
func (f fixture) testConnections(t *testing.T) {
	sandboxed := func(pod *corev1.Pod) { pod.Spec.RuntimeClassName = new("gvisor") }
	other := f.run(t, "default", func(pod *corev1.Pod) {
		pod.Name = "other"
		sandboxed(pod)
	})
	pod := f.run(t, "default", sandboxed)
	out, err := f.exec(t, pod, "/probe", "dial", "203.0.113.10:80", "169.254.169.254:80", "10.99.0.10:80",
		"10.96.0.1:443", "10.77.255.1:10250", "169.254.20.10:53", other.Status.PodIP+":8080")
	if err != nil || strings.Count(out, "\n") != 7 {
		t.Fatalf("dial printed %q, %v", out, err)
	}
	for line := range strings.Lines(out) {
		if address, text, _ := strings.Cut(strings.TrimSpace(line), " "); text != "" {
			t.Errorf("a pod without policies -> %s: %s", address, text)
		}
	}
	for _, source := range []string{"35.191.0.10", "203.0.113.10", "10.99.0.10"} {
		conn, err := f.node.DialFrom(t.Context(), source, "tcp", pod.Status.PodIP+":8080")
		if err != nil {
			t.Errorf("%s -> a pod without policies: %v", source, err)
			continue
		}
		_ = conn.Close()
	}
}
