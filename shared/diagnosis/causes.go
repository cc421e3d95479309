package diagnosis

import (
	"fmt"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/image"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/secret"
)

// of makes the cause that a rule describes.
func (f Facts) of(r rule, evidence ...string) cause {
	return cause{
		rule: r, headline: r.title + ".", message: r.title + ".",
		evidence: append([]string{"status: " + string(f.Agent.Status)}, evidence...),
		steps:    f.allowed(r.youCan), weWill: r.trying, party: r.next,
	}
}

// failure explains the failure in the record.
func (f Facts) failure(failure agent.Failure) cause {
	a, r := f.Agent, ruleOf(failure.Code)
	if failure.Code == imagePullFailed && a.Image.ID == image.CustomID {
		r = customImagePullFailed()
	}
	c := f.of(r)
	if message := publicMessage(failure.Code, failure.Message, f.Caller.Admin()); message != "" {
		c.message = message
	}
	if failure.Stage != "" {
		c.evidence = append(c.evidence, "stage: "+string(failure.Stage))
	}
	o := failure.Observed
	if o.Restarts > 0 { // more since then, which the metrics count too
		o.Restarts = max(o.Restarts, int(a.PodRestarts.Seen))
	}
	c.evidence = append(c.evidence, observed(o)...)
	if failure.Observed.Exited && a.Sandbox && failure.Code != "out_of_memory" {
		c.evidence = append(c.evidence, "it runs in a sandbox")
		c.steps = append(c.steps, f.suspectSandbox())
	}
	if failure.Observed.Exited && a.Egress.Restricted() {
		c.evidence = append(c.evidence, "it may reach only the hosts that its egress rules allow")
	}
	if a.Attempts > 1 {
		c.evidence = append(c.evidence, fmt.Sprintf("failed attempts: %d", a.Attempts))
	}
	tries := "The service tries again until the agent runs or its deadline passes."
	if failure.Outage {
		tries = "The service tries again until it succeeds."
	}
	switch {
	case a.Status == agent.Error:
		c.party, c.weWill = c.ended, "The service has given up and makes no further attempt."
		if a.Recoverable() {
			c.weWill = "The service has given up. The cluster still has the pod: if it becomes ready and answers, " +
				"the agent returns to running."
		}
	case a.ApplyDue() && c.weWill == "":
		c.weWill = tries
	case a.ApplyDue():
		c.weWill += " " + tries
	default: // it runs without the change, or rests
		c.party, c.weWill = "", ""
	}
	if failure.Outage {
		c.party = Worker
	}
	return c
}

// suspectSandbox is the step for a container that exits in a sandbox: only its log can say that it misses a system
// call.
func (f Facts) suspectSandbox() Step {
	const why = `The agent runs in gVisor, which lacks some system calls. If its log says "Function not implemented", `
	if f.Agent.Image.ID == image.CustomID {
		return Step{ContactSupport, why + "ask for the image in the catalog: custom images run in the sandbox only."}
	}
	return Step{MoveOutOfSandbox, why + `run it without the sandbox. Its entry in the catalog can then say "kernel": "linux".`}
}

// publicMessage returns the record's message about a code. Members get the table's text if the record's may name a
// secret.
func publicMessage(code, message string, admin bool) string {
	if r := ruleOf(code); r.private && !admin {
		return r.title + "."
	}
	return message
}

// observed lists what the cluster reported about the pod.
func observed(o agent.Observation) []string {
	var facts []string
	if o.Reason != "" {
		facts = append(facts, "reason: "+o.Reason)
	}
	if o.Exited {
		facts = append(facts, fmt.Sprintf("exit code: %d", o.ExitCode))
	}
	if o.Restarts > 0 {
		facts = append(facts, fmt.Sprintf("restarts: %d", o.Restarts))
	}
	if o.Lacks != "" {
		facts = append(facts, "no machine has enough of: "+o.Lacks)
	}
	if !o.Since.IsZero() {
		facts = append(facts, "not ready since: "+o.Since.UTC().Format(time.RFC3339))
	}
	return facts
}

