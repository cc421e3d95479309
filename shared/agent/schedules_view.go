package agent

import (
	"time"

	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/event"
)

// ScheduleView is a schedule as clients see it.
type ScheduleView struct {
	ID       string       `json:"id" jsonschema:"Your name for the schedule."`
	Cron     string       `json:"cron" jsonschema:"Minute, hour, day of month, month and day of week at which the agent is called."`
	Timezone string       `json:"timezone" jsonschema:"The time zone of cron."`
	Path     string       `json:"path" jsonschema:"The path of the agent that gets a POST."`
	Body     *string      `json:"body" jsonschema:"The body of the request; null for members."`
	Missed   MissedPolicy `json:"missed"`
	Enabled  bool         `json:"enabled" jsonschema:"Whether the agent is called."`
	NextAt   *time.Time   `json:"next_at" jsonschema:"When the agent is called next. Null if it is not: the schedule is not enabled, or the agent neither runs nor may be woken by schedules. A time that has passed waits for the agent's start or for the end of the call before; missed says what becomes of it."`
	Last     *CallView    `json:"last" jsonschema:"The latest call; null before the first one."`
	Skipped  int64        `json:"skipped" jsonschema:"How many due times had no call, because the agent could not be called then, or because the call before had not ended. After months without a call it is at least this number."`
}

// CallView is a call of a schedule as clients see it.
type CallView struct {
	DueAt      time.Time   `json:"due_at" jsonschema:"The due time of the schedule."`
	CalledAt   time.Time   `json:"called_at" jsonschema:"When the agent was told to make the call."`
	Outcome    CallOutcome `json:"outcome" jsonschema:"running; answered, with any status; failed, if the agent's container did not answer; timeout, after 15 minutes; or interrupted, if the agent's pod ended before the result was known: it may have been called, and is not called again."`
	Status     *int64      `json:"status" jsonschema:"The HTTP status of the answer; null without one."`
	DurationMS *int64      `json:"duration_ms" jsonschema:"How long the call took, in milliseconds; null while it runs, and if it was interrupted."`
}

// showSchedules lists the agent's schedules. Only admins see bodies, which may hold prompts.
func (a Agent) showSchedules(admin bool) []ScheduleView {
	views := make([]ScheduleView, len(a.Schedules))
	callable := a.Status == Running || a.BeingProvisioned() || a.Asleep() && a.Sleep.WakesOn(ScheduleWakes)
	for i, s := range a.Schedules {
		v := ScheduleView{
			ID: s.ID, Cron: s.Cron, Timezone: s.Timezone, Path: s.Path, Missed: s.Missed, Enabled: !s.Disabled,
			Last: s.showLast(), Skipped: s.Skipped,
		}
		if callable {
			v.NextAt = optional(s.next(s.After).UTC())
		}
		if admin {
			v.Body = ptr(s.Body)
		}
		views[i] = v
	}
	return views
}

func (s Schedule) showLast() *CallView {
	switch {
	case s.Call.Open():
		return &CallView{DueAt: s.Call.DueAt.UTC(), CalledAt: s.Call.OrderedAt.UTC(), Outcome: CallRunning}
	case s.Last.Outcome == "":
		return nil
	}
	v := &CallView{
		DueAt: s.Last.DueAt.UTC(), CalledAt: s.Last.CalledAt.UTC(), Outcome: s.Last.Outcome,
		Status: optional(s.Last.Status),
	}
	if s.Last.Outcome != CallInterrupted {
		v.DurationMS = ptr(s.Last.DurationMS)
	}
	return v
}

type calledData struct {
	ScheduleID string      `json:"schedule_id"`
	DueAt      time.Time   `json:"due_at"`
	CalledAt   time.Time   `json:"called_at"`
	Outcome    CallOutcome `json:"outcome"`
	Status     *int64      `json:"status"`
	DurationMS *int64      `json:"duration_ms"`
}

// callEvents lists the calls of schedules that have ended.
func callEvents(before, after Agent) []event.Draft {
	var events []event.Draft
	for _, s := range after.Schedules {
		former, _ := before.schedule(s.ID)
		if s.Last.Outcome == "" || s.Last.DueAt.Equal(former.Last.DueAt) {
			continue
		}
		v := Schedule{Last: s.Last}.showLast()
		events = append(events, event.New(event.ScheduleCalled, calledData{
			ScheduleID: s.ID, DueAt: v.DueAt, CalledAt: v.CalledAt, Outcome: v.Outcome, Status: v.Status,
			DurationMS: v.DurationMS,
		}))
	}
	return events
}

// scheduleChanges lists the schedules that were set, changed and removed.
func scheduleChanges(before, after Agent) []audit.Change {
	return listChanges("schedules.", termsOf(before.Schedules), termsOf(after.Schedules),
		func(t ScheduleTerms) string { return t.ID })
}

// showTime writes a time for the audit log; empty for none.
func showTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
