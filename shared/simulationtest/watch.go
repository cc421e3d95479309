package simulationtest

import (
	"context"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/provisioning"
)

// CheckReady implements provisioning.Cluster.
func (c ClusterClient) CheckReady(ctx context.Context, a agent.Agent) error {
	c = c.in(a.Cell)
	return c.look(ctx, a, "get pod", func() error {
		hash := Hash(a)
		if c.Cluster.Rules.AnyPod {
			hash = ""
		}
		if failure := c.Cluster.judge(a.ID, hash); failure != nil {
			return failure
		}
		return nil
	})
}

// judge returns why the pod of a configuration is not ready, or nil. An empty hash stands for any configuration.
func (c *Cluster) judge(id, hash string) *provisioning.PodFailure {
	n := c.namespaces[id]
	if n != nil && n.pod != nil && (hash == "" || n.pod.hash == hash) {
		if n.pod.ready {
			return nil
		}
		if n.pod.started && c.trouble(id) == crashLoop {
			return &provisioning.PodFailure{
				Code: "pod_crash_loop", Message: "The container ends again and again.", Permanent: true,
			}
		}
	}
	f := &provisioning.PodFailure{
		Code: "readiness_timeout", Message: "The pod is not ready.",
		Repairable: n == nil || n.pod == nil || hash != "" && n.pod.hash != hash || !n.pod.started,
	}
	if n != nil && n.pod != nil {
		f.Since = n.pod.since
	}
	return f
}

// Delete implements provisioning.Cluster.
func (c ClusterClient) Delete(ctx context.Context, a agent.Agent) error {
	c = c.in(a.Cell)
	return c.call(ctx, a, "delete namespace", func() error {
		c.Cluster.deleteNamespace(a.ID, "", c.Name)
		return nil
	})
}

// CheckGone implements provisioning.Cluster.
func (c ClusterClient) CheckGone(ctx context.Context, a agent.Agent) (found provisioning.Gone, err error) {
	c = c.in(a.Cell)
	err = c.look(ctx, a, "get namespace", func() error {
		n := c.Cluster.namespaces[a.ID]
		if n == nil {
			c.Cluster.removed[a.ID] = true // or was not made yet
		}
		gone := n == nil || c.Cluster.Rules.KeepNamespace || c.Cluster.Rules.GoneAtOnce
		found = provisioning.Gone{Namespace: gone, Volume: gone, Snapshots: gone}
		return nil
	})
	return found, err
}

// PodClient is one process's client for lists of the cluster. It implements provisioning.PodLister and
// provisioning.NamespaceLister.
type PodClient ClusterClient

var (
	_ provisioning.PodLister       = PodClient{}
	_ provisioning.NamespaceLister = PodClient{}
)

// Cells implements provisioning.PodLister.
func (c PodClient) Cells() []string {
	if c.Other != nil {
		return []string{c.Cluster.name, c.Other.name}
	}
	return []string{c.Cluster.name}
}

// Pods implements provisioning.PodLister.
func (c PodClient) Pods(ctx context.Context, in string) (pods []provisioning.Pod, err error) {
	c = PodClient(ClusterClient(c).in(in))
	err = ClusterClient(c).look(ctx, agent.Agent{Cell: in}, "list pods", func() error {
		for _, id := range c.Cluster.ids() {
			n := c.Cluster.namespaces[id]
			if n.pod == nil {
				continue
			}
			pods = append(pods, provisioning.Pod{
				AgentID: id, Config: n.pod.hash, Since: n.pod.since, Failure: c.Cluster.judge(id, ""),
				LastRun: n.pod.lastRun, Lost: n.pod.lost(),
			})
		}
		return nil
	})
	return pods, err
}

// Current implements provisioning.PodLister.
func (PodClient) Current(a agent.Agent, p provisioning.Pod) bool { return p.Config == Hash(a) }

