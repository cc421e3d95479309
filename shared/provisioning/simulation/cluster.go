package simulation

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/credential"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/provisioning"
)

// Cluster is the simulated Kubernetes cluster of the cell: the objects of each agent, and what its controllers and its
// kubelet make of them.
type Cluster struct {
	now        func() time.Time
	elapsed    func() time.Duration
	namespaces map[string]*namespace
	// changed is closed and replaced whenever an object changes.
	changed chan struct{}
	// order lists the agents with a namespace, and changes counts.
	order   []string
	changes int64
	uids    int
	// Rules are what the cluster and its adapter guarantee.
	Rules ClusterRules
	// troubles says what is wrong with the pods of agents.
	troubles map[string]trouble
	// Deleted counts the deletions of namespaces by agent, and deletedBy names the processes.
	deletedBy map[string][]string
	volumes   int
}

// ClusterRules undo guards of the cluster and its adapter. The zero value has all guards.
type ClusterRules struct {
	// FixedNames gives the environment's objects one name, whatever they contain.
	FixedNames bool
	// NoFence accepts a workload of an older generation.
	NoFence bool
	// RandomNamespace gives each namespace that is applied another name.
	RandomNamespace bool
	// KeepNamespace deletes the workload of an agent only.
	KeepNamespace bool
	// SilentNamespace creates a missing namespace, with a new volume, whatever is applied.
	SilentNamespace bool
	// AnyPod reports a pod of any configuration as the desired one.
	AnyPod bool
	// PruneAll prunes the objects of the present configuration, too.
	PruneAll bool
	// KeepLeftovers hides objects of former generations from the check of all agents' objects.
	KeepLeftovers bool
	// GoneAtOnce reports an agent whose deletion began as gone.
	GoneAtOnce bool
}

// namespace holds the objects of one agent.
type namespace struct {
	name      string
	uid       string
	createdAt time.Time
	// terminating is true once the deletion began. The namespace is not gone before stuckUntil.
	terminating   bool
	stuckUntil    time.Duration
	orphanedSince time.Time
	stages        map[agent.StageName]bool
	// configs maps the names of Secrets and ConfigMaps to their content.
	configs map[string]config
	volume  int
	set     *statefulSet
	pod     *pod
}

// config is the content of a Secret or a ConfigMap.
type config struct {
	generation int64
	values     map[string]string
}

// statefulSet is the workload of an agent.
type statefulSet struct {
	generation int64
	replicas   int
	template   template
	// appliedAt is when the generation was applied.
	appliedAt time.Duration
}

// template is what a pod is made of.
type template struct {
	hash, secret, configMap string
	sandbox                 bool
}

// pod is the agent's pod. It has values once its container has started.
type pod struct {
	template
	values    map[string]string
	started   bool
	ready     bool
	createdAt time.Time
	since     time.Time
	lastRun   time.Duration
	ran       time.Time
}

// trouble is what is wrong with the pods of an agent.
type trouble string

const (
	healthy    trouble = ""
	neverReady trouble = "never ready"
	crashLoop  trouble = "crash loop"
)

// cell is the only cell.
const cell = "cell-1"

// NewCluster returns an empty cluster.
func NewCluster(now func() time.Time, elapsed func() time.Duration) *Cluster {
	return &Cluster{
		now: now, elapsed: elapsed, namespaces: map[string]*namespace{}, changed: make(chan struct{}),
		troubles:  map[string]trouble{},
		deletedBy: map[string][]string{},
	}
}

// notify wakes all watches.
func (c *Cluster) notify() {
	c.changes++
	close(c.changed)
	c.changed = make(chan struct{})
}

// Hash stands for everything in an agent's record that a pod is started with.
func Hash(a agent.Agent) string {
	b := make([]byte, 0, 64)
	for _, e := range a.Env {
		b = append(b, e.Key...)
		b = append(b, '=')
		b = append(b, e.Value...)
		b = strconv.AppendInt(append(b, ':'), e.SecretVersion, 10)
		b = append(b, ' ')
	}
	b = strconv.AppendInt(append(b, 'c'), a.CredentialVersion, 10)
	b = strconv.AppendInt(append(b, 'r'), a.Rollout, 10)
	b = strconv.AppendBool(append(b, 's'), a.Sandbox)
	return string(append(b, a.Plan...))
}

