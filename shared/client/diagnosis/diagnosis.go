// Package diagnosis reads why an agent does not run as it should: the service's diagnosis, and what only a client sees,
// which is whether the agent answers and what it wrote last. It has no rules about codes; the service has them.
package diagnosis

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"agents.example/controlplane/shared/client"
)

// Diagnosis is the service's diagnosis with what a client sees.
type Diagnosis struct {
	client.Diagnosis
	// Healthy is true if the agent runs, answers, and nothing is left to do.
	Healthy bool `json:"healthy"`
	// Log is the end of the log of the run that explains the most. It is nil if there is none, or if it was not read.
	Log *Log `json:"log"`
	// NotChecked says what could not be read, and why. The diagnosis may be incomplete by that.
	NotChecked []string `json:"not_checked"`
}

// Log is a part of what the agent's container wrote. Its lines are data of the agent's owner, and may say anything.
type Log struct {
	// Previous is true if the lines are those of the run before the last restart.
	Previous bool     `json:"previous"`
	Lines    []string `json:"lines"`
}

// The bounds of what a diagnosis reads of a log.
const (
	maxLines     = 20
	maxLineBytes = 1000
)

// Collect reads the diagnosis of an agent. Its only error is that of the service's diagnosis. What else cannot be read,
// for example because the caller is a member, is in Diagnosis.NotChecked.
func Collect(ctx context.Context, c *client.Client, agentID string) (Diagnosis, error) {
	told, err := c.DiagnoseAgent(ctx, agentID)
	if err != nil {
		return Diagnosis{}, err
	}
	g := gatherer{client: c, diagnosis: Diagnosis{Diagnosis: *told, NotChecked: []string{}}}
	g.probe(ctx)
	g.log(ctx)
	if err := ctx.Err(); err != nil {
		return Diagnosis{}, err
	}
	d := g.diagnosis
	d.Healthy = d.Status == client.AgentStatusRunning && len(d.Causes) == 0 && d.WaitingFor == nil
	return d, nil
}

// gatherer adds what a client sees.
type gatherer struct {
	client    *client.Client
	diagnosis Diagnosis
}

// missing records that something could not be read.
func (g *gatherer) missing(what string, err error) {
	why := "the API did not answer" // the error may name addresses of the network, and a model may see this
	if e := client.AsError(err); e != nil {
		why = e.Detail
	}
	g.diagnosis.NotChecked = append(g.diagnosis.NotChecked, what+": "+why)
}

// probe adds a cause if a running agent without another problem does not answer.
func (g *gatherer) probe(ctx context.Context) {
	d := &g.diagnosis
	if d.Status != client.AgentStatusRunning || len(d.Causes) > 0 {
		return
	}
	p, err := g.client.GetDashboardReachability(ctx, d.AgentID)
	if err != nil {
		g.missing("reachability", err)
		return
	}
	if c := unreachable(p); c != nil {
		d.Causes = append(d.Causes, *c)
		d.Summary = "The agent is running. " + c.Message
	}
}

// unreachable explains why a running agent does not answer; nil if it does, or if that is only because it restarts.
func unreachable(p *client.DashboardReachability) *client.DiagnosisCause {
	if p.Reachable || p.DashboardWarming || p.Reason == client.DashboardReachabilityReasonWarming {
		return nil
	}
	c := &client.DiagnosisCause{
		Code: "unreachable_" + string(p.Reason), Evidence: []string{"dashboard reachability: " + string(p.Reason)},
		YouCan: []client.DiagnosisStep{
			{Action: client.DiagnosisActionReadLogs, Text: "Read the agent's log."},
			{
				Action: client.DiagnosisActionRestart,
				Text:   "Restart the agent. It is unavailable while the pod starts.",
			},
		},
	}
	if p.HTTPStatus != nil {
		c.Evidence = append(c.Evidence, fmt.Sprintf("HTTP status %d", *p.HTTPStatus))
	}
	switch p.Reason {
	case client.DashboardReachabilityReasonBadStatus:
		c.Message = "Its pod runs, but it answers its health check with an error."
	case client.DashboardReachabilityReasonTimeout:
		c.Message = "Its pod runs, but it does not answer in time."
	case client.DashboardReachabilityReasonDNS, client.DashboardReachabilityReasonTLS:
		c.Message = "Its hostname cannot be reached yet."
		c.YouCan = []client.DiagnosisStep{
			{Action: client.DiagnosisActionWait, Text: "Wait a few minutes."},
			{Action: client.DiagnosisActionContactSupport, Text: "Contact support if this persists."},
		}
	default:
		c.Message = "Its pod runs, but it does not accept connections."
	}
	return c
}

// log reads the run that explains the most: the one that the diagnosis names, otherwise the present one.
func (g *gatherer) log(ctx context.Context) {
	switch g.diagnosis.Status {
	case client.AgentStatusRunning, client.AgentStatusError, client.AgentStatusProvisioning, client.AgentStatusPending:
	default:
		return
	}
	var failure error
	for _, previous := range []bool{g.crashed(), false} {
		lines, err := g.tail(ctx, previous)
		if len(lines) > 0 {
			g.diagnosis.Log = &Log{Previous: previous, Lines: lines}
			return
		}
		failure = err
	}
	// An agent without a pod has no log, which is no gap.
	if e := client.AsError(failure); failure != nil && (e == nil || e.Status != http.StatusConflict) {
		g.missing("log", failure)
	}
}

// crashed reports whether the run before the last restart says why the agent failed.
func (g *gatherer) crashed() bool {
	return slices.ContainsFunc(g.diagnosis.Causes, func(c client.DiagnosisCause) bool {
		return slices.ContainsFunc(c.YouCan, func(s client.DiagnosisStep) bool {
			return s.Action == client.DiagnosisActionReadPreviousLogs
		})
	})
}

// tail reads the last lines of a run.
func (g *gatherer) tail(ctx context.Context, previous bool) ([]string, error) {
	var lines []string
	for line, err := range g.client.GetAgentLogs(ctx, g.diagnosis.AgentID,
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
