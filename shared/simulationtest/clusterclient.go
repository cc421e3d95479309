package simulationtest

import (
	"context"
	"slices"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/credential"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/provisioning"
)

// ClusterClient is one process's client of the cluster. It implements provisioning.Cluster.
type ClusterClient struct {
	Cluster *Cluster
	// Other is another cell; nil if there is none.
	Other   *Cluster
	Process Stepper
	// Name is the process's name.
	Name string
}

var _ provisioning.Cluster = ClusterClient{}

func unreachable() error {
	return fault.New(fault.Unavailable, "cluster_unavailable", "The agent's cluster is temporarily unavailable. Retry.")
}

// in returns the client of a cell.
func (c ClusterClient) in(name string) ClusterClient {
	if c.Other != nil && name == c.Other.name {
		c.Cluster, c.Other = c.Other, c.Cluster
	}
	return c
}

// call makes one call of the API server.
func (c ClusterClient) call(ctx context.Context, a agent.Agent, name string, do func() error) error {
	if a.Cell != c.Cluster.name {
		return unknownCell()
	}
	return portError(c.Process.Step(ctx, ClusterService, name, do), unreachable)
}

// look makes one call that only reads.
func (c ClusterClient) look(ctx context.Context, a agent.Agent, name string, do func() error) error {
	if a.Cell != c.Cluster.name {
		return unknownCell()
	}
	return portError(c.Process.Look(ctx, ClusterService, name, do), unreachable)
}

// Apply implements provisioning.Cluster: one call for each object of the stage.
func (c ClusterClient) Apply(ctx context.Context, a agent.Agent, stage agent.StageName,
	in provisioning.RuntimeInput,
) error {
	c = c.in(a.Cell)
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
		err := c.call(ctx, a, applyStep(stage), func() error { return c.Cluster.putStage(a, stage) })
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
