package kubelet

import (
	"fmt"
	"strings"
	"time"
)

// kind is the kind of a fault.
type kind string

const (
	healthy       kind = ""
	imagePull     kind = "image-pull"
	crashLoop     kind = "crash-loop"
	oom           kind = "oom"
	unschedulable kind = "unschedulable"
	notReady      kind = "not-ready"
	slow          kind = "slow"
)

// Fault is a simulated failure of a pod. Faults are comparable; the zero value is no fault.
type Fault struct {
	kind  kind
	delay time.Duration // of readiness, when slow
}

// Unschedulable reports whether no node accepts the pod.
func (f Fault) Unschedulable() bool { return f.kind == unschedulable }

// crashes reports whether containers exit soon after they start.
func (f Fault) crashes() bool { return f.kind == crashLoop || f.kind == oom }

// ParseFault parses a fault: image-pull, crash-loop, oom, unschedulable, not-ready, slow=<duration>, or the empty
// string for no fault.
func ParseFault(text string) (Fault, error) {
	name, value, hasValue := strings.Cut(text, "=")
	switch k := kind(name); {
	case k == slow:
		delay, err := time.ParseDuration(value)
		if err != nil || delay < 0 {
			return Fault{}, fmt.Errorf("fault %q: want slow=<duration>, such as slow=5s", text)
		}
		return Fault{kind: slow, delay: delay}, nil
	case hasValue:
		return Fault{}, fmt.Errorf("fault %q: %s takes no value", text, name)
	case k == healthy, k == imagePull, k == crashLoop, k == oom, k == unschedulable, k == notReady:
		return Fault{kind: k}, nil
	}
	return Fault{}, fmt.Errorf("fault %q is unknown: want image-pull, crash-loop, oom, unschedulable, not-ready or "+
		"slow=<duration>", text)
}
