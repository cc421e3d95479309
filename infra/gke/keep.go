package gke

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"agents.example/controlplane/infra/gke/keptlog"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agentlog"
	"agents.example/controlplane/shared/provisioning"
)

var _ provisioning.LogKeeper = (*Clusters)(nil)

const (
	// keptTail is how many lines from the end of a log are read. It bounds the read, as a kubelet's own limit of bytes
	// counts from the beginning.
	keptTail = 2000
	// maxKeepAttempts bounds how often KeepLogs looks for a place again, because another worker took it.
	maxKeepAttempts = 5
	// maxRemembered bounds the memory of which logs are kept.
	maxRemembered = 50_000
)

// endedContainers lists the runs of the agent's container that have ended and whose logs a kubelet has, the last first.
func endedContainers(pod *corev1.Pod) []provisioning.EndedContainer {
	status := statusOf(pod.Status.ContainerStatuses, agentName)
	if status == nil {
		return nil
	}
	var ended []provisioning.EndedContainer
	for i, t := range []*corev1.ContainerStateTerminated{
		status.State.Terminated, status.LastTerminationState.Terminated,
	} {
		if t == nil || t.ContainerID == "" {
			continue
		}
		e := provisioning.EndedContainer{Held: i == 0, Ended: agentlog.Ended{
			Container: agentlog.Container(string(pod.UID), t.ContainerID),
			EndedAt:   t.FinishedAt.Time, ExitCode: int(t.ExitCode), Reason: t.Reason,
			Run: int(ends(status)) - 1,
		}}
		if i == 1 && status.State.Terminated != nil { // the one before
			e.Run--
		}
		if t.StartedAt.Unix() > 0 {
			e.StartedAt = t.StartedAt.Time
		}
		ended = append(ended, e)
	}
	return ended
}

// KeepLastLogs implements provisioning.LogKeeper.
func (c *Clusters) KeepLastLogs(ctx context.Context, a agent.Agent) error {
	client, err := c.client(a.Cell)
	if err != nil {
		return err
	}
	t := core("Pod", a.Namespace(), podName)
	pod := &corev1.Pod{}
	if err := client.get(ctx, t, pod); apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		return explain(err, t)
	}
	return c.KeepLogs(ctx, a.Cell, a.ID, endedContainers(pod))
}

// KeepLogs implements provisioning.LogKeeper. Each process remembers what it has seen kept, so that it asks once for
// each container that has ended.
func (c *Clusters) KeepLogs(
	ctx context.Context, cell, agentID string, ended []provisioning.EndedContainer,
) error {
	client, err := c.client(cell)
	if err != nil {
		return err
	}
	for _, e := range slices.Backward(ended) { // the oldest first
		if e.Expired(time.Now()) || c.kept.has(e.Container) {
			continue
		}
		if err := client.keepLog(ctx, agentID, e); err != nil {
			return err
		}
		c.kept.add(e.Container)
	}
	return nil
}

// keepLog writes the log of a container into the first free object of the namespace, or replaces the oldest log.
//
// Other workers may do the same at the same time, and each may end at any step. An object is only created, never
// changed: of two workers one is refused, and looks again. A log that is replaced is deleted in the version that was
// listed. A worker that ends before it has created the object leaves the container to the next look.
func (c *client) keepLog(ctx context.Context, agentID string, e provisioning.EndedContainer) error {
	namespace := agent.Namespace(agentID)
	var log []byte
	for range maxKeepAttempts {
		place, err := c.placeFor(ctx, namespace, e.Ended)
		if err != nil || place.name == "" {
			return err
		}
		if log == nil { // once, whatever the other workers do
			if log, err = c.lastLines(ctx, namespace, e); err != nil || log == nil {
				return err
			}
		}
		t := core("ConfigMap", namespace, place.name)
		if place.oldest != nil {
			if deleted, err := c.deleteVersion(ctx, t, place.oldest); err != nil {
				return err
			} else if !deleted {
				continue
			}
		}
		err = c.create(ctx, t, keptObject(agentID, place.name, e.Ended, log))
		switch {
		case err == nil, goneNamespace(err):
			return nil
		case !apierrors.IsAlreadyExists(err):
			return explain(err, t)
		}
	}
	return unavailable(fmt.Errorf("keep a log in %s: others write there, too", namespace))
}

