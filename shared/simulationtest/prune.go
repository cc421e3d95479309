package simulationtest

import (
	"context"
	"maps"
	"slices"
	"strings"

	"agents.example/controlplane/shared/agent"
)

// Prune implements provisioning.Cluster: one call for each object.
func (c ClusterClient) Prune(ctx context.Context, a agent.Agent) error {
	c = c.in(a.Cell)
	var leftover []string
	err := c.look(ctx, a, "list config maps", func() error {
		if n := c.Cluster.namespaces[a.ID]; n != nil {
			for _, name := range slices.Sorted(maps.Keys(n.configs)) {
				if strings.HasPrefix(name, configPrefix) && c.isLeftover(n, name, a) {
					leftover = append(leftover, name)
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, name := range leftover {
		for _, each := range []string{secretPrefix + strings.TrimPrefix(name, configPrefix), name} {
			if err := c.call(ctx, a, "delete former "+strings.Fields(each)[0], func() error {
				if n := c.Cluster.namespaces[a.ID]; n != nil && c.isLeftover(n, each, a) {
					delete(n.configs, each)
				}
				return nil
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

// isLeftover reports whether an object is an environment that only a former generation used.
func (c ClusterClient) isLeftover(n *namespace, name string, a agent.Agent) bool {
	hash := Hash(a)
	if c.Cluster.Rules.PruneAll {
		return true
	}
	return name != secretPrefix+hash && name != configPrefix+hash && n.configs[name].generation < a.Generation &&
		!c.Cluster.Rules.FixedNames
}
