package operator

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/page"
)

func nudge(ctx context.Context, d Commands, o options) error {
	a, err := d.Records.Load(ctx, o.agent)
	if err != nil {
		return err
	}
	if err := d.record(d.on(ctx, a.OrganizationID, "NudgeAgent"),
		audit.Target{Type: "agent", ID: a.ID, Name: a.Name}); err != nil {
		return err
	}
	if err := d.Nudger.Nudge(ctx, a.ID); err != nil {
		return err
	}
	d.printf("A worker is asked to look at agent %s.\n", a.ID)
	return nil
}

// storyEntries is how many audit entries a story has at most, the newest.
const storyEntries = page.MaxLimit

// story prints what happened to an agent in the order of time, what it waits for, and what may help.
func story(ctx context.Context, d Commands, o options) error {
	a, err := d.Records.Load(ctx, o.agent)
	if err != nil {
		return err
	}
	on := d.on(ctx, a.OrganizationID, "ShowAgentStory")
	if err := d.record(on, audit.Target{Type: "agent", ID: a.ID, Name: a.Name}); err != nil {
		return err
	}
	entries, err := d.Audit.List(on, audit.Filter{TargetID: a.ID}, page.Request{Limit: storyEntries})
	if err != nil {
		return err
	}
	now := d.Now()
	d.printf("Agent %s (%q) of %s, %s in %s on cell %s\n", a.ID, a.Name, a.OrganizationID, a.Plan, a.Region, a.Cell)
	d.printf("Status %s%s, generation %d, brought about %d, attempts %d\n\n", a.Status, because(a), a.Generation,
		a.ObservedGeneration, a.Attempts)
	for _, h := range history(a, entries.Items) {
		d.printf("  %s  %s\n", moment(h.at), h.what)
	}
	d.printf("\n")
	for _, line := range diagnose(a, now) {
		d.printf("%s\n", line)
	}
	return nil
}

func because(a agent.Agent) string {
	if a.StatusReason == "" {
		return ""
	}
	return " (" + string(a.StatusReason) + ")"
}

// happening is one line of a story.
type happening struct {
	at   time.Time
	what string
}

// history puts what was asked for and what was done into one order.
func history(a agent.Agent, entries []audit.Entry) []happening {
	told := []happening{{a.CreatedAt, "created"}}
	for _, e := range entries {
		what := fmt.Sprintf("%s by %s %s: %s", e.Action, e.Actor.Type, e.Actor.ID, e.Outcome)
		for _, c := range e.Changes {
			what += fmt.Sprintf(", %s %s → %s", c.Field, cmp.Or(c.Old, "-"), cmp.Or(c.New, "-"))
		}
		told = append(told, happening{e.CreatedAt, what})
	}
	for _, s := range a.Stages {
		if !s.StartedAt.IsZero() {
			told = append(told, happening{s.StartedAt, fmt.Sprintf("stage %s began (attempt %d)", s.Name, s.Attempt)})
		}
		if !s.FinishedAt.IsZero() {
			what := fmt.Sprintf("stage %s %s", s.Name, s.Status)
			if s.ErrorCode != "" {
				what += ": " + s.ErrorCode + ": " + s.Message
			}
			told = append(told, happening{s.FinishedAt, what})
		}
	}
	slices.SortStableFunc(told, func(x, y happening) int { return x.at.Compare(y.at) })
	return told
}

// diagnose says what an agent waits for and what may help.
func diagnose(a agent.Agent, now time.Time) []string {
	var said []string
	add := func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }
	if f := a.Failure; f != nil {
		add("Last problem: %s at %s: %s", f.Code, cmp.Or(string(f.Stage), "run time"), f.Message)
	}
	if a.Converged() {
		add("Nothing is left to do: what was asked for last has been brought about.")
		if a.StatusReason == agent.Billing {
			add("It was paused for its organization's account; see: operator show -organization %s", a.OrganizationID)
		}
		return said
	}
	if left := a.Unfinished(); len(left) > 0 && a.Runs() {
		names := make([]string, len(left))
		for i, s := range left {
			names[i] = string(s)
		}
		add("Still to do: %s", strings.Join(names, ", "))
	}
	switch {
	case a.Lease.Holder != "" && now.Before(a.Lease.Until):
		add("A worker is at it: %s, until %s at least.", a.Lease.Holder, moment(a.Lease.Until))
	case a.WorkDueAt.IsZero():
		add("Nobody will look at it: no work is due, though it has not been brought about. Nudge it.")
	case now.Before(a.WorkDueAt):
		add("No worker is at it; the sweep nudges it at %s.", moment(a.WorkDueAt))
	default:
		add("No worker is at it, and the sweep should have nudged it at %s: check that SweepAgents runs. Nudge it.",
			moment(a.WorkDueAt))
	}
	switch {
	case a.Deadline.IsZero():
		add("It is tried for ever.")
	case a.Expired(now):
		add("It should have been given up at %s: check that SweepAgents runs.", moment(a.Deadline))
	default:
		add("It is given up at %s.", moment(a.Deadline))
	}
	return said
}
