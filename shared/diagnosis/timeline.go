package diagnosis

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/event"
	"agents.example/controlplane/shared/secret"
)

// MaxEvents is how many events of an agent a timeline has at most.
const MaxEvents = 50

// Moment is one thing that happened to an agent.
type Moment struct {
	At      time.Time  `json:"at" jsonschema:"When it happened."`
	Type    event.Type `json:"type" jsonschema:"What happened, as the type of an event. New types may be added."`
	Message string     `json:"message" jsonschema:"What happened, for people."`
}

// timeline lists the agent's newest events, the oldest first. What the record says stands before them: it remembers the
// creation and the last start longer than events are kept. The store may delete expired events late, so they are left
// out.
func (f Facts) timeline() []Moment {
	var events []Moment
	for _, e := range f.Events[max(0, len(f.Events)-MaxEvents):] {
		if f.Now.Sub(e.CreatedAt) < event.Retention && (f.Caller.Admin() || e.Type.ForMembers()) {
			events = append(events, f.momentOf(e))
		}
	}
	moments := recorded(f.Agent, f.Caller.Admin())
	if len(events) > 0 {
		moments = slices.DeleteFunc(moments, func(m Moment) bool {
			return !m.At.Before(events[0].At) || slices.ContainsFunc(events, m.same)
		})
	}
	return append(moments, events...)
}

// same reports whether two moments are one, as the record and an event tell it. The record is written before the event.
func (m Moment) same(event Moment) bool { return m.Type == event.Type && m.Message == event.Message }

// recorded lists what the record says about the agent's past, the oldest first.
func recorded(a agent.Agent, admin bool) []Moment {
	moments := []Moment{{a.CreatedAt.UTC(), event.AgentCreated, created}}
	add := func(at time.Time, of event.Type, message string) {
		if !at.IsZero() && (admin || of.ForMembers()) {
			moments = append(moments, Moment{at.UTC(), of, message})
		}
	}
	for _, s := range a.Stages {
		add(s.StartedAt, event.AgentStageChanged, stageBegan(s.Name, s.Attempt))
		add(s.FinishedAt, event.AgentStageChanged, stageEnded(s, admin))
	}
	for _, o := range a.Operations {
		if o.Status == secret.Failed {
			name, _ := secret.Name(o.Key)
			add(o.UpdatedAt, event.SecretFailed, fmt.Sprintf("The change of %s failed at the stage %s: %s.", name,
				o.Stage, o.ErrorCode))
		}
	}
	slices.SortStableFunc(moments, func(x, y Moment) int { return x.At.Compare(y.At) })
	return moments
}

const created = "The agent was created."

// doing says in words what a stage does; "" for a stage of another release.
func doing(name agent.StageName) string {
	return map[agent.StageName]string{
		agent.StageNamespace: "making the agent's place in the cluster",
		agent.StagePolicy:    "setting its limits and network rules",
		agent.StageIdentity:  "making its credentials",
		agent.StageSecrets:   "bringing its secrets to the cluster",
		agent.StageStorage:   "preparing its volume",
		agent.StageRuntime:   "making its pod",
		agent.StageRoute:     "connecting its address",
		agent.StageReady:     "waiting until it is ready and answers",
	}[name]
}

func stageBegan(name agent.StageName, attempt int) string {
	text := fmt.Sprintf("The service began %s", cmp.Or(doing(name), "the step "+string(name)))
	if attempt > 1 {
		text += fmt.Sprintf(", attempt %d", attempt)
	}
	return text + "."
}

func stageEnded(s agent.Stage, admin bool) string {
	text := "Done"
	switch s.Status {
	case agent.StageFailed:
		text = "Failed"
	case agent.StageSkipped:
		text = "Not needed"
	case agent.StagePending, agent.StageRunning: // with an error, it is tried again
		text = "Not done yet"
	case agent.StageSucceeded:
	}
	text += ": " + cmp.Or(doing(s.Name), string(s.Name)) + "."
	if s.ErrorCode != "" {
		text += " " + publicMessage(s.ErrorCode, s.Message, admin)
	}
	return text
}
