package simulationtest

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/provisioning"
)

// Cluster is the simulated Kubernetes cluster of the cell: the objects of each agent, and what its controllers and its
// kubelet make of them.
type Cluster struct {
	// name is that of the cell, and storage has the data of all cells' snapshots.
	name       string
	storage    *storage
	now        func() time.Time
	elapsed    func() time.Duration
	namespaces map[string]*namespace
	// removed holds the agents whose namespace ended once.
	removed map[string]bool
	// order lists the agents with a namespace, and changes counts.
	order   []string
	changes int64
	uids    int
	// Rules are what the cluster and its adapter guarantee.
	Rules ClusterRules
	// Fronts are what the fronts of agents guarantee, fronts counts them, and executed counts how often each call was
	// made.
	Fronts   FrontRules
	fronts   int
	executed map[string]int
	// troubles says what is wrong with the pods of agents.
	troubles map[string]trouble
	// flaw says what is wrong with a pod because of its images; nil for nothing.
	flaw func(id string, p pod) trouble
	// Deleted counts the deletions of namespaces by agent, and deletedBy names the processes.
	deletedBy map[string][]string
	// ended is told of each pod that a controller takes away; nil for none.
	ended func(id string, n *namespace)
	// wasCut is told of each snapshot that the storage takes; nil for none.
	wasCut func(id, snapshot string, s *cut)
	// deleted is told of each volume that a worker deletes; nil for none.
	deleted func(id string, n *namespace, number int64)
	// mounted is told of each volume that is made from a snapshot; nil for none.
	mounted func(id string, n *namespace, v *claim)
	// observed is told of each change by controllers and the kubelet; nil for none.
	observed func(id string)
}

// ClusterRules undo guards of the cluster and its adapter. The zero value has all guards.
type ClusterRules struct {
	// FixedNames gives the environment's objects one name, whatever they contain.
	FixedNames bool
	// NoFence accepts a workload of an older generation.
	NoFence bool
	// AnyWayOut accepts a network policy and a route of an older generation.
	AnyWayOut bool
	// RandomNamespace gives each namespace that is applied another name.
	RandomNamespace bool
	// KeepNamespace deletes the workload of an agent only.
	KeepNamespace bool
	// SilentNamespace creates a missing namespace, with a new volume, whatever is applied.
	SilentNamespace bool
	// SilentVolume creates a missing volume of an agent that ran.
	SilentVolume bool
	// ForgetGrowth reports a volume that could not grow as one that did.
	ForgetGrowth bool
	// FixedQuota keeps a quota as it was first applied.
	FixedQuota bool
	// AnyPod reports a pod of any configuration as the desired one.
	AnyPod bool
	// PruneAll prunes the objects of the present configuration, too.
	PruneAll bool
	// KeepLeftovers hides objects of former generations from the check of all agents' objects.
	KeepLeftovers bool
	// OverlookRoute hides a route that says the wrong thing from the check of all agents' objects.
	OverlookRoute bool
	// OwnerStarts makes the route of each agent without a pod say that only its owner starts it.
	OwnerStarts bool
	// NoHold runs the pod of an agent that is stopped for a snapshot.
	NoHold bool
	// NeverQuiet takes a snapshot of a volume that a pod uses, although a quiet one was asked for.
	NeverQuiet bool
	// CutEarly reports a snapshot as cut when it was asked for.
	CutEarly bool
	// AdoptOwned lets a new cell delete the data of snapshots that the former one may need.
	AdoptOwned bool
	// OwnUnbound deletes a snapshot that a cell adopted before the cell has found its data.
	OwnUnbound bool
	// NeverRetain deletes the data of a snapshot with the objects of a cell that the agent has left.
	NeverRetain bool
	// GoneAtOnce reports an agent whose deletion began as gone.
	GoneAtOnce bool
}

// cell is the cell of new agents, and otherCell one to which they can be moved.
const (
	cell      = "cell-1"
	otherCell = "cell-2"
)

// NewCluster returns an empty cluster.
func NewCluster(now func() time.Time, elapsed func() time.Duration) *Cluster {
	return &Cluster{
		name: cell, storage: newStorage(), now: now, elapsed: elapsed, namespaces: map[string]*namespace{},
		removed:   map[string]bool{},
		troubles:  map[string]trouble{},
		deletedBy: map[string][]string{},
		executed:  map[string]int{},
	}
}

// trouble is what is wrong with an agent's pod.
func (c *Cluster) trouble(id string) trouble {
	if n := c.namespaces[id]; c.troubles[id] == healthy && c.flaw != nil && n != nil && n.pod != nil {
		return c.flaw(id, *n.pod)
	}
	return c.troubles[id]
}

// notify counts a change, so that the oracle looks.
func (c *Cluster) notify() { c.changes++ }

// find returns the namespace of an agent that accepts objects.
func (c *Cluster) find(id string) (*namespace, error) {
	n := c.namespaces[id]
	if n == nil && c.Rules.SilentNamespace {
		if err := c.putNamespace(id); err != nil {
			return nil, err
		}
		n = c.namespaces[id]
		n.claims[0] = c.newClaim(0)
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
		configs: map[string]config{}, claims: map[int64]*claim{}, cuts: map[string]*cut{},
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
	if a.RunsPod() || a.WantsPod() && c.Rules.NoHold {
		replicas = 1
	}
	appliedAt := c.elapsed()
	if n.set != nil && n.set.generation == a.Generation {
		appliedAt = n.set.appliedAt
	}
	n.set = &statefulSet{a.Generation, replicas, c.templateOf(a), appliedAt, a.CredentialVersion, a.Asleep()}
	c.notify()
	return nil
}

// templateOf is what the pod of an agent is made of.
func (c *Cluster) templateOf(a agent.Agent) template {
	secret, configMap := c.names(Hash(a))
	return template{
		hash: Hash(a), secret: secret, configMap: configMap, sandbox: a.Sandbox, gated: a.Egress.Restricted(),
		image: a.Image.Reference,
		front: a.Front.Reference, size: a.Plan, volume: a.Volume.Number,
	}
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
	next.uids, next.Rules, next.fronts = c.uids, c.Rules, c.fronts
	next.storage = c.storage.clone()
	for id, n := range c.namespaces {
		copied := *n
		copied.stages, copied.configs = maps.Clone(n.stages), maps.Clone(n.configs)
		copied.claims, copied.cuts = cloneAll(n.claims), cloneAll(n.cuts)
		if n.set != nil {
			set := *n.set
			copied.set = &set
		}
		if n.pod != nil {
			p := *n.pod
			if p.process != nil {
				p.process = next.newFront()
			}
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
	for _, s := range c.namespaces[id].cuts {
		c.storage.release(s)
	}
	delete(c.namespaces, id)
	c.removed[id] = true
	c.order = slices.Sorted(maps.Keys(c.namespaces))
	c.notify()
}