// rested explains an agent that a user paused or stopped, or that sleeps.
func (f Facts) rested() cause {
	if f.Agent.Asleep() {
		return f.asleep()
	}
	code := agentPaused
	if f.Agent.Status == agent.Stopped {
		code = agentStopped
	}
	c := f.of(ruleOf(code))
	if !f.Agent.ApplyDue() {
		c.party = c.ended
	}
	return c
}

// asleep explains an agent that sleeps. Nothing is left to do about it.
func (f Facts) asleep() cause {
	r, p := ruleOf(agentAsleep), f.Agent.Sleep
	if !p.WakesOn(agent.RequestWakes) {
		r.trying, r.youCan = "", r.youCan[1:]
	}
	evidence := []string{"status reason: idle"}
	for _, w := range p.WakeOn {
		evidence = append(evidence, "wakes on: "+string(w))
	}
	if p.AfterSeconds > 0 {
		evidence = append(evidence, fmt.Sprintf("sleeps after: %d s", p.AfterSeconds))
	}
	c := f.of(r, evidence...)
	c.party = ""
	return c
}

// deletion explains an agent that is being deleted.
func (f Facts) deletion() cause {
	c := f.of(ruleOf(agentDeleting))
	if failure := f.Agent.Failure; failure != nil {
		why := ruleOf(failure.Code)
		c.message += " " + publicMessage(failure.Code, failure.Message, f.Caller.Admin())
		c.evidence = append(c.evidence, "last problem: "+failure.Code)
		c.party = why.next
		if failure.Outage {
			c.party = Worker
		}
	} else if f.Agent.AppliedAt.IsZero() {
		c.party = Worker
	}
	return c
}

// withheld explains an agent that the service has paused because of the organization's account.
func (f Facts) withheld() cause {
	code, evidence := billingRequired, []string{"status reason: billing"}
	if f.Account != nil {
		evidence = append(evidence, "organization status: "+string(f.Account.Status))
		switch f.Account.Status {
		case organization.PastDue:
			code = paymentOverdue
		case organization.Suspended:
			code = suspended
		case organization.Active:
			code = overCapacity
		}
	}
	return f.of(ruleOf(code), evidence...)
}

// usualStart is the time after which most agents run.
const usualStart = time.Minute

// slowStart explains an agent that is being started for longer than usual without a failure.
func (f Facts) slowStart() (c cause, slow bool) {
	a := f.Agent
	if a.Failure != nil || !a.BeingProvisioned() || f.Now.Sub(f.startedAt()) < usualStart {
		return cause{}, false
	}
	c = f.of(ruleOf(slowStart))
	if left := a.Unfinished(); len(left) > 0 {
		c.evidence = append(c.evidence, "stage: "+string(left[0]))
	}
	if a.Waits() {
		c.party = Cluster
	}
	return c, true
}

// operations explains the secret operations that need attention. Operations that wait for the agent's own problem are
// left out.
func (f Facts) operations() []cause {
	var causes []cause
	for _, o := range f.Agent.Operations {
		failed := o.Status == secret.Failed
		waits := o.Open() && o.ErrorCode != "" && o.ErrorCode != "agent_not_running" && f.Agent.Failure == nil
		if failed || waits {
			causes = append(causes, f.operation(o))
		}
	}
	return causes
}

func (f Facts) operation(o secret.Operation) cause {
	code := o.ErrorCode
	if code == "" {
		code = "internal_error"
	}
	r := ruleOf(code)
	c := f.of(r, "error code: "+code, "stage of the change: "+string(o.Stage))
	what := "A change of a secret"
	switch {
	case o.Action == secret.Rotate:
		what = "The rotation of the credentials"
	case f.Caller.Admin():
		name, _ := secret.Name(o.Key)
		what = "The change of the secret " + name
	}
	verb := "waits"
	if o.Status == secret.Failed {
		verb = "failed"
	}
	c.message = fmt.Sprintf("%s %s at the stage %s: %s.", what, verb, o.Stage, r.title)
	c.headline = c.message
	if f.Caller.Admin() {
		c.evidence = append(c.evidence, "secret operation: "+o.ID)
	}
	if o.Status == secret.Failed {
		c.party, c.weWill = User, ""
		if code != "secret_value_unavailable" {
			retry := Step{Reconcile, "Retry the step that failed. It needs no value."}
			c.steps = append(f.allowed([]Step{retry}), c.steps...)
		}
	}
	return c
}
