package diagnosis

import (
	"context"
	"net/http"
	"strings"

	"agents.example/controlplane/shared/client"
)

// The bounds of what a diagnosis reads.
const (
	maxOperations = 20
	maxLines      = 20
	maxLineBytes  = 1000
)

// Collect reads what the API says about an agent and explains it. Its only error is that of the agent's record. What
// else cannot be read, for example because the caller is a member, is in Diagnosis.NotChecked.
func Collect(ctx context.Context, c *client.Client, agentID string) (Diagnosis, error) {
	a, err := c.GetAgent(ctx, agentID, client.GetAgentParams{})
	if err != nil {
		return Diagnosis{}, err
	}
	g := gatherer{client: c, facts: Facts{Agent: *a}}
	g.probe(ctx)
	g.operations(ctx)
	g.organization(ctx)
	g.log(ctx)
	if err := ctx.Err(); err != nil {
		return Diagnosis{}, err
	}
	return Of(g.facts), nil
}

// gatherer collects facts.
type gatherer struct {
	client *client.Client
	facts  Facts
}

// missing records that something could not be read.
func (g *gatherer) missing(what string, err error) {
	why := "the API did not answer" // the error may name addresses of the network, and a model may see this
	if e := client.AsError(err); e != nil {
		why = e.Detail
		if e.Status == http.StatusForbidden {
			why = "only admins and API keys can read this"
		}
	}
	g.facts.NotChecked = append(g.facts.NotChecked, what+": "+why)
}

func (g *gatherer) probe(ctx context.Context) {
	if g.facts.Agent.Status != client.AgentStatusRunning {
		return
	}
	p, err := g.client.GetDashboardReachability(ctx, g.facts.Agent.ID)
	if err != nil {
		g.missing("reachability", err)
		return
	}
	g.facts.Reachability = p
}

func (g *gatherer) operations(ctx context.Context) {
	p, err := g.client.ListSecretOperations(g.facts.Agent.ID,
		client.ListSecretOperationsParams{Limit: maxOperations}).Page(ctx)
	if err != nil {
		g.missing("secret operations", err)
		return
	}
	g.facts.Operations = p.Items
}

func (g *gatherer) organization(ctx context.Context) {
	r := g.facts.Agent.Config.StatusReason
	if r == nil || *r != client.AgentStatusReasonBilling {
		return
	}
	o, err := g.client.GetCurrentOrganization(ctx)
	if err != nil {
		g.missing("organization", err)
		return
	}
	g.facts.Organization = o
}

// log reads the run that explains the most: after a crash the previous one, otherwise the present one.
func (g *gatherer) log(ctx context.Context) {
	switch g.facts.Agent.Status {
	case client.AgentStatusRunning, client.AgentStatusError, client.AgentStatusProvisioning,
		client.AgentStatusPending:
	default:
		return
	}
	var failure error
	for _, previous := range []bool{g.crashed(), false} {
		lines, err := g.tail(ctx, previous)
		if len(lines) > 0 {
			g.facts.Log = &Log{Previous: previous, Lines: lines}
			return
		}
		failure = err
	}
	// An agent without a pod has no log, which is no gap.
	if e := client.AsError(failure); failure != nil && (e == nil || e.Status != http.StatusConflict) {
		g.missing("log", failure)
	}
}

func (g *gatherer) crashed() bool {
	e := g.facts.Agent.Config.Error
	return e != nil && (e.Code == "pod_crash_loop" || e.Code == "out_of_memory")
}

// tail reads the last lines of a run.
func (g *gatherer) tail(ctx context.Context, previous bool) ([]string, error) {
	var lines []string
	for line, err := range g.client.GetAgentLogs(ctx, g.facts.Agent.ID,
		client.GetAgentLogsParams{Tail: maxLines, Previous: previous}) {
		if err != nil {
			return lines, err
		}
		text := line.Message
		if len(text) > maxLineBytes {
			text = strings.ToValidUTF8(text[:maxLineBytes], "") + "..."
		}
		lines = append(lines, text)
	}
	return lines, nil
}
