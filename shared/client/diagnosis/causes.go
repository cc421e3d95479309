package diagnosis

import (
	"fmt"
	"slices"

	"agents.example/controlplane/shared/client"
)

// statusCauses returns the problems that the agent's record and its probe show.
func (f Facts) statusCauses() []Cause {
	a := f.Agent
	switch a.Status {
	case client.AgentStatusPaused, client.AgentStatusStopped:
		return []Cause{f.heldCause()}
	case client.AgentStatusDeleting:
		return []Cause{{
			Code: "agent_deleting", Message: "A deletion cannot be undone.",
			Evidence: []string{"status: deleting"}, YouCan: steps(Wait, "Create another agent if you still need one."),
			WeWill: "The deletion continues until nothing of the agent is left.",
		}}
	case client.AgentStatusError, client.AgentStatusPending, client.AgentStatusProvisioning, client.AgentStatusRunning:
	}
	var causes []Cause
	if e := a.Config.Error; e != nil {
		causes = append(causes, f.failureCause(*e))
	} else if a.Status == client.AgentStatusError {
		causes = append(causes, f.failureCause(client.AgentFailure{
			Code: "unknown", Message: "The record does not say why.", Retryable: true,
		}))
	}
	if c := f.probeCause(); c != nil {
		causes = append(causes, *c)
	}
	return causes
}

// failureCause explains the failure in the record.
func (f Facts) failureCause(e client.AgentFailure) Cause {
	c := Cause{
		Code: e.Code, Message: e.Message, Evidence: []string{"config.error: " + e.Code},
		YouCan: f.allowed(remedies(e.Code)),
	}
	if e.Stage != "" {
		c.Evidence = append(c.Evidence, "stage: "+e.Stage)
	}
	if s := f.currentStage(); s != nil && s.Attempt > 1 {
		c.Evidence = append(c.Evidence, fmt.Sprintf("attempt %d of the stage %s", s.Attempt, s.Name))
	}
	switch f.Agent.Status {
	case client.AgentStatusError:
		c.WeWill = "No further attempt is made. The agent returns to running if its pod becomes ready and answers."
	case client.AgentStatusRunning:
		c.WeWill = "The control plane keeps trying if the problem is temporary. " +
			"It has reverted the change if the message says so."
	default:
		c.WeWill = "The control plane tries again until the agent runs or its deadline passes."
	}
	return c
}

// heldCause explains why a paused or stopped agent does not run.
func (f Facts) heldCause() Cause {
	a := f.Agent
	verb, step := "paused", Step{Resume, "Resume the agent. It keeps its data; the pod starts again."}
	if a.Status == client.AgentStatusStopped {
		verb, step = "stopped", Step{Start, "Start the agent. The plan must have room for its CPU and memory."}
	}
	c := Cause{
		Code: "agent_" + verb, Message: "A user or a program " + verb + " it.",
		Evidence: []string{"status: " + string(a.Status)}, YouCan: f.allowed([]Step{step}),
	}
	if r := a.Config.StatusReason; r != nil && *r == client.AgentStatusReasonBilling {
		c.Evidence = append(c.Evidence, "config.status_reason: billing")
		f.explainBilling(&c)
	}
	return c
}

// explainBilling fills in why the organization's account allows no pod.
func (f Facts) explainBilling(c *Cause) {
	c.Code = "billing_required"
	c.Message = "The control plane paused it because of the organization's account."
	c.YouCan = []Step{{ManageBilling, "Ask an admin to look at the organization's subscription and open payments."}}
	c.WeWill = "The agent resumes when the account allows it."
	if f.Organization == nil {
		return
	}
	c.Evidence = append(c.Evidence, "organization status: "+string(f.Organization.Status))
	switch f.Organization.Status {
	case client.OrganizationStatusPastDue:
		c.Code, c.Message = "subscription_past_due", "A payment of the organization is overdue."
		c.YouCan = []Step{{ManageBilling, "Ask an admin to pay the open amount."}}
	case client.OrganizationStatusSuspended:
		c.Message = "The organization is suspended."
		c.YouCan = []Step{{ContactSupport, "Contact support."}}
	case client.OrganizationStatusActive:
		c.Code, c.Message = "plan_capacity_exceeded", "The organization's agents do not fit into its plan."
		c.YouCan = []Step{
			{ManageBilling, "Ask an admin for a larger plan, or stop or delete other agents."},
		}
	}
}

