package simulationtest

import (
	"encoding/json"
	"fmt"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/event"
	"agents.example/controlplane/shared/secret"
)

// reported is what a reader of an agent's events knows of the agent.
type reported struct {
	status     agent.Status
	stages     map[agent.StageName]agent.StageStatus
	operations map[string]event.Type
	// version is that of the agent's image.
	version string
	// wrong says which event contradicts those before it; empty if none does.
	wrong string
}

// report adds the events of a commit to what their reader knows.
func (d *Database) report(agentID string, events []event.Draft) {
	if d.Rules.LoseEvents && len(events) == 1 {
		return
	}
	d.logEvents(agentID, events)
	r := d.reported[agentID]
	if r == nil {
		r = &reported{stages: map[agent.StageName]agent.StageStatus{}, operations: map[string]event.Type{}}
		d.reported[agentID] = r
	}
	for _, e := range events {
		r.read(e)
	}
}

// read reads one event.
func (r *reported) read(e event.Draft) {
	if e.Type == event.ScheduleCalled {
		r.readCall(e)
		return
	}
	var data struct {
		Status         string          `json:"status"`
		PreviousStatus string          `json:"previous_status"`
		Stage          agent.StageName `json:"stage"`
		OperationID    string          `json:"operation_id"`
		Image          struct {
			Version string `json:"version"`
		} `json:"image"`
		PreviousVersion string `json:"previous_version"`
	}
	if err := json.Unmarshal(e.Data, &data); err != nil {
		r.contradict(e, err.Error())
	}
	switch e.Type {
	case event.AgentStageChanged:
		r.stages[data.Stage] = agent.StageStatus(data.Status)
	case event.SecretStored, event.SecretSucceeded, event.SecretFailed, event.SecretSuperseded, event.SecretCanceled:
		if r.operations[data.OperationID] == e.Type && e.Type != event.SecretFailed {
			r.contradict(e, "it came before")
		}
		r.operations[data.OperationID] = e.Type
	case event.AgentImageUpdated, event.AgentImageReverted:
		if data.PreviousVersion != r.version {
			r.contradict(e, "the version before was "+r.version)
		}
		r.version = data.Image.Version
	case event.AgentUpdated, event.CredentialsRotated, event.SnapshotReady, event.SnapshotFailed, event.SnapshotDeleted,
		event.AgentRestored, event.AgentMoved, event.AgentMoveFailed:
	case event.AgentDeleted:
		r.status = ""
	default:
		if e.Type == event.AgentCreated {
			r.version = data.Image.Version
		}
		if data.PreviousStatus != string(r.status) || data.Status == string(r.status) {
			r.contradict(e, "the status before was "+string(r.status))
		}
		r.status = agent.Status(data.Status)
	}
}

// readCall reads the event of a call, of which there is one.
func (r *reported) readCall(e event.Draft) {
	var data struct {
		ScheduleID string `json:"schedule_id"`
		DueAt      string `json:"due_at"`
	}
	err := json.Unmarshal(e.Data, &data)
	call := data.ScheduleID + " " + data.DueAt
	if _, twice := r.operations[call]; twice || err != nil {
		r.contradict(e, "it came before")
	}
	r.operations[call] = e.Type
}

func (r *reported) contradict(e event.Draft, why string) {
	if r.wrong == "" {
		r.wrong = fmt.Sprintf("%s %s: %s", e.Type, e.Data, why)
	}
}

// checkEvents checks that the events of an agent say what its record does.
func (w *World) checkEvents(a *agent.Agent) {
	r, id := w.Database.reported[a.ID], short(a.ID)
	switch {
	case r == nil:
		w.violate("events", "agent %s has no events", id)
		return
	case r.wrong != "":
		w.violate("events", "an event of agent %s contradicts the former ones: %s", id, r.wrong)
	case r.version != a.Image.Version:
		w.violate("events", "agent %s has version %s, and by its events %s", id, a.Image.Version, r.version)
	case r.status != a.Status:
		w.violate("events", "agent %s is %s, and by its events %s", id, a.Status, r.status)
	}
	for _, s := range a.Stages {
		if got := r.stages[s.Name]; s.Status != agent.StagePending && got != s.Status {
			w.violate("events", "the stage %s of agent %s is %s, and by its events %q", s.Name, id, s.Status, got)
		}
	}
}

// checkOperationEvents checks that the end of an operation has an event.
func (w *World) checkOperationEvents(o secret.Operation) {
	ends := map[secret.Status]event.Type{
		secret.Succeeded: event.SecretSucceeded, secret.Failed: event.SecretFailed,
		secret.Superseded: event.SecretSuperseded, secret.Canceled: event.SecretCanceled,
	}
	want, ended := ends[o.Status]
	if r := w.Database.reported[o.AgentID]; ended && r != nil && r.operations[o.ID] != want {
		w.violate("events", "the operation %s of %s is %s, and by its events %q", short(o.ID), o.Key, o.Status,
			r.operations[o.ID])
	}
}
