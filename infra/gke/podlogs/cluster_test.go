//go:build linux

package podlogs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"agents.example/controlplane/emulators/cluster"
	"agents.example/controlplane/emulators/clustertest"
	"agents.example/controlplane/emulators/kubeclient"
	"agents.example/controlplane/infra/gke"
	"agents.example/controlplane/infra/gke/connect"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agentlog/agentlogtest"
	"agents.example/controlplane/shared/image"
	"agents.example/controlplane/shared/testtier"
)

// silentImage is an image whose program writes nothing, and exits when something is written to the pipe "end".
const (
	silentImage   = "example/silent:v1"
	silentProgram = "#!/bin/sh\n[ -p end ] || mkfifo end\nread -r line <end\nexit 1\n"
)

// TestLogs_KeepThePromisesOfTheirPortInACluster reads the logs of pods through a real API server and a kubelet's reader
// of logs. The tests write the log files, because they choose the times of lines.
func TestLogs_KeepThePromisesOfTheirPortInACluster(t *testing.T) {
	t.Parallel()
	clustertest.Require(t)
	files, dir := t.TempDir(), t.TempDir()
	testtier.WriteProgram(t, filepath.Join(files, "entrypoint"), silentProgram)
	running := clustertest.Start(t, cluster.Options{Dir: dir, Images: map[string]string{silentImage: files}})
	client := clustertest.Client(t, running.Kubeconfig)
	keepers, err := gke.Open(t.Context(), gke.Settings{
		Cells: []gke.Cell{{Name: "cell-1", Kubeconfig: running.Kubeconfig}}, Database: "database",
		Images: image.BuiltIn{Platform: "platform"}, RouterNamespace: "routers",
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = keepers.Close() })
	t.Run("promises", func(t *testing.T) { // ends before the cluster does
		agentlogtest.Run(t, func(t *testing.T) agentlogtest.Fixture {
			logs := New(t.Context(), []connect.Cell{{Name: "cell-1", Kubeconfig: running.Kubeconfig}})
			t.Cleanup(func() { _ = logs.Close() })
			a := agent.Agent{ID: uuid.NewString(), Cell: "cell-1"}
			start := func(t *testing.T) agentlogtest.Running {
				p := &pods{t: t, client: client, namespace: a.Namespace(), dir: filepath.Join(dir, "pods")}
				p.start()
				return p
			}
			keep := func(t *testing.T) {
				if err := keepers.KeepLastLogs(t.Context(), a); err != nil {
					t.Error(err)
				}
			}
			return agentlogtest.Fixture{Source: logs, Agent: a, Start: start, Keep: keep, Timed: true}
		})
	})
}

// pods is the pod of an agent in a cluster.
type pods struct {
	t         *testing.T
	client    *kubeclient.Client
	namespace string
	dir       string
}

func (p *pods) start() {
	p.t.Helper()
	ctx, all := p.t.Context(), p.client.Pods(p.namespace)
	now := int64(0)
	err := all.Delete(ctx, connect.AgentPod, metav1.DeleteOptions{GracePeriodSeconds: &now})
	if err != nil && !apierrors.IsNotFound(err) {
		p.t.Fatal(err)
	}
	_, err = p.client.Namespaces().Create(ctx, &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: p.namespace},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		p.t.Fatal(err)
	}
	clustertest.Eventually(p.t, func(ctx context.Context) error { // the service account may be late
		_, err := all.Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: connect.AgentPod},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: connect.AgentContainer, Image: silentImage}}},
		}, metav1.CreateOptions{})
		return err
	})
	p.await(func(_ *corev1.Pod, s corev1.ContainerStatus) bool { return s.State.Running != nil })
}

// await waits for a state of the container.
func (p *pods) await(holds func(*corev1.Pod, corev1.ContainerStatus) bool) {
	p.t.Helper()
	clustertest.Eventually(p.t, func(ctx context.Context) error {
		pod, err := p.client.Pods(p.namespace).Get(ctx, connect.AgentPod, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(pod.Status.ContainerStatuses) != 1 || !holds(pod, pod.Status.ContainerStatuses[0]) {
			return fmt.Errorf("the pod has the status %+v", pod.Status)
		}
		return nil
	})
}

// files returns the directory of the pod and the log file of its container.
func (p *pods) files() (dir, log string, restarts int32) {
	p.t.Helper()
	pod, err := p.client.Pods(p.namespace).Get(p.t.Context(), connect.AgentPod, metav1.GetOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
	dir = filepath.Join(p.dir, string(pod.UID))
	restarts = pod.Status.ContainerStatuses[0].RestartCount
	return dir, filepath.Join(dir, "logs", connect.AgentContainer, fmt.Sprintf("%d.log", restarts)), restarts
}

// maxPart is the length at which container runtimes cut a line.
const maxPart = 16 << 10

// Write implements agentlogtest.Running.
func (p *pods) Write(at time.Time, texts ...string) {
	_, name, _ := p.files()
	var all strings.Builder
	stamp := at.Format("2006-01-02T15:04:05.000000000Z07:00")
	for _, text := range texts {
		for ; len(text) > maxPart; text = text[maxPart:] {
			fmt.Fprintf(&all, "%s stdout P %s\n", stamp, text[:maxPart])
		}
		fmt.Fprintf(&all, "%s stdout F %s\n", stamp, text)
	}
	file, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = file.WriteString(all.String())
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		p.t.Error(err)
	}
}

// Restart implements agentlogtest.Running.
func (p *pods) Restart() {
	dir, _, restarts := p.files()
	p.await(func(*corev1.Pod, corev1.ContainerStatus) bool {
		info, err := os.Stat(filepath.Join(dir, "end"))
		return err == nil && info.Mode()&os.ModeNamedPipe != 0
	})
	if err := os.WriteFile(filepath.Join(dir, "end"), []byte("\n"), 0); err != nil {
		p.t.Error(err)
	}
	p.await(func(_ *corev1.Pod, s corev1.ContainerStatus) bool {
		return s.State.Running != nil && s.RestartCount == restarts+1
	})
}

// End implements agentlogtest.Running. A container that cannot get its image does not start again.
func (p *pods) End() {
	patch := fmt.Sprintf(`{"metadata": {"annotations": {%q: %q}}}`, cluster.FaultAnnotation, cluster.ImagePull)
	_, err := p.client.Namespaces().Patch(p.t.Context(), p.namespace, types.MergePatchType, []byte(patch),
		metav1.PatchOptions{})
	if err != nil {
		p.t.Error(err)
	}
	p.await(func(_ *corev1.Pod, s corev1.ContainerStatus) bool { return s.State.Waiting != nil })
}

// Rotate implements agentlogtest.Running, as a kubelet does.
func (p *pods) Rotate() {
	_, name, _ := p.files()
	if err := errors.Join(os.Rename(name, name+".rotated"), os.WriteFile(name, nil, 0o600)); err != nil {
		p.t.Error(err)
	}
}
