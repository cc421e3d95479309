package agent

import (
	"bytes"
	"slices"

	"agents.example/controlplane/shared/event"
	"agents.example/controlplane/shared/secret"
)

// Events lists the events of a commit that takes an agent from one state to another. before is the zero agent if the
// commit creates the agent. Every change that clients can see in an agent, except for its times and the return of
// stages to pending, has an event.
func Events(before, after Agent) []event.Draft {
	if before.ID == "" {
		return append([]event.Draft{event.New(event.AgentCreated, createdData{
			Name: after.Name, Status: after.Status, ResourcePlan: string(after.Plan), Region: after.Region,
			Image: optional(imageVersion{after.Image.ID, after.Image.Version}),
		})}, operationEvents(before, after)...)
	}
	events := slices.Concat(stageEvents(before, after), operationEvents(before, after), imageEvents(before, after),
		callEvents(before, after), snapshotEvents(before, after), moveEvents(before, after))
	if before.RotationPending && !after.RotationPending {
		events = append(events, event.New(event.CredentialsRotated, rotatedData{after.CredentialVersion}))
	}
	if after.Status != before.Status {
		data := statusData{
			Status: after.Status, PreviousStatus: before.Status, StatusReason: optional(after.StatusReason),
			Error: after.Failure.public(),
		}
		if before.Asleep() && after.Status == Provisioning {
			data.Cause = optional(after.WokenBy)
		}
		events = append(events, event.New(statusEvent(before, after), data))
	}
	if changed := changedFields(before, after); len(changed) > 0 {
		events = append(events, event.New(event.AgentUpdated, updatedData{changed}))
	}
	return events
}

// DeletedEvents lists the events of the commit that removes an agent's record.
func DeletedEvents(a Agent) []event.Draft {
	return []event.Draft{event.New(event.AgentDeleted, deletedData{a.Name})}
}

type createdData struct {
	Name         string `json:"name"`
	Status       Status `json:"status"`
	ResourcePlan string `json:"resource_plan"`
	Region       string `json:"region"`
	// Image is null in a deployment that names no image.
	Image *imageVersion `json:"image"`
}

type statusData struct {
	Status         Status        `json:"status"`
	PreviousStatus Status        `json:"previous_status"`
	StatusReason   *StatusReason `json:"status_reason"`
	Error          *Failure      `json:"error"`
	// Cause is why an agent was woken.
	Cause *WakeCause `json:"cause,omitempty"`
}

type updatedData struct {
	// Changes names the fields of the agent that changed.
	Changes []string `json:"changes"`
}

type stageData struct {
	Stage          StageName   `json:"stage"`
	Status         StageStatus `json:"status"`
	PreviousStatus StageStatus `json:"previous_status"`
	Attempt        int         `json:"attempt"`
	ErrorCode      *string     `json:"error_code"`
	Message        *string     `json:"message"`
}

type imageUpdatedData struct {
	Image imageVersion `json:"image"`
	// PreviousVersion is null for an agent whose record named no image before.
	PreviousVersion *string `json:"previous_version"`
	// ReleaseID is null if a client or a start of the agent changed the version.
	ReleaseID *string `json:"release_id"`
}

type imageRevertedData struct {
	Image           imageVersion `json:"image"`
	PreviousVersion string       `json:"previous_version"`
	ReleaseID       string       `json:"release_id"`
	Reason          string       `json:"reason"`
}

type imageVersion struct {
	ID      string `json:"id"`
	Version string `json:"version"`
}

type operationData struct {
	OperationID string        `json:"operation_id"`
	Key         string        `json:"key"`
	Action      secret.Action `json:"action"`
	Stage       secret.Stage  `json:"stage"`
	ErrorCode   *string       `json:"error_code"`
}

type rotatedData struct {
	CredentialVersion int64 `json:"credential_version"`
}

type movedData struct {
	FromRegion string `json:"from_region"`
	ToRegion   string `json:"to_region"`
	// FromCell and ToCell are the labels after the first dot of the former and the present hostname.
	FromCell string `json:"from_cell"`
	ToCell   string `json:"to_cell"`
}

type moveFailedData struct {
	FromRegion string `json:"from_region"`
	ToRegion   string `json:"to_region"`
	Reason     string `json:"reason"`
}

type deletedData struct {
	Name string `json:"name"`
}

// statusEvent is the type of an event about a new status.
func statusEvent(before, after Agent) event.Type {
	switch {
	case before.Status == Error && after.Status == Running:
		return event.AgentRecovered
	case after.Asleep():
		return event.AgentAsleep
	case before.Asleep() && after.Status == Provisioning:
		return event.AgentWoken
	default:
		return event.Type("agent." + string(after.Status))
	}
}

// stageEvents lists the stages that began, ended or failed.
func stageEvents(before, after Agent) []event.Draft {
	var events []event.Draft
	for _, s := range after.Stages {
		var former Stage
		if i := slices.IndexFunc(before.Stages, func(f Stage) bool { return f.Name == s.Name }); i >= 0 {
			former = before.Stages[i]
		}
		same := s.Status == former.Status && s.Attempt == former.Attempt && s.ErrorCode == former.ErrorCode &&
			s.Message == former.Message
		if same || s.Status == StagePending {
			continue
		}
		events = append(events, event.New(event.AgentStageChanged, stageData{
			Stage: s.Name, Status: s.Status, PreviousStatus: former.Status, Attempt: s.Attempt,
			ErrorCode: optional(s.ErrorCode), Message: optional(publicMessage(s.ErrorCode, s.Message)),
		}))
	}
	return events
}

