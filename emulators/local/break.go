package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"agents.example/controlplane/emulators/cloud"
	"agents.example/controlplane/emulators/cluster"
	"agents.example/controlplane/emulators/command"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/client"
)

// heal is the fault of an agent that has none.
const heal = "none"

// breakAgent makes the pods of an agent fail, or heals them.
func breakAgent(ctx context.Context, args []string) error {
	faults := []string{heal}
	for _, f := range cluster.Faults() {
		faults = append(faults, string(f))
	}
	flags := command.NewFlags("break [AGENT] FAULT", "Makes the pods of an agent fail, to see what its owner sees. "+
		"AGENT is its id or name; without it, it is\nthe agent created last. FAULT is "+strings.Join(faults[1:], ", ")+
		",\nor "+heal+", which heals it.")
	ready := readyFlag(flags)
	if err := flags.Parse(args); err != nil {
		return err
	}
	fault := flags.Arg(flags.NArg() - 1)
	switch {
	case flags.NArg() < 1 || flags.NArg() > 2:
		return fmt.Errorf("break takes an agent and a fault, not %q", flags.Args())
	case !slices.Contains(faults, fault):
		return fmt.Errorf("%q is no fault; want one of %s", fault, strings.Join(faults, ", "))
	}
	facts, err := readFacts(ctx, *ready)
	if err != nil {
		return err
	}
	wanted := ""
	if flags.NArg() > 1 {
		wanted = flags.Arg(0)
	}
	a, err := findAgent(ctx, facts, wanted)
	if err != nil {
		return err
	}
	healed := fault == heal
	if healed {
		fault = ""
	}
	if err := setFault(ctx, facts.Kubeconfig, a.ID, cluster.Fault(fault)); err != nil {
		return err
	}
	if healed {
		fmt.Printf("%s is healed. If it is in error, start it: go run ./functions/cmd/agentctl agents start %s\n",
			a.Name, a.ID)
		return nil
	}
	fmt.Printf("%s suffers %s. Watch it in the console, or: go run ./functions/cmd/agentctl agents diagnose %s\n"+
		"Heal it: go run ./emulators break %s %s\n", a.Name, fault, a.ID, a.ID, heal)
	return nil
}

// findAgent returns the agent with an id or name. An empty one stands for the agent created last.
func findAgent(ctx context.Context, facts cloud.Ready, wanted string) (*client.Agent, error) {
	c, err := client.New(facts.BaseURL, client.StaticToken(facts.APIKey))
	if err != nil {
		return nil, err
	}
	if uuid.Validate(wanted) == nil {
		return c.GetAgent(ctx, wanted, client.GetAgentParams{})
	}
	found, err := c.ListAgents(client.ListAgentsParams{Limit: 2, Name: wanted}).Page(ctx)
	switch {
	case err != nil:
		return nil, err
	case len(found.Items) == 0 && wanted == "":
		return nil, fmt.Errorf("there is no agent: create one with POST %s/api/v1/agents", facts.BaseURL)
	case len(found.Items) == 0:
		return nil, fmt.Errorf("no agent has the name %q", wanted)
	case len(found.Items) > 1 && wanted != "":
		return nil, fmt.Errorf("several agents have the name %q: pass an id", wanted)
	}
	return &found.Items[0], nil
}

// setFault sets the fault of an agent's pods in a local cluster.
func setFault(ctx context.Context, kubeconfig, agentID string, fault cluster.Fault) error {
	objects, err := openCluster(kubeconfig)
	if err != nil {
		return err
	}
	defer objects.Close()
	_, err = objects.ConfigMaps(cluster.FaultsNamespace).Patch(ctx, cluster.FaultsConfigMap, types.MergePatchType,
		cluster.FaultPatch(agent.Namespace(agentID), fault), metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("only the local cloud's own cluster breaks agents: %w", err)
	}
	return err
}
