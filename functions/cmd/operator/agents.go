package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/diagnosis"
	"agents.example/controlplane/shared/image"
	"agents.example/controlplane/shared/page"
)

func nudge(ctx context.Context, d operator, o options) error {
	a, err := d.Records.Load(ctx, o.agent)
	if err != nil {
		return err
	}
	if a, err = d.Records.Update(ctx, a, func(a *agent.Agent) { a.RetryAt = time.Time{} }); err != nil {
		return err
	}
	if err := d.Nudger.Nudge(ctx, a.ID); err != nil {
		return err
	}
	if err := d.record(d.on(ctx, a.OrganizationID, "NudgeAgent"),
		audit.Target{Type: "agent", ID: a.ID, Name: a.Name}); err != nil {
		return err
	}
	d.printf("Agent %s was nudged; a worker will reconcile it.\n", a.ID)
	return nil
}

// agentsOfCell prints one line per agent of a cell. One that has moved is listed until nothing of it is left there: it
// may still return, and a cell is removed once it has none. For a cell without agents it prints the cells that have
// some, because a cell whose name is misspelled has none.
func agentsOfCell(ctx context.Context, d operator, o options) error {
	table := tabwriter.NewWriter(d.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "AGENT\tORGANIZATION\tPLAN\tSTATUS\tSINCE\tNAME")
	cells := map[string]int{}
	for after := ""; ; {
		listed, err := d.AllAgents.ListAll(ctx, after, listPage)
		if err != nil {
			return err
		}
		for _, a := range listed.Items {
			cells[a.Cell]++
			status, other := statusOf(a), a.OtherCell()
			if other != "" {
				cells[other]++
				status += fmt.Sprintf(" in %s, %s", a.Cell, a.Move.State)
			}
			if a.Cell == o.cell || other == o.cell {
				fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%q\n", a.ID, a.OrganizationID, a.Plan, status,
					date(a.CreatedAt), a.Name)
			}
		}
		if after = listed.Next; after == "" {
			break
		}
	}
	if cells[o.cell] > 0 {
		return table.Flush()
	}
	d.printf("The cell %q has no agents.\n", o.cell)
	for _, cell := range slices.Sorted(maps.Keys(cells)) {
		d.printf("The cell %q has %d.\n", cell, cells[cell])
	}
	return nil
}

// maxEntries bounds the audit entries in the history of an agent. The newest are shown.
const maxEntries = page.MaxLimit

// describe prints the history of an agent, its diagnosis, and what the workers do about it.
func describe(ctx context.Context, d operator, o options) error {
	a, err := d.Records.Load(ctx, o.agent)
	if err != nil {
		return err
	}
	on := d.on(ctx, a.OrganizationID, "DescribeAgent")
	if err := d.record(on, audit.Target{Type: "agent", ID: a.ID, Name: a.Name}); err != nil {
		return err
	}
	entries, err := d.Audit.List(on, audit.Filter{TargetID: a.ID}, page.Request{Limit: maxEntries})
	if err != nil {
		return err
	}
	facts, err := d.facts(on, a)
	if err != nil {
		return err
	}
	v := diagnosis.Of(facts)
	d.printf("Agent %s (%q) of %s, %s in %s on cell %s\n", a.ID, a.Name, a.OrganizationID, a.Plan, a.Region, a.Cell)
	d.printf("Status %s%s, generation %d, observed generation %d, attempts %d\n", statusOf(a), reason(a), a.Generation,
		a.ObservedGeneration, a.Attempts)
	for _, line := range slices.Concat(software(a), sleep(a, facts.Now), moving(a, facts.Now)) {
		d.printf("%s\n", line)
	}
	d.printf("\n")
	for _, h := range history(v.Timeline, entries.Items) {
		d.printf("  %s  %s\n", moment(h.at), h.what)
	}
	d.printf("\n%s\n", v.Summary)
	for _, c := range v.Causes {
		d.printf("%s: %s (%s)\n", c.Code, c.Message, strings.Join(c.Evidence, ", "))
	}
	if v.WaitingFor != nil {
		d.printf("It waits for: %s\n", *v.WaitingFor)
	}
	for _, line := range work(a, facts.Now) {
		d.printf("%s\n", line)
	}
	return nil
}

// software names what the agent's pod runs, and what releases did to it.
func software(a agent.Agent) (lines []string) {
	for _, s := range []struct {
		name string
		agent.Software
	}{{"Image", a.Image}, {"Front", a.Front}} {
		if s.ID == "" {
			lines = append(lines,
				s.name+" of the deployment's settings: the agent has not started since there is a catalog")
			continue
		}
		line := fmt.Sprintf("%s %s@%s, %s", s.name, s.ID, s.Version, s.Reference)
		if u := s.Update; u.Release != "" {
			line += fmt.Sprintf(", release %s to %s: %s", u.Release, u.Version, u.State)
			if u.Reason != "" {
				line += " (" + u.Reason + ")"
			}
		}
		lines = append(lines, line)
	}
	if a.ImagePolicy != "" && a.ImagePolicy != image.Auto {
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("Image policy %s %s", a.ImagePolicy, a.MaintenanceWindow)))
	}
	if paths := slices.Concat(a.Image.PublicPaths, a.PublicPaths); len(paths) > 0 {
		lines = append(lines, "Anyone may request "+strings.Join(agent.PublicPaths(paths), ", "))
	}
	return lines
}