// imageEvents lists what happened to the agent's image. Clients do not see the front.
func imageEvents(before, after Agent) []event.Draft {
	was, is := before.Image, after.Image
	image := imageVersion{is.ID, is.Version}
	if is.Update.State == UpdateReverted && was.Update.State != UpdateReverted {
		return []event.Draft{event.New(event.AgentImageReverted, imageRevertedData{
			Image: image, PreviousVersion: was.Version, ReleaseID: is.Update.Release, Reason: is.Update.Reason,
		})}
	}
	if was.ID == is.ID && was.Version == is.Version && was.Digest() == is.Digest() {
		return nil
	}
	data := imageUpdatedData{Image: image, PreviousVersion: optional(was.Version)}
	if moved := is.Update; !moved.MovedAt.Equal(was.Update.MovedAt) {
		data.ReleaseID = optional(moved.Release)
	}
	return []event.Draft{event.New(event.AgentImageUpdated, data)}
}

// moveEvents says how a move to another cell ended.
func moveEvents(before, after Agent) []event.Draft {
	was, is := before.Move, after.Move
	switch {
	case was.State == MoveStarting && is.State == MoveAdopting:
		return []event.Draft{event.New(event.AgentMoved, movedData{
			FromRegion: is.From.Region, ToRegion: is.To.Region, FromCell: is.From.Cell, ToCell: is.To.Cell,
		})}
	case was.State == MoveCopying && is.State == MoveFailed, was.State == MoveStarting && is.State == MoveReturning:
		return []event.Draft{event.New(event.AgentMoveFailed, moveFailedData{
			FromRegion: is.From.Region, ToRegion: is.To.Region, Reason: is.Reason,
		})}
	default:
		return nil
	}
}

// operationEvents lists the secret operations whose value was stored, and those that ended or failed.
func operationEvents(before, after Agent) []event.Draft {
	var events []event.Draft
	for _, o := range after.Operations {
		former := secret.Operation{Stage: secret.Store, Status: secret.Pending}
		if i := slices.IndexFunc(before.Operations, func(f secret.Operation) bool { return f.ID == o.ID }); i >= 0 {
			former = before.Operations[i]
		} else if o.Action == secret.Delete {
			former.Stage = secret.Bind // a deletion has no value to store
		}
		if t, ok := operationEvent(former, o); ok {
			events = append(events, event.New(t, operationData{
				OperationID: o.ID, Key: nameOf(o.Key), Action: o.Action, Stage: o.Stage,
				ErrorCode: optional(o.ErrorCode),
			}))
		}
	}
	return events
}

// operationEvent is the type of the event about a changed operation.
func operationEvent(former, o secret.Operation) (_ event.Type, ok bool) {
	if o.Status != former.Status {
		switch o.Status {
		case secret.Succeeded:
			return event.SecretSucceeded, true
		case secret.Failed:
			return event.SecretFailed, true
		case secret.Superseded:
			return event.SecretSuperseded, true
		case secret.Canceled:
			return event.SecretCanceled, true
		case secret.Pending, secret.Running:
		}
	}
	return event.SecretStored, former.Stage == secret.Store && o.Stage != secret.Store
}

// changedFields names the fields that agent.updated reports. What an event about the status reports or implies is left
// out if there is one.
func changedFields(before, after Agent) []string {
	var names []string
	for _, f := range []struct {
		name    string
		changed bool
		implied bool
	}{
		{name: "name", changed: before.Name != after.Name},
		{name: "region", changed: before.Region != after.Region},
		{name: "resource_plan", changed: before.Plan != after.Plan},
		{name: "config", changed: !bytes.Equal(before.Config, after.Config)},
		{name: "config.sandbox_enabled", changed: before.Sandbox != after.Sandbox},
		{name: "image.policy", changed: before.imagePolicy() != after.imagePolicy()},
		{name: "image.maintenance_window", changed: !sameWindow(before.MaintenanceWindow, after.MaintenanceWindow)},
		{
			name:    "env_vars",
			changed: !slices.Equal(before.Env, after.Env) || !slices.Equal(before.Injected, after.Injected),
		},
		{name: "files", changed: !slices.Equal(before.Files, after.Files)},
		{name: "egress", changed: !before.Egress.Equal(after.Egress)},
		{name: "public_paths", changed: !slices.Equal(before.PublicPaths, after.PublicPaths)},
		{name: "schedules", changed: !slices.Equal(termsOf(before.Schedules), termsOf(after.Schedules))},
		{name: "wake_at", changed: !before.WakeAt.Equal(after.WakeAt)},
		{name: "unset_secrets", changed: !slices.Equal(before.UnsetSecrets, after.UnsetSecrets)},
		{name: "sleep", changed: !before.Sleep.Equal(after.Sleep)},
		{name: "dashboard_username", changed: (before.CredentialVersion > 0) != (after.CredentialVersion > 0)},
		{name: "hostname", changed: before.Routed != after.Routed || before.Cell != after.Cell},
		{name: "config.error", changed: !sameFailure(before.Failure, after.Failure), implied: true},
		{name: "config.status_reason", changed: before.StatusReason != after.StatusReason, implied: true},
		{name: "dashboard_warming", changed: before.Warming != after.Warming, implied: true},
		{name: "credential_rotation_pending", changed: before.RotationPending != after.RotationPending},
	} {
		if f.changed && (before.Status == after.Status || !f.implied) {
			names = append(names, f.name)
		}
	}
	return names
}
