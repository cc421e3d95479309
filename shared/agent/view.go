package agent

import (
	"bytes"
	"encoding/json"
	"net/http"
	"time"

	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/plan"
)

// View is the agent that clients receive: AgentOut in the interface.
type View struct {
	ID                string                  `json:"id"`
	Name              string                  `json:"name" jsonschema:"Display name."`
	Status            Status                  `json:"status"`
	Namespace         string                  `json:"namespace" jsonschema:"The agent's cluster namespace."`
	ResourcePlan      plan.ID                 `json:"resource_plan" jsonschema:"The plan of the agent, which decides its size and features."`
	Config            ConfigView              `json:"config" jsonschema:"The client's own configuration, and what the control plane adds to it."`
	CreatedAt         time.Time               `json:"created_at"`
	UpdatedAt         time.Time               `json:"updated_at"`
	Cloud             string                  `json:"cloud" jsonschema:"Cloud partner id."`
	Region            string                  `json:"region" jsonschema:"Data-plane region."`
	Image             *ImageView              `json:"image" jsonschema:"What the agent runs; null until the next start of an agent that was made before there were images to choose from."`
	EnvVars           map[string]EnvVarSource `json:"env_vars" jsonschema:"Where the value of each key is stored; empty for members. Values are never shown."`
	Files             []FileView              `json:"files" jsonschema:"The files that the agent finds when it starts; empty for members. Contents are never shown."`
	PublicPaths       []string                `json:"public_paths" jsonschema:"The paths of the agent that anyone may request without a credential, in addition to those of its image. One that ends with a slash stands for everything below it."`
	Egress            EgressView              `json:"egress" jsonschema:"What the agent may reach."`
	Schedules         []ScheduleView          `json:"schedules" jsonschema:"The schedules that call the agent."`
	WakeAt            *time.Time              `json:"wake_at" jsonschema:"When the agent is woken if it sleeps; null if it is not."`
	Sleep             SleepView               `json:"sleep" jsonschema:"When the agent falls asleep, and what wakes it."`
	CloneOf           *CloneView              `json:"clone_of" jsonschema:"The snapshot with whose data the agent began; null if it began with none."`
	UnsetSecrets      []string                `json:"unset_secrets" jsonschema:"The names of secrets that the agent lacks, and that the agent had which it is a clone of; empty for members. A name is gone once the agent has a variable of that name."`
	ErrorMessage      *string                 `json:"error_message" jsonschema:"The message of config.error; null without an error."`
	DashboardURL      *string                 `json:"dashboard_url" jsonschema:"Null until the agent has a hostname."`
	APIURL            *string                 `json:"api_url" jsonschema:"Null until the agent has a hostname."`
	DashboardHandoff  *string                 `json:"dashboard_handoff_url" jsonschema:"A link that opens the dashboard once. Null unless an admin's session gets a single running agent."`
	DashboardUsername *string                 `json:"dashboard_username" jsonschema:"Null for members."`
	Hostname          *string                 `json:"hostname" jsonschema:"Null until provisioning reaches the route stage."`
	DashboardWarming  bool                    `json:"dashboard_warming" jsonschema:"True while the dashboard may be briefly unavailable after a pod restart."`
	RotationPending   bool                    `json:"credential_rotation_pending" jsonschema:"True until the agent accepts the new credential and refuses the old one."`
	entityTag         string
}

// ConfigView is the config that clients receive: the client's own keys and those of the control plane.
type ConfigView struct {
	Own                map[string]any `json:"-"`
	ProvisioningStages []StageView    `json:"provisioning_stages" jsonschema:"The stages of the last provisioning, in their order."`
	StatusReason       *StatusReason  `json:"status_reason" jsonschema:"Why the agent was paused or stopped. With idle, it sleeps: see sleep."`
	AllowedActions     []Trigger      `json:"allowed_actions" jsonschema:"The actions that the current status allows."`
	SandboxEnabled     bool           `json:"sandbox_enabled" jsonschema:"Whether the agent runs in a sandbox of its cluster."`
	PlanLimits         PlanLimits     `json:"plan_limits" jsonschema:"The size of the agent."`
	Error              *Failure       `json:"error" jsonschema:"Why the agent is in error, why its provisioning is being retried, or why its last change was reverted."`
}

// PlanLimits is the size of an agent.
type PlanLimits struct {
	CPUCores     float64 `json:"cpu_cores" jsonschema:"CPU cores."`
	MemoryBytes  int64   `json:"memory_bytes" jsonschema:"Memory."`
	StorageBytes int64   `json:"storage_bytes" jsonschema:"The size of the volume."`
}

// StageView is a provisioning stage that clients receive.
type StageView struct {
	Name       StageName   `json:"name"`
	Status     StageStatus `json:"status"`
	Attempt    int         `json:"attempt" jsonschema:"How many times the stage was started for the last start of the agent or the last replacement of its pod."`
	StartedAt  *time.Time  `json:"started_at" jsonschema:"When the last attempt started; null before the first one."`
	FinishedAt *time.Time  `json:"finished_at" jsonschema:"When the stage finished; null before that."`
	ErrorCode  *string     `json:"error_code" jsonschema:"Why the stage failed or is being retried; null otherwise."`
	Message    *string     `json:"message" jsonschema:"What happened, for people; null without an error."`
}

