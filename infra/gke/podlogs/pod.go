package podlogs

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"time"

	"agents.example/controlplane/infra/gke/connect"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agentlog"
)

// maxPod is far more than the size of an agent's pod.
const maxPod = 1 << 20

// pod has the fields of a pod that this package reads.
type pod struct {
	Metadata struct {
		UID string `json:"uid"`
	} `json:"metadata"`
	Status struct {
		ContainerStatuses []status `json:"containerStatuses"`
	} `json:"status"`
}

// status is the status of a container.
type status struct {
	Name        string `json:"name"`
	ContainerID string `json:"containerID"`
	State       state  `json:"state"`
	LastState   state  `json:"lastState"`
}

type state struct {
	Running    *struct{}   `json:"running"`
	Terminated *terminated `json:"terminated"`
}

type terminated struct {
	ContainerID string    `json:"containerID"`
	StartedAt   time.Time `json:"startedAt"`
	FinishedAt  time.Time `json:"finishedAt"`
	ExitCode    int       `json:"exitCode"`
	Reason      string    `json:"reason"`
}

// ended is the id of the container that ended; empty for none.
func (s state) ended() string {
	if s.Terminated == nil {
		return ""
	}
	return s.Terminated.ContainerID
}

// current is the container whose log the kubelet returns unless the previous one is asked for.
func (s status) current() string {
	switch {
	case s.State.Running != nil:
		return s.ContainerID
	case s.State.ended() != "":
		return s.State.ended()
	default:
		return s.LastState.ended()
	}
}

// last describes the container that ended last, and whether no other one has replaced it yet.
func (s status) last(identify func(string) string) (last agentlog.Ended, held bool) {
	t := s.State.Terminated
	if held = s.State.ended() != ""; !held {
		t = s.LastState.Terminated
	}
	if t == nil || t.ContainerID == "" {
		return agentlog.Ended{}, false
	}
	last = agentlog.Ended{
		Container: identify(t.ContainerID), EndedAt: t.FinishedAt, ExitCode: t.ExitCode, Reason: t.Reason,
	}
	if t.StartedAt.Unix() > 0 { // the beginning of Unix time stands for a container that could not be started
		last.StartedAt = t.StartedAt
	}
	return last, held
}

// Containers implements agentlog.Pods.
func (l *Logs) Containers(ctx context.Context, a agent.Agent) (agentlog.Containers, error) {
	about := request{path: connect.PodPath(a.Namespace())}
	answer, err := l.get(ctx, a, about, waits{answer: answerWait, silence: answerWait})
	if err != nil {
		return agentlog.Containers{}, err
	}
	defer func() { _ = answer.Close() }()
	var p pod
	if err := json.NewDecoder(io.LimitReader(answer, maxPod)).Decode(&p); err != nil {
		return agentlog.Containers{}, unavailable(fmt.Errorf("read the pod of agent %s: %w", a.ID, err))
	}
	identify := func(id string) string {
		if id == "" {
			return ""
		}
		return agentlog.Container(p.Metadata.UID, id)
	}
	for _, s := range p.Status.ContainerStatuses {
		if s.Name == connect.AgentContainer {
			last, held := s.last(identify)
			return agentlog.Containers{
				Current: identify(s.current()), Previous: identify(s.LastState.ended()), Last: last, Held: held,
			}, nil
		}
	}
	return agentlog.Containers{}, nil
}

// Read implements agentlog.Pods.
func (l *Logs) Read(ctx context.Context, a agent.Agent, part agentlog.Part) (io.ReadCloser, error) {
	if part.Kept {
		return l.readKept(ctx, a, part)
	}
	query := url.Values{"container": {connect.AgentContainer}, "timestamps": {"true"}}
	if part.Previous {
		query.Set("previous", "true")
	}
	if part.Tail > 0 {
		query.Set("tailLines", strconv.Itoa(part.Tail))
	}
	if !part.From.IsZero() {
		query.Set("sinceTime", part.From.UTC().Format(time.RFC3339))
	}
	wait := waits{answer: answerWait, silence: silenceWait}
	if part.Follow {
		query.Set("follow", "true")
		wait.silence = 0
	}
	answer, err := l.get(ctx, a, request{path: connect.PodPath(a.Namespace()) + "/log", query: query}, wait)
	if err != nil || part.Ended.Container == "" && !part.Previous {
		return answer, err
	}
	return unlessGone(answer)
}