// facts reads what the diagnosis of an agent needs.
func (d operator) facts(ctx context.Context, a agent.Agent) (diagnosis.Facts, error) {
	f := diagnosis.Facts{Agent: a, Caller: call.From(ctx).Caller, Now: d.Now()}
	wanted := diagnosis.EventFilter(a.ID, f.Caller)
	happened, err := d.Events.List(ctx, a.OrganizationID, wanted, "", diagnosis.MaxEvents)
	if err != nil {
		return diagnosis.Facts{}, err
	}
	f.Events = happened.Events
	if diagnosis.NeedsAccount(a) {
		account, err := d.Accounts.Account(ctx, a.OrganizationID)
		if err != nil {
			return diagnosis.Facts{}, err
		}
		f.Account = &account
	}
	return f, nil
}

// statusOf is the status of an agent; one that sleeps is not called paused.
func statusOf(a agent.Agent) string {
	if a.Asleep() {
		return "asleep"
	}
	return string(a.Status)
}

// sleep says when the agent sleeps, what wakes it, and for how long it was awake of late.
func sleep(a agent.Agent, now time.Time) (lines []string) {
	if a.Sleep.AfterSeconds > 0 {
		line := fmt.Sprintf("Sleeps after %d s, wakes on %s", a.Sleep.AfterSeconds, cmp.Or(wakers(a), "nothing"))
		if a.WokenBy != "" {
			line += fmt.Sprintf(", last woken by %s", a.WokenBy)
		}
		lines = append(lines, line)
	}
	const week = 7
	days, seconds := a.AwakeDays(now), 0
	days = days[max(0, len(days)-week):]
	for _, d := range days {
		seconds += d.Seconds
	}
	return append(lines, fmt.Sprintf("Awake for %s in %d days", time.Duration(seconds)*time.Second, len(days)))
}

func wakers(a agent.Agent) string {
	var names []string
	for _, w := range a.Sleep.WakeOn {
		names = append(names, string(w))
	}
	return strings.Join(names, ", ")
}

func reason(a agent.Agent) string {
	if a.StatusReason == "" || a.Asleep() {
		return ""
	}
	return " (" + string(a.StatusReason) + ")"
}

// historyEvent is one line of an agent's history.
type historyEvent struct {
	at   time.Time
	what string
}

// history merges audit entries into the timeline of the diagnosis, in order of time.
func history(timeline []diagnosis.Moment, entries []audit.Entry) []historyEvent {
	var events []historyEvent
	for _, m := range timeline {
		events = append(events, historyEvent{m.At, m.Message})
	}
	for _, e := range entries {
		what := fmt.Sprintf("%s by %s %s: %s", e.Action, e.Actor.Type, e.Actor.ID, e.Outcome)
		for _, c := range e.Changes {
			what += fmt.Sprintf(", %s %s → %s", c.Field, cmp.Or(c.Old, "-"), cmp.Or(c.New, "-"))
		}
		events = append(events, historyEvent{e.CreatedAt, what})
	}
	slices.SortStableFunc(events, func(x, y historyEvent) int { return x.at.Compare(y.at) })
	return events
}

// work says what the workers do about an agent. Only operators see that; what is wrong is in the diagnosis.
func work(a agent.Agent, now time.Time) []string {
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	if a.Converged() {
		add("No work is left: the agent has reached its desired state.")
		if a.StatusReason == agent.Billing {
			add("See its organization's account: operator show -organization %s", a.OrganizationID)
		}
		return lines
	}
	if left := a.Unfinished(); len(left) > 0 && a.WantsPod() {
		names := make([]string, len(left))
		for i, s := range left {
			names[i] = string(s)
		}
		add("Stages left: %s", strings.Join(names, ", "))
	}
	switch {
	case a.Lease.Holder != "" && now.Before(a.Lease.Until):
		add("A worker is processing it: %s, until %s at least.", a.Lease.Holder, moment(a.Lease.Until))
	case now.Before(a.RetryAt):
		add("The next attempt starts after %s. Nudge it to start one now.", moment(a.RetryAt))
	case !a.WaitingSince.IsZero() && now.Before(a.WorkDueAt):
		add("It has waited since %s; a worker looks again at %s, or when a nudge reports a change.",
			moment(a.WaitingSince), moment(a.WorkDueAt))
	case a.WorkDueAt.IsZero():
		add("No worker will process it: no work is due, although the desired state is not reached. Nudge it.")
	case now.Before(a.WorkDueAt):
		add("No worker is processing it; the sweep nudges it at %s.", moment(a.WorkDueAt))
	default:
		add("No worker is processing it, and the sweep should have nudged it at %s: check that SweepAgents runs. "+
			"Nudge it.",
			moment(a.WorkDueAt))
	}
	switch {
	case a.Deadline.IsZero():
		add("No deadline runs: the pod's objects are not applied.")
	case a.Expired(now):
		add("The pod should have been Ready at %s; the next attempt decides: check that SweepAgents runs.",
			moment(a.Deadline))
	default:
		add("The pod must be Ready at %s.", moment(a.Deadline))
	}
	return lines
}