// DashboardUsername is the user name of every agent's dashboard. Each agent has its own password.
const DashboardUsername = "admin"

// EnvVarSource is where the value of a variable is stored. Clients see it instead of the value.
type EnvVarSource string

// The sources: Secret Manager, and the agent's record.
const (
	EnvIsSecret     = "gsm"
	EnvIsConfigured = "configured"
)

// Values lists the sources.
func (EnvVarSource) Values() []string { return []string{EnvIsSecret, EnvIsConfigured} }

// Show renders the agent for a caller. Members see neither the keys of the environment, nor the bodies of schedules,
// nor the dashboard's user name. Messages for them name no key either.
func (a Agent) Show(caller identity.Caller, d Addresses) View {
	v := View{
		ID: a.ID, Name: a.Name, Status: a.Status, Namespace: a.Namespace(), ResourcePlan: a.Plan,
		Config:    a.showConfig(caller.Admin()),
		CreatedAt: a.CreatedAt.UTC(), UpdatedAt: a.UpdatedAt.UTC(), Cloud: a.Cloud, Region: a.Region,
		Image:            a.showImage(),
		EnvVars:          map[string]EnvVarSource{},
		Files:            []FileView{},
		PublicPaths:      append([]string{}, a.PublicPaths...),
		Egress:           ShowEgress(a.Egress),
		Schedules:        a.showSchedules(caller.Admin()),
		WakeAt:           optional(a.WakeAt.UTC()),
		Sleep:            a.showSleep(),
		CloneOf:          a.showClone(),
		UnsetSecrets:     []string{},
		DashboardWarming: a.Warming, RotationPending: a.RotationPending,
		entityTag: a.EntityTag(),
	}
	if f := v.Config.Error; f != nil {
		v.ErrorMessage = &f.Message
	}
	if a.Routed {
		host := a.Hostname(d)
		v.Hostname, v.DashboardURL, v.APIURL = &host, ptr(d.url(host, "/")), ptr(d.url(host, "/v1"))
	}
	if caller.Admin() {
		for _, e := range a.Env {
			v.EnvVars[e.Key] = EnvIsConfigured
			if e.Secret() {
				v.EnvVars[e.Key] = EnvIsSecret
			}
		}
		for _, s := range a.Injected {
			v.EnvVars[s.Key] = EnvIsSecret
		}
		for _, key := range a.settingKeys() {
			v.EnvVars[nameOf(key)] = EnvIsSecret
		}
		delete(v.EnvVars, importURL)
		v.Files, v.UnsetSecrets = a.showFiles(), a.showUnsetSecrets()
		if a.CredentialVersion > 0 {
			v.DashboardUsername = ptr(DashboardUsername)
		}
	}
	return v
}

func (a Agent) showConfig(admin bool) ConfigView {
	c := ConfigView{
		ProvisioningStages: make([]StageView, len(a.Stages)), AllowedActions: a.AllowedActions(),
		SandboxEnabled: a.Sandbox,
		Error:          a.Failure,
	}
	if !admin {
		c.Error = c.Error.public()
	}
	if len(a.Config) > len("{}") { // most agents have no config
		own := json.NewDecoder(bytes.NewReader(a.Config))
		own.UseNumber()
		_ = own.Decode(&c.Own) // ClientConfig wrote it, so it is an object
	}
	if a.StatusReason != "" {
		c.StatusReason = &a.StatusReason
	}
	if p, err := plan.Get(a.Plan); err == nil {
		c.PlanLimits = PlanLimits{CPUCores: p.CPUCores(), MemoryBytes: p.MemoryBytes(), StorageBytes: p.StorageBytes()}
	}
	for i, s := range a.Stages {
		if !admin {
			s.Message = publicMessage(s.ErrorCode, s.Message)
		}
		c.ProvisioningStages[i] = StageView{
			Name: s.Name, Status: s.Status, Attempt: s.Attempt, StartedAt: optional(s.StartedAt.UTC()),
			FinishedAt: optional(s.FinishedAt.UTC()), ErrorCode: optional(s.ErrorCode), Message: optional(s.Message),
		}
	}
	return c
}

// EntityTag is the value of the ETag header: the record's, and what else the view has.
func (v View) EntityTag() string { return v.entityTag }

// Reply implements function.Reply. It sets the entity tag.
func (v View) Reply(h http.Header) any {
	h.Set("ETag", v.entityTag)
	return v
}

// Created is the answer to the creation of an agent. Its Location header is the agent's path.
type Created struct{ View }

// Reply implements function.Reply.
func (c Created) Reply(h http.Header) any {
	h.Set("Location", "/api/v1/agents/"+c.ID)
	return c.View.Reply(h)
}

func ptr[T any](v T) *T { return &v }

// optional returns nil for the zero value.
func optional[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return ptr(v) // a copy, so that a zero value needs no memory
}
