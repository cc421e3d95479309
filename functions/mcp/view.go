package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"agents.example/controlplane/shared/client"
)

// changed is what an assistant learns of a change; get_agent has the rest. Next names the tool to call next.
type changed struct {
	ID           string       `json:"id"`
	Name         string       `json:"name"`
	Status       string       `json:"status"`
	StatusReason string       `json:"status_reason,omitempty"`
	Error        *failureView `json:"error,omitempty"`
	Next         string       `json:"next,omitempty"`
}

func changeOf(a *client.Agent) changed {
	return changed{
		ID: a.ID, Name: a.Name, Status: string(a.Status), StatusReason: string(deref(a.Config.StatusReason)),
		Error: failureOf(a), Next: nextOf(a),
	}
}

// nextOf names the tool that an assistant should call next, if the agent is not as it should be.
func nextOf(a *client.Agent) string {
	switch {
	case a.Status == client.AgentStatusError:
		return "diagnose_agent"
	case isReplaced(a), a.Status == client.AgentStatusPending, a.Status == client.AgentStatusProvisioning:
		return waitTool
	}
	return ""
}

func failureOf(a *client.Agent) *failureView {
	if e := a.Config.Error; e != nil {
		return &failureView{e.Code, e.Stage, e.Message}
	}
	return nil
}

// agentView is what an assistant sees of an agent. It has no link that opens the dashboard, because such a link is a
// credential. The description of get_agent explains the fields whose names do not.
type agentView struct {
	ID           string            `json:"id"`
	Name         string            `json:"name"`
	Status       string            `json:"status"`
	StatusReason string            `json:"status_reason"`
	Sleep        client.AgentSleep `json:"sleep"`
	// AllowedActions are those that the status allows.
	AllowedActions []string `json:"allowed_actions"`
	ResourcePlan   string   `json:"resource_plan"`
	Region         string   `json:"region"`
	// Image is nil for an agent that has not started since there are images to choose from.
	Image *client.AgentImage `json:"image"`
	// The addresses are empty until the agent has a hostname.
	DashboardURL    string                 `json:"dashboard_url"`
	APIURL          string                 `json:"api_url"`
	PublicPaths     []string               `json:"public_paths"`
	Egress          client.AgentEgress     `json:"egress"`
	Schedules       []client.AgentSchedule `json:"schedules"`
	Warming         bool                   `json:"dashboard_warming"`
	RotationPending bool                   `json:"credential_rotation_pending"`
	EnvVars         map[string]string      `json:"env_vars"`
	Config          map[string]any         `json:"config"`
	Files           []client.AgentFile     `json:"files"`
	CloneOf         *client.AgentClone     `json:"clone_of"`
	UnsetSecrets    []string               `json:"unset_secrets"`
	Error           *failureView           `json:"error"`
	// Stages are the steps of a start that are not finished.
	Stages    []stageView `json:"stages"`
	CreatedAt time.Time   `json:"created_at"`
	UpdatedAt time.Time   `json:"updated_at"`
}

// pick returns the fields of an agent that a model wants; all if it names none.
func pick(v agentView, fields []string) (map[string]json.RawMessage, error) {
	text, err := json.Marshal(v)
	var all map[string]json.RawMessage
	if err = errors.Join(err, json.Unmarshal(text, &all)); err != nil || len(fields) == 0 {
		return all, err
	}
	picked := make(map[string]json.RawMessage, len(fields))
	for _, name := range fields {
		value, known := all[name]
		if !known {
			names := strings.Join(slices.Sorted(maps.Keys(all)), ", ")
			return nil, invalid("fields", "An agent has only the fields "+names)
		}
		picked[name] = value
	}
	return picked, nil
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
		Egress:    a.Egress,
		Schedules: append([]client.AgentSchedule{}, a.Schedules...),
		CreatedAt: a.CreatedAt, UpdatedAt: a.UpdatedAt,
		CloneOf: a.CloneOf, UnsetSecrets: append([]string{}, a.UnsetSecrets...),
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
	v.Error = failureOf(a)
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
