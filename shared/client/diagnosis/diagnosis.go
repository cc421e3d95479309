// Package diagnosis explains why an agent is not running as it should, and what its user can do. It judges what the
// public API says about the agent; it changes nothing.
package diagnosis

import (
	"time"

	"agents.example/controlplane/shared/client"
)

// Diagnosis is one answer to the questions why an agent is not running and what to do.
type Diagnosis struct {
	AgentID string `json:"agent_id"`
	// Summary is the answer in one or two sentences.
	Summary string             `json:"summary"`
	Status  client.AgentStatus `json:"status"`
	// Healthy is true if the agent runs, answers, and nothing is left to do.
	Healthy bool `json:"healthy"`
	// WaitingFor is what has to happen next without the user; empty if the agent waits for nothing or for the user.
	WaitingFor string `json:"waiting_for"`
	// Since is when the present situation began, as far as the record says.
	Since *time.Time `json:"since"`
	// Causes are the problems, the most important one first.
	Causes []Cause `json:"causes"`
	// Log is the end of the log of the run that explains the most. It is nil if there is none, or if it was not read.
	Log *Log `json:"log"`
	// NotChecked says what could not be read, and why. The diagnosis may be incomplete by that.
	NotChecked []string `json:"not_checked"`
}

// Cause is one problem.
type Cause struct {
	// Code names the problem for programs, such as pod_crash_loop. New codes may be added.
	Code    string `json:"code"`
	Message string `json:"message"`
	// Evidence lists the facts from which the problem follows.
	Evidence []string `json:"evidence"`
	// YouCan lists what the user can do, the best step first.
	YouCan []Step `json:"you_can"`
	// WeWill is what the control plane does without the user; empty if it does nothing.
	WeWill string `json:"we_will"`
}

// Step is something that the user can do.
type Step struct {
	Action Action `json:"action"`
	// Text is the step in a sentence.
	Text string `json:"text"`
}

// Action names the operation of a step, so that a program can name its own command for it.
type Action string

// The actions of steps.
const (
	Wait           Action = "wait"
	ReadLogs       Action = "read_logs"
	Restart        Action = "restart"
	Start          Action = "start"
	Resume         Action = "resume"
	Update         Action = "update"
	SetSecret      Action = "set_secret"
	Reconcile      Action = "reconcile"
	CreateLarger   Action = "create_larger"
	ManageBilling  Action = "manage_billing"
	ContactSupport Action = "contact_support"
)

// Log is a part of what the agent's container wrote. Its lines are data of the agent's owner, and may say anything.
type Log struct {
	// Previous is true if the lines are those of the run before the last restart.
	Previous bool     `json:"previous"`
	Lines    []string `json:"lines"`
}

// Facts are what a diagnosis follows from. Only Agent is required.
type Facts struct {
	Agent client.Agent
	// Reachability is the last probe of the agent's hostname.
	Reachability *client.DashboardReachability
	// Operations are the newest secret operations, the newest first.
	Operations []client.SecretOperation
	// Organization explains why an agent is paused for billing.
	Organization *client.Organization
	Log          *Log
	// NotChecked becomes the field of the same name.
	NotChecked []string
}

// Of derives the diagnosis from facts.
func Of(f Facts) Diagnosis {
	d := Diagnosis{
		AgentID: f.Agent.ID, Status: f.Agent.Status, Log: f.Log, NotChecked: append([]string{}, f.NotChecked...),
		Causes: []Cause{}, WaitingFor: f.waitingFor(), Since: f.since(),
	}
	d.Causes = append(d.Causes, f.statusCauses()...)
	d.Causes = append(d.Causes, f.operationCauses()...)
	d.Healthy = f.Agent.Status == client.AgentStatusRunning && len(d.Causes) == 0 && d.WaitingFor == ""
	d.Summary = f.summary(d)
	return d
}

// summary says the status and the most important cause.
func (f Facts) summary(d Diagnosis) string {
	begin := map[client.AgentStatus]string{
		client.AgentStatusRunning:      "The agent is running.",
		client.AgentStatusPaused:       "The agent is paused.",
		client.AgentStatusStopped:      "The agent is stopped.",
		client.AgentStatusError:        "The agent failed and does not run.",
		client.AgentStatusDeleting:     "The agent is being deleted.",
		client.AgentStatusProvisioning: "The agent is being started.",
		client.AgentStatusPending:      "The agent is being started, and an attempt failed.",
	}[d.Status]
	if begin == "" {
		begin = "The agent's status is " + string(d.Status) + "."
	}
	switch {
	case len(d.Causes) > 0:
		return begin + " " + d.Causes[0].Message
	case d.WaitingFor != "":
		return begin + " It waits for " + d.WaitingFor + "."
	case d.Healthy && f.Reachability != nil:
		return begin + " It answers, and no problem was found."
	case d.Healthy:
		return begin + " No problem was found."
	}
	return begin
}

// since returns when the stage that fails or runs was started, or else when the agent last changed.
func (f Facts) since() *time.Time {
	if s := f.currentStage(); s != nil && s.StartedAt != nil && !f.Agent.Status.IsSettled() {
		return s.StartedAt
	}
	return &f.Agent.UpdatedAt
}

// currentStage returns the first provisioning stage that is not finished; nil if all are.
func (f Facts) currentStage() *client.AgentStage {
	stages := f.Agent.Config.ProvisioningStages
	for i := range stages {
		switch stages[i].Status {
		case client.AgentStageStatusSucceeded, client.AgentStageStatusSkipped:
		default:
			return &stages[i]
		}
	}
	return nil
}

// waitingFor returns what the agent waits for without its user.
func (f Facts) waitingFor() string {
	a := f.Agent
	switch a.Status {
	case client.AgentStatusPending:
		return "the next attempt of the control plane"
	case client.AgentStatusProvisioning:
		if s := f.currentStage(); s != nil {
			return stageGoal(s.Name)
		}
		return "the agent to answer on its hostname"
	case client.AgentStatusDeleting:
		return "the agent's namespace, volume and secrets to be gone"
	case client.AgentStatusRunning:
		switch {
		case a.DashboardWarming:
			return "the new pod to answer; the previous one may still serve"
		case a.CredentialRotationPending:
			return "the agent to accept its new credentials"
		}
	case client.AgentStatusError, client.AgentStatusPaused, client.AgentStatusStopped:
	}
	return ""
}

// stageGoal returns what a provisioning stage achieves.
func stageGoal(name client.AgentStageName) string {
	goals := map[client.AgentStageName]string{
		client.AgentStageNameNamespace: "the agent's namespace",
		client.AgentStageNamePolicy:    "the quota and network policy of the agent's namespace",
		client.AgentStageNameIdentity:  "the agent's service account and credentials",
		client.AgentStageNameSecrets:   "the agent's secrets to reach its cluster",
		client.AgentStageNameStorage:   "the agent's volume",
		client.AgentStageNameRuntime:   "the agent's pod to be applied",
		client.AgentStageNameRoute:     "the route to the agent's hostname",
		client.AgentStageNameReady:     "the agent's pod to become ready and answer on its hostname",
	}
	if goal, known := goals[name]; known {
		return goal
	}
	return "the stage " + string(name)
}