// names returns the names of the Secret and the ConfigMap of a configuration.
func (c *Cluster) names(hash string) (secret, configMap string) {
	if c.Rules.FixedNames {
		return "secret", "config"
	}
	return secretPrefix + hash, configPrefix + hash
}

// The prefixes of the names of Secrets and ConfigMaps.
const (
	secretPrefix = "secret "
	configPrefix = "config "
)

// The names of the variables with the credentials.
const (
	passwordVariable = "DASHBOARD_PASSWORD" //nolint:gosec // the name of a variable
	keyVariable      = "API_SERVER_KEY"
)

func secretValues(in provisioning.RuntimeInput) map[string]string {
	values := map[string]string{passwordVariable: in.Credentials.DashboardPassword, keyVariable: in.Credentials.APIKey}
	for key, value := range in.Secrets {
		values[key] = string(value)
	}
	return values
}

func plainValues(a agent.Agent) map[string]string {
	values := map[string]string{}
	for _, e := range a.Env {
		if !e.Secret() {
			values[e.Key] = e.Value
		}
	}
	return values
}

// find returns the namespace of an agent that accepts objects.
func (c *Cluster) find(id string) (*namespace, error) {
	n := c.namespaces[id]
	if n == nil && c.Rules.SilentNamespace {
		if err := c.putNamespace(id); err != nil {
			return nil, err
		}
		n = c.namespaces[id]
		c.volumes++
		n.volume = c.volumes
	}
	if n == nil || n.terminating {
		return nil, fault.New(fault.Unavailable, provisioning.CodeNamespaceMissing,
			"The agent's namespace does not exist. The service retries automatically.")
	}
	return n, nil
}

// putNamespace creates the agent's namespace.
func (c *Cluster) putNamespace(id string) error {
	if n := c.namespaces[id]; n != nil {
		if n.terminating {
			return fault.New(fault.Unavailable, "namespace_terminating", "The namespace is being deleted.")
		}
		if !c.Rules.RandomNamespace {
			return nil
		}
		c.put(id+"?"+strconv.Itoa(c.uids), n)
	}
	c.uids++
	c.put(id, &namespace{
		name: agent.Namespace(id), uid: strconv.Itoa(c.uids), createdAt: c.now(), stages: map[agent.StageName]bool{},
		configs: map[string]config{},
	})
	return nil
}

// putConfig writes a Secret or ConfigMap. Its content never changes, unless names are fixed.
func (c *Cluster) putConfig(id, name string, content config) error {
	n, err := c.find(id)
	if err != nil {
		return err
	}
	if old, ok := n.configs[name]; ok && !c.Rules.FixedNames {
		content.values = old.values
		content.generation = max(content.generation, old.generation)
	}
	n.configs[name] = content
	return nil
}

// putSet writes the StatefulSet.
func (c *Cluster) putSet(a agent.Agent) error {
	n, err := c.find(a.ID)
	if err != nil {
		return err
	}
	if n.set != nil && a.Generation < n.set.generation && !c.Rules.NoFence {
		return stale(n.set.generation)
	}
	replicas := 0
	if a.WantsPod() {
		replicas = 1
	}
	hash := Hash(a)
	secret, configMap := c.names(hash)
	appliedAt := c.elapsed()
	if n.set != nil && n.set.generation == a.Generation {
		appliedAt = n.set.appliedAt
	}
	n.set = &statefulSet{a.Generation, replicas, template{hash, secret, configMap, a.Sandbox}, appliedAt}
	c.notify()
	return nil
}

// deleteNamespace begins the deletion of a namespace.
func (c *Cluster) deleteNamespace(id, uid, process string) {
	n := c.namespaces[id]
	if n == nil || n.terminating || uid != "" && n.uid != uid {
		return
	}
	if c.Rules.KeepNamespace {
		n.set, n.pod = nil, nil
		return
	}
	n.terminating = true
	c.deletedBy[id] = append(c.deletedBy[id], process)
	c.notify()
}

