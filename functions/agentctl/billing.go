package agentctl

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"agents.example/controlplane/shared/client"
)

// billingCommand is the family of commands for plans and payments.
func (t *tool) billingCommand() *cobra.Command {
	c := &cobra.Command{Use: "billing", Short: "List plans, show the subscription, buy and change a plan"}
	c.AddCommand(t.listPlans(), t.showSubscription(), t.openCheckout(), t.openPortal())
	return c
}

func (t *tool) listPlans() *cobra.Command {
	return &cobra.Command{
		Use: "plans", Short: "List the plans", Args: cobra.NoArgs,
		Long: "List the plans with their prices, the number of agents, the size of each agent, and after how long " +
			"without use an agent falls asleep unless it is asked for another time.",
		Example:     "  agentctl billing plans",
		Annotations: sends("ListPlans"),
		RunE: t.calling(func(ctx context.Context, api *client.Client, _ []string) error {
			plans, err := api.ListPlans(ctx)
			if err != nil {
				return err
			}
			return t.show(list(plans, func(p client.Plan) string { return string(p.ID) }, []column[client.Plan]{
				{"ID", func(p client.Plan) string { return string(p.ID) }},
				{"USD/MONTH", func(p client.Plan) string { return price(p.PriceUsdMonth) }},
				{"AGENTS", func(p client.Plan) string { return fmt.Sprint(p.MaxAgents) }},
				{"CPU", func(p client.Plan) string { return short(p.Agent.CPUCores) }},
				{"MEMORY", func(p client.Plan) string { return bytesText(float64(p.Agent.MemoryBytes)) }},
				{"STORAGE", func(p client.Plan) string { return bytesText(float64(p.Agent.StorageBytes)) }},
				{"SLEEPS", planSleep},
				{"INCLUDES", func(p client.Plan) string { return strings.Join(p.Features, ", ") }},
			}))
		}),
	}
}

// planSleep is when agents of a plan fall asleep by default.
func planSleep(p client.Plan) string {
	if p.SleepAfterSeconds == nil {
		return "never"
	}
	return "after " + shortDuration(time.Duration(*p.SleepAfterSeconds)*time.Second)
}

func price(usd *float64) string {
	if usd == nil {
		return "by contract"
	}
	return short(*usd)
}

func (t *tool) showSubscription() *cobra.Command {
	return &cobra.Command{
		Use: "subscription", Short: "Show the subscription", Args: cobra.NoArgs,
		Long:        "Show the organization's subscription: its plan, status and period, and the plan that comes next.",
		Example:     "  agentctl billing subscription",
		Annotations: sends("GetSubscription"),
		RunE: t.calling(func(ctx context.Context, api *client.Client, _ []string) error {
			s, err := api.GetSubscription(ctx)
			if err != nil {
				return err
			}
			ends := ""
			if s.CancelAtPeriodEnd {
				ends = "at the end of the period"
			}
			return t.show(object(s, string(s.Plan), []field{
				{"Plan", string(s.Plan)},
				{"Status", string(s.Status)},
				{"Provider", string(s.Provider)},
				{"Interval", textOr(s.Interval, "")},
				{"Period starts", day(s.CurrentPeriodStart, "")},
				{"Period ends", day(s.CurrentPeriodEnd, "")},
				{"Next plan", textOr(s.PendingPlan, "")},
				{"Canceled", ends},
			}))
		}),
	}
}

func (t *tool) openCheckout() *cobra.Command {
	var interval string
	var open bool
	c := &cobra.Command{
		Use: "checkout PLAN", Short: "Print or open the page that buys or changes a plan", Args: cobra.ExactArgs(1),
		Long: "Print the page on which the organization buys a plan, or changes to it. With --open, a browser opens " +
			"the page. The page can be opened for a limited time only.",
		Example:     "  agentctl billing checkout startup --interval year --open",
		Annotations: sends("CreateCheckoutSession"),
		RunE: t.calling(func(ctx context.Context, api *client.Client, args []string) error {
			body := client.CreateCheckoutSessionRequest{Plan: client.PlanID(args[0])}
			if interval != "" {
				body.Interval = new(client.BillingInterval(interval))
			}
			s, err := api.CreateCheckoutSession(ctx, body)
			if err != nil {
				return err
			}
			return t.showPage(ctx, s, open)
		}),
	}
	c.Flags().StringVar(&interval, "interval", "", "month or year")
	c.Flags().BoolVar(&open, "open", false, "open the page in a browser")
	completeWith(c, "interval", "month", "year")
	c.ValidArgsFunction = t.completePlans
	return c
}

func (t *tool) openPortal() *cobra.Command {
	var open bool
	c := &cobra.Command{
		Use: "portal", Short: "Print or open the page with invoices and payment methods", Args: cobra.NoArgs,
		Long: "Print the page on which the organization changes its payment method, reads its invoices, and cancels. " +
			"With --open, a browser opens the page.",
		Example:     "  agentctl billing portal --open",
		Annotations: sends("CreatePortalSession"),
		RunE: t.calling(func(ctx context.Context, api *client.Client, _ []string) error {
			s, err := api.CreatePortalSession(ctx)
			if err != nil {
				return err
			}
			return t.showPage(ctx, s, open)
		}),
	}
	c.Flags().BoolVar(&open, "open", false, "open the page in a browser")
	return c
}

// showPage prints the address of a page for payments, and opens it if the user wants that.
func (t *tool) showPage(ctx context.Context, s *client.BillingSession, open bool) error {
	err := t.show(result{value: s, names: []string{s.URL}, table: textOf(s.URL)})
	if err != nil || !open {
		return err
	}
	if err := t.openPrivately(ctx, s.URL, func() {}); err != nil {
		return fmt.Errorf("no browser could be opened. Open the address that is printed above: %w", err)
	}
	return nil
}
