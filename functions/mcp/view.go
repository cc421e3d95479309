package mcp

import (
	"fmt"
	"slices"
	"time"

	"agents.example/controlplane/shared/client"
)

// agentView is what an assistant sees of an agent. It has no link that opens the dashboard, because such a link is a
// credential.
type agentView struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Status string `json:"status"`
	// StatusReason says why an agent is paused or stopped.
	StatusReason   string            `json:"status_reason" jsonschema:"Why the agent is paused or stopped: manual, billing, or idle if the agent is asleep."`
	Sleep          client.AgentSleep `json:"sleep"`
	AllowedActions []string          `json:"allowed_actions" jsonschema:"The actions that the status allows."`
	ResourcePlan   string            `json:"resource_plan"`
	Region         string            `json:"region"`
	// Image is null for an agent that has not started since there are images to choose from.
	Image        *client.AgentImage     `json:"image" jsonschema:"What the agent runs. If available_version is not null, update_agent with image moves it to that version."`
	DashboardURL string                 `json:"dashboard_url" jsonschema:"Empty until the agent has a hostname."`
	APIURL       string                 `json:"api_url" jsonschema:"Empty until the agent has a hostname."`
	PublicPaths  []string               `json:"public_paths" jsonschema:"Paths that anyone may request, in addition to those of the image."`
	Schedules    []client.AgentSchedule `json:"schedules" jsonschema:"When the agent is called by itself, and how the latest calls ended. Bodies are null for members."`
	// Warming and RotationPending say what is not finished yet.
	Warming         bool               `json:"dashboard_warming" jsonschema:"True until a new pod answers after a change."`
	RotationPending bool               `json:"credential_rotation_pending"`
	EnvVars         map[string]string  `json:"env_vars" jsonschema:"Keys only: gsm is a secret, configured is a plain variable."`
	Config          map[string]any     `json:"config" jsonschema:"The client's own settings."`
	Files           []client.AgentFile `json:"files" jsonschema:"The files that the agent finds when it starts, without their contents."`
	Error           *failureView       `json:"error" jsonschema:"Why the agent failed, is retried, or why a change was reverted."`
	Stages          []stageView        `json:"stages" jsonschema:"The steps of a start that are not finished; empty once all are."`
	CreatedAt       time.Time          `json:"created_at"`
	UpdatedAt       time.Time          `json:"updated_at"`
}

type failureView struct {
	Code    string `json:"code"`
	Stage   string `json:"stage"`
	Message string `json:"message"`
}

type stageView struct {
	Name    string `json:"name"`
	Status  string `json:"status"`
	Attempt int64  `json:"attempt"`
	Message string `json:"message"`
}

func viewOf(a *client.Agent) agentView {
	v := agentView{
		ID: a.ID, Name: a.Name, Status: string(a.Status), ResourcePlan: string(a.ResourcePlan), Region: a.Region,
		Image: a.Image, PublicPaths: append([]string{}, a.PublicPaths...),
		StatusReason: string(deref(a.Config.StatusReason)), AllowedActions: []string{}, EnvVars: map[string]string{},
		DashboardURL: deref(a.DashboardURL), APIURL: deref(a.APIURL), Warming: a.DashboardWarming,
		RotationPending: a.CredentialRotationPending, Config: a.Config.AdditionalProperties, Stages: []stageView{},
		Files:     append([]client.AgentFile{}, a.Files...),
		Schedules: append([]client.AgentSchedule{}, a.Schedules...),
		CreatedAt: a.CreatedAt, UpdatedAt: a.UpdatedAt,
	}
	v.Sleep = client.AgentSleep{
		AfterSeconds: a.Sleep.AfterSeconds, WakeOn: append([]client.AgentWaker{}, a.Sleep.WakeOn...),
	}
	for _, action := range a.Config.AllowedActions {
		v.AllowedActions = append(v.AllowedActions, string(action))
	}
	for key, source := range a.EnvVars {
		v.EnvVars[key] = string(source)
	}
	if e := a.Config.Error; e != nil {
		v.Error = &failureView{e.Code, e.Stage, e.Message}
	}
	for _, s := range a.Config.ProvisioningStages {
		if s.Status != client.AgentStageStatusSucceeded && s.Status != client.AgentStageStatusSkipped {
			v.Stages = append(v.Stages, stageView{string(s.Name), string(s.Status), s.Attempt, deref(s.Message)})
		}
	}
	return v
}

// deref returns the value of a field that may be null.
func deref[T any](p *T) (value T) {
	if p != nil {
		value = *p
	}
	return value
}

// say describes an agent in a sentence that ends with what to do next.
func say(a *client.Agent) string {
	text := fmt.Sprintf("%q (%s) is %s.", a.Name, a.ID, a.Status)
	switch a.Status {
	case client.AgentStatusPending, client.AgentStatusProvisioning:
		return text + " It is starting, which takes a minute or two. Call wait_for_agent."
	case client.AgentStatusError:
		return text + " Call diagnose_agent to learn why, and what to do."
	case client.AgentStatusPaused:
		if r := a.Config.StatusReason; r != nil && *r == client.AgentStatusReasonIdle {
			return sayAsleep(a)
		}
		return text + " resume_agent starts it again."
	case client.AgentStatusStopped:
		return text + " start_agent starts it again."
	case client.AgentStatusDeleting:
		return text + " Nothing more needs to be done; it is gone when get_agent does not find it."
	case client.AgentStatusRunning:
	}
	if a.DashboardWarming {
		return text + " A new pod is starting; the change is complete when dashboard_warming is false."
	}
	return text
}

// sayAsleep describes an agent that sleeps, and says what wakes it.
func sayAsleep(a *client.Agent) string {
	text := fmt.Sprintf("%q (%s) is asleep, because it was idle: nothing is wrong with it.", a.Name, a.ID)
	if slices.Contains(a.Sleep.WakeOn, client.AgentWakerRequest) {
		return text + " A request to its address wakes it, and so does resume_agent."
	}
	return text + " resume_agent wakes it."
}
