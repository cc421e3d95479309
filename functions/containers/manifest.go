package containers

import (
	"encoding/json"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/plan"
)

// manifest says whose volume an archive has, and how the agent was set up. It has no values of variables, no secrets
// and no credentials.
type manifest struct {
	dataplane.ArchiveManifest
	ExportedAt time.Time        `json:"exported_at"`
	Agent      exportedAgent    `json:"agent"`
	Snapshot   exportedSnapshot `json:"snapshot"`
}

type exportedAgent struct {
	Name      string             `json:"name"`
	Plan      plan.ID            `json:"resource_plan"`
	Image     string             `json:"image"`
	EnvVars   []string           `json:"env_vars"`
	Secrets   []string           `json:"secrets"`
	Config    json.RawMessage    `json:"config"`
	Schedules []exportedSchedule `json:"schedules"`
}

type exportedSchedule struct {
	ID       string             `json:"id"`
	Cron     string             `json:"cron"`
	Timezone string             `json:"timezone"`
	Path     string             `json:"path"`
	Body     string             `json:"body"`
	Missed   agent.MissedPolicy `json:"missed"`
	Enabled  bool               `json:"enabled"`
}

type exportedSnapshot struct {
	ID      string    `json:"id"`
	Name    string    `json:"name"`
	TakenAt time.Time `json:"taken_at"`
}

// describeExport writes the manifest of an export.
func describeExport(a agent.Agent, s agent.Snapshot, now time.Time) ([]byte, error) {
	m := manifest{
		ArchiveManifest: dataplane.ArchiveManifest{
			Format: dataplane.ArchiveFormat, Version: dataplane.ArchiveVersion,
		},
		ExportedAt: now,
		Agent: exportedAgent{
			Name: a.Name, Plan: a.Plan, Image: s.Image, Config: a.Config, EnvVars: []string{}, Secrets: []string{},
			Schedules: []exportedSchedule{},
		},
		Snapshot: exportedSnapshot{ID: s.ID, Name: s.Name, TakenAt: s.CutAt.UTC()},
	}
	if len(m.Agent.Config) == 0 {
		m.Agent.Config = json.RawMessage("{}")
	}
	for _, e := range a.Env {
		switch {
		case e.Key == dataplane.EnvImportURL:
		case !e.Secret():
			m.Agent.EnvVars = append(m.Agent.EnvVars, e.Key)
		default:
			m.Agent.Secrets = append(m.Agent.Secrets, e.Key)
		}
	}
	for _, t := range a.Schedules {
		m.Agent.Schedules = append(m.Agent.Schedules, exportedSchedule{
			ID: t.ID, Cron: t.Cron, Timezone: t.Timezone, Path: t.Path, Body: t.Body, Missed: t.Missed,
			Enabled: !t.Disabled,
		})
	}
	return json.MarshalIndent(m, "", "  ")
}