// Clone returns a copy.
func (c *Cluster) Clone(now func() time.Time, elapsed func() time.Duration) *Cluster {
	next := NewCluster(now, elapsed)
	next.uids, next.volumes, next.Rules = c.uids, c.volumes, c.Rules
	for id, n := range c.namespaces {
		copied := *n
		copied.stages, copied.configs = maps.Clone(n.stages), maps.Clone(n.configs)
		if n.set != nil {
			set := *n.set
			copied.set = &set
		}
		if n.pod != nil {
			p := *n.pod
			copied.pod = &p
		}
		next.namespaces[id] = &copied
	}
	next.order = slices.Clone(c.order)
	return next
}

// ids lists the agents with a namespace, in order.
func (c *Cluster) ids() []string { return c.order }

// put adds a namespace.
func (c *Cluster) put(id string, n *namespace) {
	c.namespaces[id] = n
	c.order = slices.Sorted(maps.Keys(c.namespaces))
	c.notify()
}

// remove removes a namespace.
func (c *Cluster) remove(id string) {
	delete(c.namespaces, id)
	c.order = slices.Sorted(maps.Keys(c.namespaces))
	c.notify()
}

// ClusterClient is one process's client of the cluster. It implements provisioning.Cluster.
type ClusterClient struct {
	Cluster *Cluster
	Process Stepper
	// Name is the process's name.
	Name string
}

var _ provisioning.Cluster = ClusterClient{}

func unreachable() error {
	return fault.New(fault.Unavailable, "cluster_unavailable", "The agent's cluster is temporarily unavailable. Retry.")
}

// call makes one call of the API server.
func (c ClusterClient) call(ctx context.Context, a agent.Agent, name string, do func() error) error {
	if a.Cell != cell {
		return unknownCell()
	}
	return portError(c.Process.Step(ctx, ClusterService, name, do), unreachable)
}

// look makes one call that only reads.
func (c ClusterClient) look(ctx context.Context, a agent.Agent, name string, do func() error) error {
	if a.Cell != cell {
		return unknownCell()
	}
	return portError(c.Process.Look(ctx, ClusterService, name, do), unreachable)
}

// Apply implements provisioning.Cluster: one call for each object of the stage.
func (c ClusterClient) Apply(ctx context.Context, a agent.Agent, stage agent.StageName,
	in provisioning.RuntimeInput,
) error {
	switch stage {
	case agent.StageNamespace:
		return c.call(ctx, a, "apply namespace", func() error { return c.Cluster.putNamespace(a.ID) })
	case agent.StageSecrets:
		return c.applyEnvironment(ctx, a, in)
	case agent.StageRuntime:
		return c.call(ctx, a, "apply stateful set", func() error { return c.Cluster.putSet(a) })
	case agent.StageReady:
		return nil
	default:
		err := c.call(ctx, a, applyStep(stage), func() error { return c.Cluster.putStage(a.ID, stage) })
		if err == nil && stage == agent.StageIdentity && !slices.ContainsFunc(a.Env, agent.EnvVar.Secret) {
			return c.applyEnvironment(ctx, a, in)
		}
		return err
	}
}

// applyEnvironment applies the Secret and the ConfigMap of an agent's configuration.
func (c ClusterClient) applyEnvironment(ctx context.Context, a agent.Agent, in provisioning.RuntimeInput) error {
	if in.Credentials == (credential.Credentials{}) {
		return fault.New(fault.Internal, "internal_error", "The Secret lacks its credentials.")
	}
	secret, configMap := c.Cluster.names(Hash(a))
	err := c.call(ctx, a, "apply secret", func() error {
		return c.Cluster.putConfig(a.ID, secret, config{a.Generation, secretValues(in)})
	})
	if err != nil {
		return err
	}
	return c.call(ctx, a, "apply config map", func() error {
		return c.Cluster.putConfig(a.ID, configMap, config{a.Generation, plainValues(a)})
	})
}

// putStage writes the objects of a stage whose content does not matter here.
func (c *Cluster) putStage(id string, stage agent.StageName) error {
	n, err := c.find(id)
	if err != nil {
		return err
	}
	n.stages[stage] = true
	if stage == agent.StageStorage && n.volume == 0 {
		c.volumes++
		n.volume = c.volumes
	}
	return nil
}

func applyStep(stage agent.StageName) string {
	switch stage {
	case agent.StagePolicy:
		return "apply policy"
	case agent.StageIdentity:
		return "apply identity"
	case agent.StageStorage:
		return "apply storage"
	default:
		return "apply route"
	}
}