// probeCause explains why a running agent cannot be reached; nil if it can, or if that is only because it restarts.
func (f Facts) probeCause() *Cause {
	p := f.Reachability
	if p == nil || p.Reachable || f.Agent.Status != client.AgentStatusRunning || f.Agent.Config.Error != nil {
		return nil
	}
	if p.Reason == client.DashboardReachabilityReasonWarming || p.DashboardWarming {
		return nil
	}
	c := &Cause{
		Code:     "unreachable_" + string(p.Reason),
		Evidence: []string{"dashboard reachability: " + string(p.Reason)},
		YouCan: f.allowed([]Step{
			{ReadLogs, "Read the agent's log."},
			{Restart, "Restart the agent. It is unavailable while the pod starts."},
		}),
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
		c.YouCan = []Step{
			{Wait, "Wait a few minutes."}, {ContactSupport, "Contact support if this persists."},
		}
	default:
		c.Message = "Its pod runs, but it does not accept connections."
	}
	return c
}

// operationCauses returns the secret operations that need attention. Of several for one key only the newest counts.
func (f Facts) operationCauses() []Cause {
	var causes []Cause
	seen := map[string]bool{}
	for _, o := range f.Operations {
		if seen[o.Key] {
			continue
		}
		seen[o.Key] = true
		if c := f.operationCause(o); c != nil {
			causes = append(causes, *c)
		}
	}
	return causes
}

func (f Facts) operationCause(o client.SecretOperation) *Cause {
	open := o.Status == client.SecretOperationStatusPending || o.Status == client.SecretOperationStatusRunning
	failed := o.Status == client.SecretOperationStatusFailed
	if !failed && (!open || o.ErrorCode == nil) {
		return nil
	}
	code := "internal_error"
	if o.ErrorCode != nil {
		code = *o.ErrorCode
	}
	if code == "agent_not_running" {
		return nil // it completes at the next start
	}
	c := &Cause{
		Code: "secret_operation_" + string(o.Status),
		Message: fmt.Sprintf("The operation to %s %s is %s at the stage %s: %s.",
			o.Action, o.Key, o.Status, o.Stage, code),
		Evidence: []string{"operation " + o.ID, "error_code: " + code},
	}
	switch {
	case code == "secret_value_unavailable":
		c.YouCan = []Step{{SetSecret, "Set " + o.Key + " again. The value of the failed request was not stored."}}
	case failed:
		c.YouCan = []Step{{Reconcile, "Reconcile the operation. It repeats the stage that failed, without the value."}}
	default:
		c.YouCan = []Step{{Wait, "Wait."}}
		c.WeWill = "The control plane repeats the stage."
	}
	return c
}

// allowed leaves out the actions that the agent's status does not allow. It never leaves out all steps.
func (f Facts) allowed(all []Step) []Step {
	of := map[Action]client.AgentAction{
		Restart: client.AgentActionRestart, Start: client.AgentActionStart, Resume: client.AgentActionResume,
	}
	kept := slices.DeleteFunc(slices.Clone(all), func(s Step) bool {
		action, limited := of[s.Action]
		return limited && !slices.Contains(f.Agent.Config.AllowedActions, action)
	})
	if len(kept) == 0 {
		return []Step{{Wait, "Wait until the present change ends."}}
	}
	return kept
}

func steps(action Action, text string) []Step { return []Step{{action, text}} }