// Existence implements provisioning.PodLister.
func (c PodClient) Existence(ctx context.Context, a agent.Agent) (found provisioning.Existence, err error) {
	c = PodClient(ClusterClient(c).in(a.Cell))
	err = ClusterClient(c).look(ctx, a, "get pod", func() error {
		if n := c.Cluster.namespaces[a.ID]; n != nil && !n.terminating {
			found = provisioning.Existence{Namespace: true, Pod: n.pod != nil}
		}
		return nil
	})
	return found, err
}

// Actions lists what controllers and the kubelet can do next for an agent's objects.
func (c *Cluster) Actions(elapsed time.Duration, actions []Action) []Action {
	for _, id := range c.ids() {
		n := c.namespaces[id]
		add := func(name string, do func()) {
			actions = append(actions, Action{name, short(id), func() { do(); c.changedBy(id) }})
		}
		switch {
		case n.terminating && n.pod != nil:
			add("kubelet ends pod", func() { n.pod = nil })
		case n.terminating:
			if elapsed >= n.stuckUntil {
				add("namespace is gone", func() { c.remove(id) })
			}
		case n.set == nil:
		case n.pod != nil && (n.set.replicas == 0 || n.pod.template != n.set.template):
			add("controller deletes pod", func() {
				if c.ended != nil {
					c.ended(id, n)
				}
				n.pod = nil
			})
		case n.pod == nil && n.set.replicas > 0 && n.admits(n.set.template.size):
			add("controller creates pod", func() {
				n.pod = &pod{template: n.set.template, createdAt: c.now(), since: c.now()}
			})
		case n.pod != nil && !n.pod.started && c.startable(n):
			add("kubelet starts container", func() { c.start(id, n) })
		case n.pod != nil && n.pod.started && n.pod.ready != (c.trouble(id) == healthy):
			add("readiness changes", func() { n.pod.ready, n.pod.since = !n.pod.ready, c.now() })
		}
	}
	return c.storageActions(actions)
}

// changedBy reports that controllers or the kubelet changed the objects of an agent.
func (c *Cluster) changedBy(id string) {
	c.notify()
	if c.observed != nil {
		c.observed(id)
	}
}

// short abbreviates an agent's id for traces.
func short(id string) string { return id[max(0, len(id)-4):] }

func (c *Cluster) startable(n *namespace) bool {
	_, hasSecret := n.configs[n.pod.secret]
	_, hasConfig := n.configs[n.pod.configMap]
	used := n.claims[n.pod.volume]
	return hasSecret && hasConfig && used != nil && c.provisionable(n, used)
}

// start starts the pod's container with the values that its objects have now.
func (c *Cluster) start(id string, n *namespace) {
	values := map[string]string{}
	for _, name := range []string{n.pod.secret, n.pod.configMap} {
		for key, value := range n.configs[name].values {
			values[key] = value
		}
	}
	n.pod.values, n.pod.started = values, true
	c.mount(id, n, n.claims[n.pod.volume])
	n.pod.ready, n.pod.since, n.pod.ran = c.trouble(id) == healthy, c.now(), c.now()
	n.pod.process = c.newFront()
}

// lost is when the agent ceased to serve before its pod became Ready.
func (p pod) lost() time.Time {
	if p.ended.IsZero() {
		return p.createdAt
	}
	return p.ended
}

// Disturbances lists what can go wrong with an agent's pod.
func (c *Cluster) Disturbances(actions []Action) []Action {
	for _, id := range c.ids() {
		n := c.namespaces[id]
		if n.terminating || n.pod == nil || !n.pod.started {
			continue
		}
		actions = append(actions,
			Action{"container restarts", short(id), func() {
				n.pod.lastRun, n.pod.ended = c.now().Sub(n.pod.ran), c.now()
				n.pod.ready, n.pod.started, n.pod.since = false, false, c.now()
				c.changedBy(id)
			}},
			Action{"pod is evicted", short(id), func() { n.pod = nil; c.changedBy(id) }})
	}
	return actions
}
