package diagnosis

import (
	"encoding/json"
	"fmt"
	"strings"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/event"
	"agents.example/controlplane/shared/secret"
)

// eventData has the fields of all events about agents. Each type has some of them.
type eventData struct {
	StatusReason      agent.StatusReason `json:"status_reason"`
	Error             *agent.Failure     `json:"error"`
	Changes           []string           `json:"changes"`
	Stage             string             `json:"stage"`
	Status            agent.StageStatus  `json:"status"`
	Attempt           int                `json:"attempt"`
	ErrorCode         string             `json:"error_code"`
	Message           string             `json:"message"`
	Key               string             `json:"key"`
	Action            secret.Action      `json:"action"`
	CredentialVersion int64              `json:"credential_version"`
	Image             struct {
		ID      string `json:"id"`
		Version string `json:"version"`
	} `json:"image"`
	PreviousVersion string          `json:"previous_version"`
	ReleaseID       *string         `json:"release_id"`
	Reason          string          `json:"reason"`
	Cause           agent.WakeCause `json:"cause"`
	Name            string          `json:"name"`
	Problem         string          `json:"problem"`
	Host            string          `json:"host"`
}

// momentOf says what an event is about. An event that it cannot read, such as one of a later release, has its type as
// the message.
func (f Facts) momentOf(e event.Event) Moment {
	m := Moment{At: e.CreatedAt.UTC(), Type: e.Type, Message: string(e.Type)}
	var d eventData
	if json.Unmarshal(e.Data, &d) != nil {
		return m
	}
	if text := f.statusMessage(e.Type, d); text != "" {
		m.Message = text
		return m
	}
	switch e.Type {
	case event.AgentStageChanged:
		s := agent.Stage{
			Name: agent.StageName(d.Stage), Status: d.Status, ErrorCode: d.ErrorCode, Message: d.Message,
		}
		m.Message = stageEnded(s, f.Caller.Admin())
		if d.Status == agent.StageRunning && d.ErrorCode == "" {
			m.Message = stageBegan(s.Name, d.Attempt)
		}
	case event.AgentUpdated:
		m.Message = fmt.Sprintf("The agent changed: %s.", strings.Join(d.Changes, ", "))
	case event.AgentImageUpdated:
		m.Message = imageUpdated(d)
	case event.AgentImageReverted:
		m.Message = fmt.Sprintf("The update to version %s was undone, and the agent runs version %s again: %s",
			d.PreviousVersion, d.Image.Version, d.Reason)
	case event.AgentRestored:
		m.Message = fmt.Sprintf("The agent was restored and runs with the data of the snapshot %q.", d.Name)
	case event.SnapshotReady, event.SnapshotFailed, event.SnapshotDeleted:
		m.Message = snapshotMessage(e.Type, d)
	case event.CredentialsRotated:
		m.Message = fmt.Sprintf("The credentials were rotated: the agent uses version %d.", d.CredentialVersion)
	case event.EgressRefused:
		m.Message = fmt.Sprintf("The agent was refused %s: %s.", d.Host, d.Reason)
	case event.SecretStored, event.SecretSucceeded, event.SecretFailed, event.SecretSuperseded, event.SecretCanceled:
		m.Message = secretMessage(e.Type, d)
	default:
	}
	return m
}

// imageUpdated says which version an agent took, and why.
func imageUpdated(d eventData) string {
	by := ""
	if d.ReleaseID != nil {
		by = " by a release"
	}
	if d.PreviousVersion == "" {
		return fmt.Sprintf("The agent took version %s of the image %s%s.", d.Image.Version, d.Image.ID, by)
	}
	return fmt.Sprintf("The agent was moved from version %s of the image %s to %s%s.", d.PreviousVersion, d.Image.ID,
		d.Image.Version, by)
}

// statusMessage says what an event about the agent's status means; "" for other events.
func (f Facts) statusMessage(t event.Type, d eventData) string {
	switch t {
	case event.AgentCreated:
		return created
	case event.AgentPending:
		return "An attempt to start the agent failed, and the service tries again." + f.because(d.Error)
	case event.AgentProvisioning:
		return "The start of the agent began."
	case event.AgentRunning:
		return "The agent started and runs."
	case event.AgentRecovered:
		return "The agent recovered and runs."
	case event.AgentError:
		return "The agent failed." + f.because(d.Error)
	case event.AgentPaused:
		if d.StatusReason == agent.Billing {
			return "The service paused the agent because of the organization's plan or payments."
		}
		return "The agent was paused."
	case event.AgentAsleep:
		return "The agent fell asleep, because it was idle."
	case event.AgentWoken:
		return wokenBy(d.Cause)
	case event.AgentStopped:
		return "The agent was stopped."
	case event.AgentDeleting:
		return "The deletion of the agent was requested."
	case event.AgentDeleted:
		return "The agent was deleted."
	default:
		return ""
	}
}

// wokenBy says why an agent woke.
func wokenBy(cause agent.WakeCause) string {
	switch cause {
	case agent.WokenByRequest:
		return "A request woke the agent."
	case agent.WokenBySchedule:
		return "A schedule woke the agent."
	case agent.WokenByResume:
		return "A client woke the agent."
	case agent.WokenByUse:
		return "The agent woke, because it was in use again."
	default:
		return "The agent woke."
	}
}

// snapshotMessage says what happened to a snapshot.
func snapshotMessage(t event.Type, d eventData) string {
	switch t {
	case event.SnapshotFailed:
		return fmt.Sprintf("The snapshot %q could not be taken: %s", d.Name, d.Problem)
	case event.SnapshotDeleted:
		return fmt.Sprintf("The snapshot %q was deleted.", d.Name)
	default:
		return fmt.Sprintf("The snapshot %q is ready.", d.Name)
	}
}

// because is the sentence after one about a failure.
func (f Facts) because(failure *agent.Failure) string {
	if failure == nil {
		return ""
	}
	return " " + publicMessage(failure.Code, failure.Message, f.Caller.Admin())
}

// secretMessage says what happened to a secret operation. Only admins receive such events.
func secretMessage(t event.Type, d eventData) string {
	what := "change of " + d.Key
	if d.Action == secret.Rotate {
		what = "rotation of the credentials"
	}
	switch t {
	case event.SecretStored:
		return fmt.Sprintf("The new value for the %s was stored.", what)
	case event.SecretFailed:
		return fmt.Sprintf("The %s failed at the stage %s: %s.", what, d.Stage, d.ErrorCode)
	case event.SecretSuperseded:
		return fmt.Sprintf("The %s was replaced by a newer one.", what)
	case event.SecretCanceled:
		return fmt.Sprintf("The %s was canceled.", what)
	default:
		return fmt.Sprintf("The %s succeeded.", what)
	}
}
