package main

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/billing"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/plan"
)

// listPage is the page size of list.
const listPage = 200

// list prints one line per organization. A record that cannot be read does not hide the others.
func list(ctx context.Context, d operator, _ options) error {
	var unreadable []error
	table := tabwriter.NewWriter(d.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ORGANIZATION\tPLAN\tSTATUS\tSUBSCRIPTION\tAGENTS\tSINCE")
	for after := ""; ; {
		ids, err := d.Counts.Organizations(ctx, after, listPage)
		if err != nil {
			return err
		}
		for _, id := range ids {
			a, err := d.Accounts.Account(ctx, id)
			if fault.Is(err, fault.NotFound) {
				continue
			}
			if fault.Is(err, fault.Unavailable) {
				return err
			}
			if err != nil {
				unreadable = append(unreadable, fmt.Errorf("organization %s: %w", id, err))
				continue
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\t%s\n", a.ID, a.Plan, a.Status, subscription(a), a.Usage.Agents,
				date(a.CreatedAt))
		}
		if len(ids) < listPage {
			return errors.Join(append(unreadable, table.Flush())...)
		}
		after = ids[len(ids)-1]
	}
}

// subscription returns the status and provider of the subscription.
func subscription(a billing.Account) string {
	if a.Subscription.Provider == "" {
		return string(billing.None)
	}
	return string(a.Subscription.Status) + " (" + string(a.Subscription.Provider) + ")"
}

// show prints an organization with its usage and limits.
func show(ctx context.Context, d operator, o options) error {
	a, err := d.Accounts.Account(ctx, o.organization)
	if err != nil {
		return err
	}
	if err := d.record(d.on(ctx, a.ID, "ShowOrganization"), target(a)); err != nil {
		return err
	}
	limits, err := a.Limits()
	if err != nil {
		return err
	}
	s := a.Subscription
	table := tabwriter.NewWriter(d.Out, 0, 0, 2, ' ', 0)
	line := func(name string, format string, args ...any) {
		fmt.Fprintf(table, "%s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	line("Organization", "%s, since %s", a.ID, date(a.CreatedAt))
	line("Plan", "%s", a.Plan)
	line("Status", "%s", a.Status)
	line("Subscription", "%s", subscription(a))
	if !s.PeriodEnd.IsZero() {
		line("Paid until", "%s, each %s", moment(s.PeriodEnd), s.Interval)
	}
	if s.PendingPlan != "" {
		line("From then on", "%s", s.PendingPlan)
	}
	if !s.PastDueSince.IsZero() {
		line("Past due", "since %s; agents are paused from %s on", moment(s.PastDueSince),
			moment(s.PastDueSince.Add(billing.Grace)))
	}
	if s.CustomerID != "" {
		line("Customer", "%s, subscription %s", s.CustomerID, s.ID)
	}
	line("Agents", "%d of %d", a.Usage.Agents, limits.Agents)
	line("CPU", "%g of %g cores", float64(a.Usage.CPUMillis)/1000, float64(limits.CPUMillis)/1000)
	line("Memory", "%d of %d MiB", a.Usage.MemoryBytes>>20, limits.MemoryBytes>>20)
	line("Storage", "%d of %d GiB", a.Usage.StorageBytes>>30, limits.StorageBytes>>30)
	line("API keys", "%d of %d", a.Usage.APIKeys, limits.APIKeys)
	return table.Flush()
}

func target(a billing.Account) audit.Target { return audit.Target{Type: "organization", ID: a.ID} }

// accounts returns the service that changes accounts.
func (d operator) accounts() *billing.Service {
	return &billing.Service{Store: d.Accounts, Payments: billing.NoProvider{}, Agents: d.Agents, Now: d.Now}
}

func setPlan(ctx context.Context, d operator, o options) error {
	to, err := plan.Get(plan.ID(o.plan))
	if err != nil {
		return fmt.Errorf("%w; want one of %v", err, plan.ID("").Values())
	}
	if err := d.accounts().SetPlan(d.on(ctx, o.organization, "SetPlan"), o.organization, to, o.force); err != nil {
		return explain(err)
	}
	d.printf("%s is on the %s plan.\n", o.organization, to.ID)
	return nil
}

// explain adds the exceeded limits to an error.
func explain(err error) error {
	e := fault.From(err)
	over, ok := e.Meta["over"].([]billing.Excess)
	if !ok {
		return err
	}
	text := ""
	for _, x := range over {
		text += fmt.Sprintf("\n  %s: %v of at most %v", x.Limit, x.Current, x.Max)
		if x.AgentID != "" {
			text += fmt.Sprintf(" (agent %s, %q)", x.AgentID, x.Name)
		}
	}
	return fmt.Errorf("%w%s\nuse -force to set the plan anyway; agents over the limits are paused", err, text)
}

func suspend(ctx context.Context, d operator, o options) error {
	if err := d.accounts().Suspend(d.on(ctx, o.organization, "SuspendOrganization"), o.organization, true); err != nil {
		return err
	}
	d.printf("%s is suspended; its agents are paused within a minute or two.\n", o.organization)
	return nil
}

func resume(ctx context.Context, d operator, o options) error {
	if err := d.accounts().Suspend(d.on(ctx, o.organization, "ResumeOrganization"), o.organization, false); err != nil {
		return err
	}
	d.printf("%s is not suspended; the agents that it paused resume within a minute or two.\n", o.organization)
	return nil
}

func date(t time.Time) string { return t.UTC().Format(time.DateOnly) }

func moment(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }
