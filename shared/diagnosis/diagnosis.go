// Package diagnosis explains why an agent does not run as it should, what its user can do, and what the control plane
// does and when. It judges the agent's record and events; it reads nothing and changes nothing.
package diagnosis

import (
	"slices"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/billing"
	"agents.example/controlplane/shared/egress"
	"agents.example/controlplane/shared/event"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/plan"
)

// View is the diagnosis that clients receive.
type View struct {
	AgentID       string       `json:"agent_id" jsonschema:"The agent's id."`
	Summary       string       `json:"summary" jsonschema:"The answer in a few sentences, for people."`
	Status        agent.Status `json:"status"`
	WaitingFor    *Party       `json:"waiting_for" jsonschema:"Who acts next; null if nothing is left to do."`
	Since         time.Time    `json:"since" jsonschema:"When the present situation began, as far as the record says."`
	NextAttemptAt *time.Time   `json:"next_attempt_at" jsonschema:"When the control plane acts next. Null if it has nothing to do, and while it acts or is about to."`
	GivesUpAt     *time.Time   `json:"gives_up_at" jsonschema:"When the agent ends in error unless it runs; null if no deadline is set."`
	Causes        []Cause      `json:"causes" jsonschema:"The problems, the most important one first; empty without a problem."`
	Image         *Image       `json:"image" jsonschema:"What the agent's container runs; null if the agent's record does not name it yet."`
	Timeline      []Moment     `json:"timeline" jsonschema:"What happened to the agent, the oldest first: its newest 50 events, and before them what its record remembers. Events are kept for 30 days."`
}

// AmendSchema adds formats that the types of the fields do not imply.
func (View) AmendSchema(s *jsonschema.Schema) { s.Properties["agent_id"].Format = "uuid" }

// Cause is one problem.
type Cause struct {
	Code     string   `json:"code" jsonschema:"Names the problem for programs, such as pod_crash_loop. New codes may be added."`
	Message  string   `json:"message" jsonschema:"What is wrong, for people."`
	Evidence []string `json:"evidence" jsonschema:"The facts from which the problem follows."`
	YouCan   []Step   `json:"you_can" jsonschema:"What a user can do, the best step first. Every action is possible in the agent's status."`
	WeWill   *string  `json:"we_will" jsonschema:"What the service does without the user; null if it does nothing."`
}

// Step is something that a user can do.
type Step struct {
	Action Action `json:"action" jsonschema:"Names the step for programs. New actions may be added."`
	Text   string `json:"text" jsonschema:"The step in a sentence."`
}

// Party is who acts next.
type Party string

// The parties.
const (
	Worker  Party = "worker"  // the control plane itself
	Cluster Party = "cluster" // the agent's cluster
	Program Party = "agent"   // the program that runs as the agent
	User    Party = "user"    // an admin of the organization
	Billing Party = "billing" // whoever pays for the organization
	Support Party = "support" // the operator of the service
)

// Values lists the parties.
func (Party) Values() []string {
	return []string{string(Worker), string(Cluster), string(Program), string(User), string(Billing), string(Support)}
}

// Facts are what a diagnosis follows from.
type Facts struct {
	Agent agent.Agent
	// Events are the newest events about the agent, the oldest first. See EventFilter.
	Events []event.Event
	// Reached are the hosts that the agent reached or was refused; nil if they were not read. See NeedsEgressLog.
	Reached []egress.Count
	// Account explains why an agent is paused for billing; nil if it was not read.
	Account *billing.Account
	// Caller decides what is shown: members see no names of secrets and of hosts.
	Caller identity.Caller
	Now    time.Time
}

// EventFilter is the filter of the events that the diagnosis of an agent needs: the newest MaxEvents of them.
func EventFilter(agentID string, caller identity.Caller) event.Filter {
	return event.Filter{AgentID: agentID, MembersOnly: !caller.Admin()}
}

// NeedsAccount reports whether the diagnosis of an agent needs the organization's account.
func NeedsAccount(a agent.Agent) bool {
	return a.StatusReason == agent.Billing && a.Status == agent.Paused
}

// Of derives the diagnosis from facts.
func Of(f Facts) View {
	causes := f.causes()
	v := View{
		AgentID: f.Agent.ID, Status: f.Agent.Status, Since: f.since(), NextAttemptAt: f.nextAttempt(),
		GivesUpAt: f.givesUp(), Causes: make([]Cause, len(causes)), Timeline: f.timeline(),
		Image: f.image(),
	}
	if waits := f.waitingFor(causes); waits != "" {
		v.WaitingFor = &waits
	}
	for i, c := range causes {
		v.Causes[i] = c.show()
	}
	v.Summary = f.summary(causes)
	return v
}

// Example implements function.Exampler.
func (View) Example() any {
	now := time.Date(2026, time.March, 2, 9, 40, 0, 0, time.UTC)
	a := agent.New("0b7c2a54-6f1d-4d0e-9c1b-2f6d3a8e5b90", "us-central1-1", agent.Draft{
		Name: "Support assistant", Plan: plan.Hobby,
	}, now.Add(-10*time.Minute))
	a.GiveUp(agent.Failure{
		Code: "pod_crash_loop", Stage: agent.StageReady,
		Message:  "The agent exits soon after it starts: exit code 1. Check its variables and secrets.",
		Observed: agent.Observation{Reason: "Error", Exited: true, ExitCode: 1, Restarts: 4},
	}, now)
	return Of(Facts{Agent: a, Now: now})
}

// cause is a problem of the agent, as its rule and its facts make it.
type cause struct {
	rule
	// headline is the cause in a sentence, for the summary.
	headline string
	message  string
	evidence []string
	steps    []Step
	// weWill is what the control plane does about this problem now.
	weWill string
	// party is who acts next about it; "" if nothing is left to do.
	party Party
}

func (c cause) show() Cause {
	shown := Cause{Code: c.code, Message: c.message, Evidence: c.evidence, YouCan: c.steps}
	if shown.Evidence == nil {
		shown.Evidence = []string{}
	}
	if shown.YouCan == nil {
		shown.YouCan = []Step{}
	}
	if c.weWill != "" {
		shown.WeWill = &c.weWill
	}
	return shown
}

// causes lists the problems, the most important one first.
func (f Facts) causes() []cause {
	a := f.Agent
	switch {
	case a.Status == agent.Deleting:
		return []cause{f.deletion()}
	case NeedsAccount(a):
		return []cause{f.withheld()}
	}
	var causes []cause
	if a.Failure != nil {
		causes = append(causes, f.failure(*a.Failure))
	} else if a.Status == agent.Error {
		causes = append(causes, f.failure(agent.Failure{Code: "internal_error", Retryable: true}))
	}
	if c, found := f.refusals(); found {
		causes = append(causes, c)
	}
	if a.Status == agent.Paused || a.Status == agent.Stopped {
		causes = append(causes, f.rested())
	}
	if c, slow := f.slowStart(); slow {
		causes = append(causes, c)
	}
	return append(causes, f.operations()...)
}

// optional returns nil for a zero time.
func optional(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return new(t.UTC())
}

// allowed leaves out the steps that the agent's status does not allow. tryAgain becomes the action that starts or
// restarts it, under the name that the action has.
func (f Facts) allowed(steps []Step) []Step {
	var kept []Step
	for _, s := range steps {
		if s.Action == tryAgain {
			if slices.Contains(f.Agent.AllowedActions(), agent.Start) {
				s.Action = Start
			} else {
				s = Step{Restart, restarting().Replace(s.Text)}
			}
		}
		if f.allows(s.Action) {
			kept = append(kept, s)
		}
	}
	return kept
}

// restarting turns the texts of tryAgain into those of a restart.
func restarting() *strings.Replacer {
	return strings.NewReplacer("start it again", "restart it", "Start it again", "Restart it",
		"start the agent again", "restart the agent", "start the agent with", "restart the agent with")
}

func (f Facts) allows(action Action) bool {
	a := f.Agent
	switch action {
	case Restart, Start, Resume, Stop:
		return slices.Contains(a.AllowedActions(), agent.Trigger(action))
	case ReadLogs, ReadPreviousLogs, ViewMetrics:
		return a.WantsPod() || a.Status == agent.Error
	case RestoreSnapshot:
		return a.Status != agent.Deleting && a.StoppedFor == "" && slices.ContainsFunc(a.Snapshots,
			func(s agent.Snapshot) bool { return s.Status == agent.SnapshotReady })
	case Update, SetSecret, Reconcile, MoveOutOfSandbox, AllowHosts:
		return a.Status != agent.Deleting
	default:
		return true
	}
}
