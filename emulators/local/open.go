package main

import (
	"context"
	"fmt"
	"net"
	"strings"

	"agents.example/controlplane/emulators/cloud"
	"agents.example/controlplane/emulators/command"
	"agents.example/controlplane/shared/client"
)

// open prints a link that opens an agent's dashboard in a browser.
func open(ctx context.Context, args []string) error {
	flags := command.NewFlags("open [agent id]", "Prints a link that opens an agent's dashboard in a browser, once, "+
		"within 60 s. Without an id, it is the agent created last.")
	ready := readyFlag(flags)
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 1 {
		return fmt.Errorf("open takes one agent id, not %q", flags.Args())
	}
	facts, err := readFacts(ctx, *ready)
	if err != nil {
		return err
	}
	id := flags.Arg(0)
	if id == "" {
		if id, err = newestAgent(ctx, facts); err != nil {
			return err
		}
	}
	link, err := dashboardLink(ctx, facts, id)
	if err != nil {
		return err
	}
	fmt.Println(link)
	return nil
}

// readFacts reads the description of a cloud; an empty path is that of the cloud started last. The file outlives its
// cloud.
func readFacts(ctx context.Context, path string) (cloud.Ready, error) {
	if path == "" {
		latest, err := latestFile()
		if err != nil {
			return cloud.Ready{}, err
		}
		path = latest
	}
	facts, err := cloud.ReadFile(path)
	if err != nil {
		return facts, fmt.Errorf("%w; start a cloud with `go run ./emulators`", err)
	}
	connection, err := new(net.Dialer).DialContext(ctx, "tcp", strings.TrimPrefix(facts.BaseURL, "http://"))
	if err != nil {
		return facts, fmt.Errorf("the local cloud of %s does not answer: %w; start one with `go run ./emulators`", path,
			err)
	}
	return facts, connection.Close()
}

// dashboardLink signs in as an admin, because API keys get no links, and asks for one.
func dashboardLink(ctx context.Context, facts cloud.Ready, id string) (string, error) {
	session, err := requestToken(ctx, facts.Issuer, facts.Admin())
	if err != nil {
		return "", err
	}
	c, err := client.New(facts.BaseURL, client.StaticToken(session))
	if err != nil {
		return "", err
	}
	a, err := c.GetAgent(ctx, id, client.GetAgentParams{})
	if err != nil {
		return "", err
	}
	if a.DashboardHandoffURL == nil {
		return "", fmt.Errorf("agent %s is %s: only a running agent has a link", id, a.Status)
	}
	return *a.DashboardHandoffURL, nil
}

// newestAgent returns the id of the running agent that was created last.
func newestAgent(ctx context.Context, facts cloud.Ready) (string, error) {
	c, err := client.New(facts.BaseURL, client.StaticToken(facts.APIKey))
	if err != nil {
		return "", err
	}
	newest, err := c.ListAgents(client.ListAgentsParams{Limit: 1, Status: client.AgentStatusRunning}).Page(ctx)
	if err != nil {
		return "", err
	}
	if len(newest.Items) == 0 {
		return "", fmt.Errorf("no agent is running: create one with POST %s/api/v1/agents", facts.BaseURL)
	}
	return newest.Items[0].ID, nil
}
