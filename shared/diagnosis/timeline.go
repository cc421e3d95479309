package diagnosis

import (
	"fmt"
	"slices"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/event"
	"agents.example/controlplane/shared/secret"
)

// Moment is one thing that happened to an agent.
type Moment struct {
	At      time.Time  `json:"at" jsonschema:"When it happened."`
	Type    event.Type `json:"type" jsonschema:"What happened, as the type of an event. New types may be added."`
	Message string     `json:"message" jsonschema:"What happened, for people."`
}

// timeline lists what the record says about the agent's past, the oldest first.
func timeline(a agent.Agent, admin bool) []Moment {
	moments := []Moment{{a.CreatedAt.UTC(), event.AgentCreated, "The agent was created."}}
	add := func(at time.Time, of event.Type, format string, args ...any) {
		if !at.IsZero() && (admin || of.ForMembers()) {
			moments = append(moments, Moment{at.UTC(), of, fmt.Sprintf(format, args...)})
		}
	}
	for _, s := range a.Stages {
		add(s.StartedAt, event.AgentStageChanged, "The stage %s began (attempt %d).", s.Name, s.Attempt)
		if s.ErrorCode != "" {
			add(s.FinishedAt, event.AgentStageChanged, "The stage %s %s: %s: %s", s.Name, s.Status, s.ErrorCode,
				publicMessage(s.ErrorCode, s.Message, admin))
		} else {
			add(s.FinishedAt, event.AgentStageChanged, "The stage %s %s.", s.Name, s.Status)
		}
	}
	for _, o := range a.Operations {
		if o.Status == secret.Failed {
			add(o.UpdatedAt, event.SecretFailed, "The change of %s failed at the stage %s: %s.", o.Key, o.Stage,
				o.ErrorCode)
		}
	}
	slices.SortStableFunc(moments, func(x, y Moment) int { return x.At.Compare(y.At) })
	return moments
}