// goneNamespace reports whether a write failed because the namespace is gone or about to go.
func goneNamespace(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

// place is where a log goes. An empty name is no place: the log is kept, or is older than all that are.
type place struct {
	name string
	// oldest is the object to replace; nil for a free place.
	oldest *metav1.PartialObjectMetadata
}

// placeFor finds a place for the log of a container.
func (c *client) placeFor(ctx context.Context, namespace string, e agentlog.Ended) (place, error) {
	t := core("ConfigMap", namespace, "")
	there := map[string]*metav1.PartialObjectMetadata{}
	err := c.listMetadata(ctx, t, ours+","+keptlog.Label, func() { clear(there) },
		func(o *metav1.PartialObjectMetadata) { there[o.Name] = o.DeepCopy() })
	if err != nil {
		return place{}, explain(err, t)
	}
	var free, oldest place
	var first agentlog.Ended
	for _, name := range keptlog.Names() {
		o := there[name]
		if o == nil {
			if free.name == "" {
				free = place{name: name}
			}
			continue
		}
		kept, _ := keptlog.Describe(o.Annotations) // an object that says nothing is the oldest
		if kept.Container == e.Container {
			return place{}, nil
		}
		if oldest.name == "" || kept.Compare(first) < 0 {
			oldest, first = place{name: name, oldest: o}, kept
		}
	}
	switch {
	case free.name != "":
		return free, nil
	case e.Compare(first) < 0:
		return place{}, nil
	default:
		return oldest, nil
	}
}

// lastLines reads the end of a container's log, compressed, or what is kept in its place. It is nil if the cluster has
// that log no longer: the answer to a request counts only if the pod names the same container afterwards. If the
// container was replaced in between, its log is asked for as that of the previous one.
func (c *client) lastLines(ctx context.Context, namespace string, e provisioning.EndedContainer) ([]byte, error) {
	if e.Said != "" {
		return keptlog.Compress([]byte(e.Said))
	}
	t := core("Pod", namespace, podName)
	for {
		tail, logErr := c.readLog(ctx, t, !e.Held)
		if logErr != nil && !apierrors.IsNotFound(logErr) && !apierrors.IsBadRequest(logErr) {
			return nil, explain(logErr, t)
		}
		pod := &corev1.Pod{}
		if err := c.get(ctx, t, pod); apierrors.IsNotFound(err) {
			return nil, nil
		} else if err != nil {
			return nil, explain(err, t)
		}
		ended := endedContainers(pod)
		i := slices.IndexFunc(ended, func(now provisioning.EndedContainer) bool { return now.Container == e.Container })
		switch {
		case i >= 0 && ended[i].Held != e.Held && e.Held:
			e.Held = false
		case i >= 0 && apierrors.IsNotFound(logErr): // its kubelet has just started, and does not know its pods yet
			return nil, unavailable(logErr)
		case i < 0, logErr != nil, keptlog.Unavailable(tail):
			return nil, nil //nolint:nilerr // there is no such log
		default:
			return keptlog.Compress(tail)
		}
	}
}

// readLog reads the end of the log of the agent's container.
func (c *client) readLog(ctx context.Context, t target, previous bool) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	body, err := c.objects.rest.Get().AbsPath(t.path()...).Name(t.name).SubResource("log").
		Param("container", agentName).Param("timestamps", "true").Param("previous", strconv.FormatBool(previous)).
		Param("tailLines", strconv.Itoa(keptTail)).Stream(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }()
	return keptlog.Tail(io.LimitReader(body, maxLogRead))
}

// maxLogRead is more than a kubelet's log file has before it is rotated.
const maxLogRead = 16 << 20

// keptObject is the object with the log of a container.
func keptObject(agentID, name string, e agentlog.Ended, log []byte) *corev1.ConfigMap {
	b := blueprint{agent: agent.Agent{ID: agentID}}
	meta := b.named(name)
	meta.Labels[keptlog.Label], meta.Annotations = "true", keptlog.Annotations(e)
	return &corev1.ConfigMap{
		TypeMeta: typed("v1", "ConfigMap"), ObjectMeta: meta, Immutable: new(true),
		BinaryData: map[string][]byte{keptlog.Key: log},
	}
}

// DropLog implements provisioning.LogKeeper.
func (c *Clusters) DropLog(ctx context.Context, cell string, l provisioning.KeptLog) error {
	client, err := c.client(cell)
	if err != nil {
		return err
	}
	_, err = client.deleteVersion(ctx, core("ConfigMap", agent.Namespace(l.AgentID), l.Name),
		&metav1.ObjectMeta{UID: types.UID(l.UID), ResourceVersion: l.Version})
	return err
}
