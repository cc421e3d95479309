package podlogs

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"time"

	"agents.example/controlplane/infra/gke/keptlog"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agentlog"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/parallel"
)

// keptObject is a ConfigMap with the log of a container that has ended.
type keptObject struct {
	Metadata struct {
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	BinaryData map[string][]byte `json:"binaryData"`
}

// metadataOnly asks for an object without its content.
const metadataOnly = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"

// Kept implements agentlog.Pods. It reads the objects by their names: no right to list can be limited to them.
func (l *Logs) Kept(ctx context.Context, a agent.Agent) ([]agentlog.Ended, error) {
	named, err := l.keptNames(ctx, a)
	all := make([]agentlog.Ended, 0, len(named))
	for _, e := range named {
		all = append(all, e)
	}
	return all, err
}

// keptNames describes the containers whose logs are kept, by the names of their objects.
func (l *Logs) keptNames(ctx context.Context, a agent.Agent) (map[string]agentlog.Ended, error) {
	names := keptlog.Names()
	found := make([]keptObject, len(names))
	errs := parallel.ForEach(indices(names), len(names), func(i int) (err error) {
		found[i], err = l.keptObject(ctx, a, names[i], metadataOnly)
		return err
	})
	if err := errors.Join(errs...); err != nil {
		return nil, firstError(errs)
	}
	named := map[string]agentlog.Ended{}
	for i, o := range found {
		if e, ok := keptlog.Describe(o.Metadata.Annotations); ok {
			named[names[i]] = e
		}
	}
	return named, nil
}

func indices(names []string) []int {
	all := make([]int, len(names))
	for i := range all {
		all[i] = i
	}
	return all
}

// firstError keeps the kind of an error, which several joined ones do not have.
func firstError(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// keptObject reads one of the objects; one that does not exist is empty.
func (l *Logs) keptObject(ctx context.Context, a agent.Agent, name, accept string) (o keptObject, err error) {
	path := "/api/v1/namespaces/" + url.PathEscape(a.Namespace()) + "/configmaps/" + name
	answer, err := l.get(ctx, a, request{path: path, accept: accept}, waits{answer: answerWait, silence: answerWait})
	if fault.Code(err) == agentlog.CodeNotRunning { // not found
		return keptObject{}, nil
	}
	if err != nil {
		return keptObject{}, err
	}
	defer func() { _ = answer.Close() }()
	if err := json.NewDecoder(io.LimitReader(answer, keptlog.MaxObject)).Decode(&o); err != nil {
		return keptObject{}, unavailable(fmt.Errorf("read the object %s of agent %s: %w", name, a.ID, err))
	}
	return o, nil
}

// readKept opens a log that is kept. It finds its object again, because the objects are used again for later
// containers, and answers for no other container.
func (l *Logs) readKept(ctx context.Context, a agent.Agent, part agentlog.Part) (io.ReadCloser, error) {
	named, err := l.keptNames(ctx, a)
	if err != nil {
		return nil, err
	}
	for name, e := range named {
		if e.Container != part.Container || e.Expired(time.Now()) {
			continue
		}
		o, err := l.keptObject(ctx, a, name, "application/json")
		if err != nil {
			return nil, err
		}
		if now, _ := keptlog.Describe(o.Metadata.Annotations); now.Container != part.Container {
			continue
		}
		lines, err := keptlog.Open(o.BinaryData[keptlog.Key])
		if err != nil {
			return nil, unavailable(err)
		}
		return io.NopCloser(choose(lines, part)), nil
	}
	return nil, agentlog.NoPrevious()
}

// choose returns the last lines of a log, from a time on, as a kubelet chooses them.
func choose(log io.Reader, part agentlog.Part) io.Reader {
	var lines [][]byte
	for r := bufio.NewReader(log); ; {
		line, err := r.ReadBytes('\n')
		if len(line) > 0 && !before(line, part.From) {
			lines = append(lines, line)
		}
		if err != nil {
			break
		}
	}
	if part.Tail > 0 && len(lines) > part.Tail {
		lines = lines[len(lines)-part.Tail:]
	}
	return bytes.NewReader(bytes.Join(lines, nil))
}

// before reports whether a line is older than a time. A line without a time is not.
func before(line []byte, from time.Time) bool {
	stamp, _, _ := bytes.Cut(line, []byte{' '})
	at, err := time.Parse(time.RFC3339Nano, string(stamp))
	return err == nil && at.Before(from)
}

// unlessGone returns a log unless the kubelet only says that it no longer has it.
func unlessGone(answer io.ReadCloser) (io.ReadCloser, error) {
	r := bufio.NewReader(answer)
	if begin, _ := r.Peek(len(keptlog.Gone)); keptlog.Unavailable(begin) {
		_ = answer.Close() // it has said what it had to
		return nil, agentlog.NoPrevious()
	}
	return struct {
		io.Reader
		io.Closer
	}{r, answer}, nil
}
