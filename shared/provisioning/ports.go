// Package provisioning knows how an agent is brought to its desired state: the phases in their order, what is recorded
// when, and what an error means. It does not know how a cluster, a secret store or a gateway is spoken to.
package provisioning

import (
	"context"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/credential"
)

// RuntimeInput is what the objects of an agent are built from besides its record. It holds secrets and is never
// recorded or logged.
type RuntimeInput struct {
	Credentials credential.Credentials
	// Secrets maps the keys of the agent's secret variables to their values.
	Secrets map[string][]byte
}

// Cluster is the Kubernetes cluster that an agent was placed on.
type Cluster interface {
	// Apply brings the objects of one stage to the agent's desired state, by server-side apply. It is safe to repeat.
	// Errors: a Permanent fault that no retry mends, otherwise Unavailable.
	Apply(ctx context.Context, a agent.Agent, stage agent.StageName, m RuntimeInput) error
	// AwaitReady watches the agent's pod until the desired one is Ready, a failure is certain, or ctx ends.
	// Errors: a *PodFailure, ctx's, Unavailable.
	AwaitReady(ctx context.Context, a agent.Agent) error
	// Delete begins the deletion of everything of the agent. Deleting what is gone is a success.
	Delete(ctx context.Context, a agent.Agent) error
	// AwaitGone watches until the namespace and the volume are observed gone, or ctx ends.
	AwaitGone(ctx context.Context, a agent.Agent) error
}

// AgentProber is the way into a running agent.
type AgentProber interface {
	// Probe asks the agent on its own hostname whether it serves. Errors: Unavailable, with what the gateway said.
	Probe(ctx context.Context, a agent.Agent) error
	// Accepts asks the agent, as its users do, what it thinks of credentials. Errors: Unavailable, with what the
	// gateway said.
	Accepts(ctx context.Context, a agent.Agent, c credential.Credentials) (Verdict, error)
}

// Verdict is what an agent thinks of credentials.
type Verdict string

// The verdicts.
const (
	// Accepted: the dashboard takes the password, and the API the key.
	Accepted Verdict = "accepted"
	// Refused: neither does.
	Refused Verdict = "refused"
	// Divided: one of the two does.
	Divided Verdict = "divided"
)

// NamespaceLister is what a sweep sees of the clusters.
type NamespaceLister interface {
	// Namespaces lists every namespace of agents that the clusters hold, with the time of its creation. A list that may
	// be incomplete is an error, so that nothing is deleted for not having been seen.
	Namespaces(ctx context.Context) ([]Placement, error)
	// DeleteNamespace begins the deletion of a namespace without a record, if it is still the one that was listed.
	DeleteNamespace(ctx context.Context, p Placement) error
}

// Placement is one namespace of an agent on a cluster.
type Placement struct {
	Cell      string
	AgentID   string
	UID       string
	CreatedAt time.Time
}

// PodLister is what an observer sees of the clusters.
type PodLister interface {
	// Cells names the clusters.
	Cells() []string
	// Pods looks at the pods of all agents of a cell at once, at the cost of one list. A list that may be incomplete is
	// an error, so that nothing follows from what was not seen. Errors: Unavailable.
	Pods(ctx context.Context, cell string) ([]Pod, error)
	// Current reports whether a pod was started with the agent's present configuration.
	Current(a agent.Agent, p Pod) bool
	// Existence asks for what there is of one agent. Errors: Unavailable.
	Existence(ctx context.Context, a agent.Agent) (Existence, error)
}

// Pod is what one look at an agent's pod says.
type Pod struct {
	AgentID string
	// Config stands for the configuration that the pod was started with, in a way that only the Lookout understands.
	Config string
	// Since is when the pod became Ready or ceased to be; of one that never was, when it was created.
	Since time.Time
	// Failure is why the pod is not Ready, and Permanent if that is certain; nil when it is Ready.
	Failure *PodFailure
	// LastRun is how long the container that ended last had run; 0 when none has ended.
	LastRun time.Duration
}

// Existence is what a cluster has of an agent.
type Existence struct {
	// Namespace is false when there is none, or only one that is being deleted.
	Namespace bool
	Pod       bool
}

// PodFailure says why the agent's pod does not become Ready.
type PodFailure struct {
	// Code is "image_pull_failed", "pod_crash_loop", "out_of_memory", "pod_unschedulable" or "readiness_timeout".
	Code string
	// Message says what happened and what a person can do about it.
	Message string
	// Permanent says that waiting does not help.
	Permanent bool
}

// Error implements error.
func (f *PodFailure) Error() string { return f.Code + ": " + f.Message }

// Permanent marks an error of a cluster that no retry mends, such as an object that the API server refuses as invalid.
type Permanent struct {
	Code    string
	Message string
	Cause   error
}

// Error implements error.
func (p *Permanent) Error() string {
	if p.Cause == nil {
		return p.Code + ": " + p.Message
	}
	return p.Code + ": " + p.Message + ": " + p.Cause.Error()
}

// Unwrap returns the cause.
func (p *Permanent) Unwrap() error { return p.Cause }
