//go:build unix

package consoletest_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"agents.example/controlplane/emulators/consoletest"
	"agents.example/controlplane/emulators/stripeemu"
	"agents.example/controlplane/shared/plan"
)

// paidStartup is a subscription in place of the service's answer.
const paidStartup = `{"plan": "startup", "status": "active", "interval": "month", "provider": "stripe",
	"current_period_start": "2026-01-05T10:00:00Z", "current_period_end": "2026-02-05T10:00:00Z",
	"cancel_at_period_end": false, "pending_plan": null}`

// TestMembers_SeeWhyTheyMayNotChangeAnything visits all pages of an organization without the rights of an admin.
func TestMembers_SeeWhyTheyMayNotChangeAnything(t *testing.T) {
	t.Parallel()
	admin := suite.Admin(t, plan.Startup)
	agent := admin.CreateAgent("support bot", nil)
	admin.AwaitAgent(agent, "running")
	p := admin.Colleague("member").Page(t)
	p.Respond(http.MethodGet, "/api/v1/billing/subscription", consoletest.Response{
		Status: http.StatusOK, Body: paidStartup,
	})
	for _, c := range []struct{ place, name, button, text string }{
		{place: "agents", name: "member-agents", button: "New agent", text: "support bot"},
		{place: "agents/" + agent, name: "member-agent", button: "Restart", text: "support bot"},
		{place: "usage", name: "member-usage", text: "1 of 5 agents used, 4 agents left"},
		{
			place: "api-keys", name: "member-api-keys", button: "Create a key",
			text: "Only admins can see and create API keys",
		},
		{
			place: "members", name: "member-members", button: "Add a member",
			text: "Members are managed at your identity provider",
		},
		{
			place: "billing", name: "member-billing", button: "Change to Pro",
			text: "Only admins of the organization can do this.",
		},
		{place: "audit-log", name: "member-audit-log", text: "Only admins can read the audit log"},
	} {
		p.Open("/console#/" + c.place)
		p.WaitText(c.text)
		if c.button != "" {
			if b := p.WaitFor("button", c.button); !b.Disabled || b.Description == "" {
				t.Errorf("%s: button %s = %+v, want it disabled with a reason", c.place, c.button, b)
			}
		}
		p.Review(c.name)
	}
}

// TestUsage_SaysWhatToDoWhenAPlanIsFull shows the limits of the smallest plan with its only agent.
func TestUsage_SaysWhatToDoWhenAPlanIsFull(t *testing.T) {
	t.Parallel()
	admin := suite.Admin(t, plan.Hobby)
	admin.CreateAgent("only one", nil)
	p := admin.Open(t, "/console#/usage")
	p.WaitText("1 of 1 agent used, 0 agents left")
	p.WaitText("To create another agent, delete an agent or choose a larger plan.")
	p.WaitText("To create another agent, stop or delete an agent or choose a larger plan.") // CPU and memory
	p.WaitText("A paused agent counts in full; a stopped one only with its slot and storage.")
	p.WaitFor("meter", "Agents")
	p.Review("usage")
}

// TestBilling_ChangesThePlan buys a plan on the provider's page, and sees that a payment is overdue.
func TestBilling_ChangesThePlan(t *testing.T) {
	t.Parallel()
	admin := suite.Admin(t, plan.Hobby)
	p := admin.Open(t, "/console#/billing")
	p.WaitText("The organization has no subscription")
	p.Review("billing")
	p.Click("button", "Change to Starter")
	dialog := p.Within("dialog", "Change to Starter")
	dialog.WaitText("begins as soon as it is paid")
	p.Review("billing-change")
	p.Expect(strings.TrimPrefix(suite.Cloud(t).Stripe.URL, "http://")) // the provider's page pays when it is visited
	dialog.Click("button", "Continue to payment")
	p.WaitText("The organization is on the Starter plan")
	p.WaitURL("/console#/billing")
	p.WaitText("Renews")
	p.Review("billing-paid")
	p.Click("button", "Dismiss")
	p.WaitNoText("Its limits apply already.")
	p.Click("button", "Change to Hobby")
	p.Within("dialog", "Change to Hobby").WaitText("your agents must fit into the Hobby plan") // else the API refuses
}

// TestBilling_LeavesForOnePage looks at a button that leads to the payment provider in the moment in which the browser
// leaves. If it could be pressed until then, it would make another page, on which the plan could be paid once more.
func TestBilling_LeavesForOnePage(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ path, opener, button string }{
		"payment": {path: "/checkout-session", opener: "Change to Pro", button: "Continue to payment"},
		"portal":  {path: "/portal-session", button: "Open the billing portal"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := suite.Admin(t, plan.Startup).Page(t)
			provider := suite.Cloud(t).Ready.BaseURL + "/provider" // of the same origin, so that it sees what is stored
			p.Respond(http.MethodGet, provider, consoletest.Response{
				Status: http.StatusOK, Body: "<!doctype html><title>Pay</title>The provider's page",
				Header: map[string]string{"Content-Type": "text/html"},
			})
			p.Respond(http.MethodGet, "/billing/subscription", consoletest.Response{
				Status: http.StatusOK, Body: paidStartup,
			})
			p.Respond(http.MethodPost, c.path, consoletest.Response{
				Status: http.StatusOK, Body: fmt.Sprintf(`{"url": %q, "expires_at": "2030-01-05T10:00:00Z"}`, provider),
			})
			p.Respond(http.MethodPost, c.path, consoletest.Response{
				Status: http.StatusServiceUnavailable, Body: `{"code": "unavailable"}`, Times: 1,
			})
			p.Open("/console#/billing")
			if c.opener != "" {
				p.Click("button", c.opener)
			}
			p.Click("button", c.button)
			p.WaitFor("button", "Try again")
			consoletest.Eval[bool](p, fmt.Sprintf(storeOnLeaving, c.button))
			p.Click("button", c.button) // a failure lets it be pressed again
			p.WaitText("The provider's page")
			if left := consoletest.Eval[string](p, "sessionStorage.getItem('left')"); left != "true" {
				t.Errorf("aria-disabled of the button when the browser left = %s, want true", left)
			}
		})
	}
}

// TestBilling_AsksOnceAlthoughTheDialogWasClosed closes the dialog while its call runs, and opens it again.
func TestBilling_AsksOnceAlthoughTheDialogWasClosed(t *testing.T) {
	t.Parallel()
	p := suite.Admin(t, plan.Startup).Page(t)
	answered := make(chan struct{})
	p.Respond(http.MethodGet, "/billing/subscription", consoletest.Response{Status: http.StatusOK, Body: paidStartup})
	p.Respond(http.MethodPost, "/checkout-session", consoletest.Response{
		Status: http.StatusConflict, Body: `{"code": "refused", "detail": "Not now."}`, Hold: answered,
	})
	p.Open("/console#/billing")
	p.Click("button", "Change to Pro")
	p.Click("button", "Continue to payment")
	p.Click("button", "Stay here")
	p.Click("button", "Change to Pro")
	if b := p.WaitFor("button", "Continue to payment"); !b.Disabled {
		t.Errorf("button of a call that runs = %+v, want it disabled", b)
	}
	close(answered)
	p.WaitText("Not now.")
	p.Click("button", "Stay here")
	p.Click("button", "Change to Business")
	p.WaitNoText("Not now.")
}

// storeOnLeaving stores whether a button is disabled when the browser leaves the page.
const storeOnLeaving = `(() => {
	const button = [...document.querySelectorAll("button")].find(one => one.textContent === %q);
	addEventListener("pagehide", () => sessionStorage.setItem("left", button.getAttribute("aria-disabled")));
	return true;
})()`

// TestBilling_OffersNoChangeOfAPlanThatIsNotPaid shows a plan that is set by contract, and one that the operator set.
func TestBilling_OffersNoChangeOfAPlanThatIsNotPaid(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]struct {
		plan   plan.ID
		answer consoletest.Response // of the subscription, in place of the service's
	}{
		"contract": {plan: plan.Enterprise},
		"operator": {plan: plan.Starter, answer: consoletest.Response{Status: http.StatusOK, Body: `{"plan": "starter",
			"status": "active", "interval": null, "current_period_start": null, "current_period_end": null,
			"cancel_at_period_end": false, "pending_plan": null, "provider": "manual"}`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := suite.Admin(t, at.plan).Page(t)
			if at.answer.Status != 0 {
				p.Respond(http.MethodGet, "/api/v1/billing/subscription", at.answer)
			}
			p.Open("/console#/billing")
			p.WaitText("Your plan is set by contract, or by the operator of this service")
			p.WaitText("Current plan")
			p.WaitNoText("pays nothing")
			for _, gone := range []string{"Change to *", "Pay *", "Open the billing portal"} {
				if found := p.All("button", gone); len(found) > 0 {
					t.Errorf("buttons = %+v, want none that changes a subscription: there is none", found)
				}
			}
			p.Review("billing-" + name)
		})
	}
}

// TestBilling_SaysWhenAgentsArePaused shows on every page that a payment is overdue.
func TestBilling_SaysWhenAgentsArePaused(t *testing.T) {
	t.Parallel()
	admin := suite.Admin(t, plan.Hobby)
	page := admin.Call(http.MethodPost, "/api/v1/billing/checkout-session", `{"plan": "pro"}`, http.StatusOK)
	address, _ := page["url"].(string)
	stripe := suite.Cloud(t).Stripe
	subscription, err := stripe.Pay(address)
	if err != nil {
		t.Fatal(err)
	}
	if err := stripe.Change(subscription, stripeemu.Status("past_due")); err != nil {
		t.Fatal(err)
	}
	notify(t, stripe.Sign("evt_"+uuid.NewString(), "customer.subscription.updated", subscription, time.Now()))
	p := admin.Page(t)
	p.SetTimezone("UTC")
	p.Open("/console#/usage")
	p.WaitText("A payment is overdue")
	text, _ := admin.Call(http.MethodGet, "/api/v1/organizations/current", "", http.StatusOK)["grace_ends_at"].(string)
	end, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	p.WaitText("Running agents are paused on " + end.UTC().Format("Jan 2"))
	p.Click("link", "Go to billing")
	p.WaitText("Payment overdue")
	if b := p.WaitFor("button", "Change to Business"); !b.Disabled ||
		b.Description != "Pay the open invoice in the billing portal first." {
		t.Errorf("button of another plan = %+v, want it disabled until the invoice is paid", b)
	}
	p.Review("billing-past-due")
}

// notify sends an event of the payment provider to the service.
func notify(t *testing.T, e stripeemu.Event) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
		suite.Cloud(t).Ready.BaseURL+"/api/v1/billing/webhooks/stripe", strings.NewReader(string(e.Body)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Stripe-Signature", e.Signature)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close() //nolint:errcheck // the body is not read
	if res.StatusCode != http.StatusOK {
		t.Fatalf("webhook: status %d, want 200", res.StatusCode)
	}
}

// rememberExport keeps the file that the page saves. It removes what Safari does not have: the iteration over bodies.
const rememberExport = `(() => {
	delete ReadableStream.prototype[Symbol.asyncIterator];
	delete ReadableStream.prototype.values;
	const create = URL.createObjectURL;
	URL.createObjectURL = file => { file.text().then(text => window.exported = text); return create(file); };
	HTMLAnchorElement.prototype.click = () => {};
	return true;
})()`

// TestAuditLog_IsFilteredAndExported finds a change by its action, opens it, and exports what the filter matches.
func TestAuditLog_IsFilteredAndExported(t *testing.T) {
	t.Parallel()
	admin := suite.Admin(t, plan.Enterprise)
	agent := admin.CreateAgent("support bot", nil)
	admin.AwaitAgent(agent, "running")
	admin.Call(http.MethodPatch, "/api/v1/agents/"+agent, `{"name": "sales bot"}`, http.StatusOK)
	p := admin.Open(t, "/console#/audit-log")
	entries := p.Within("list", "Entries, newest first")
	entries.WaitText("Agent created")
	p.Select("Action", "Agent changed")
	p.WaitURL("action=UpdateAgent")
	p.WaitText("1 entry")
	entries.WaitNoText("Agent created")
	p.Click("DisclosureTriangle", "Agent changed*")
	p.WaitText("support bot") // the old value
	p.Review("audit-log")
	consoletest.Eval[bool](p, rememberExport)
	p.Click("button", "Export")
	p.WaitTrue("window.exported !== undefined")
	lines := strings.Split(strings.TrimSpace(consoletest.Eval[string](p, "window.exported")), "\n")
	if len(lines) != 1 || !strings.Contains(lines[0], `"action":"UpdateAgent"`) {
		t.Errorf("the export has %d lines, want the one that the filter matches: %v", len(lines), lines)
	}
	p.Click("link", "Only this object")
	p.WaitURL("target_id=" + agent)
	p.Back()
	p.WaitTrue("!location.hash.includes('target_id')")
	p.Select("Outcome", "Not found")
	p.WaitText("No entry matches the filter")
	p.Within("group", "Chosen").Click("link", "Not found (leave out)")
	p.WaitText("1 entry")
	p.Click("button", "Clear")
	entries.WaitText("Agent created")
}

// TestAuditLog_TakesTypedTimes types a time by keyboard in a zone east of Greenwich.
func TestAuditLog_TakesTypedTimes(t *testing.T) {
	t.Parallel()
	admin := suite.Admin(t, plan.Enterprise)
	admin.RunningAgent("support bot")
	p := admin.Page(t)
	p.SetTimezone("Europe/Berlin")
	p.Open("/console#/audit-log")
	entries := p.Within("list", "Entries, newest first")
	entries.WaitText("Agent created")
	p.Select("Time", "Last hour") // a time to change: each key then makes another complete time
	p.Click("DisclosureTriangle", "More fields")
	p.WaitTrue(`document.querySelector('input[type="datetime-local"]').value !== ""`)
	p.Focus("DateTime", "From")
	p.Type("07152025")
	p.Press("ArrowRight") // a year may have more than four digits
	p.Type("0130PM")
	p.Press("Enter")
	p.WaitURL("from=2025-07-15T11%3A30%3A00.000Z")
	entries.WaitText("Agent created")
	p.WaitTrue(`document.querySelector('input[type="datetime-local"]').value === "2025-07-15T13:30"`)
}

// TestAuditLog_SaysWhatIsWrongWithALink follows a link whose time is none.
func TestAuditLog_SaysWhatIsWrongWithALink(t *testing.T) {
	t.Parallel()
	admin := suite.Admin(t, plan.Enterprise)
	admin.CreateAgent("support bot", nil)
	p := admin.Open(t, "/console#/audit-log?from=yesterday")
	p.WaitText("from: ")
	p.Click("link", "Since yesterday (leave out)")
	p.Within("list", "Entries, newest first").WaitText("Agent created")
}

// TestAuditLog_SaysWhichPlanIncludesIt leads from the audit log of a smaller plan to the plans.
func TestAuditLog_SaysWhichPlanIncludesIt(t *testing.T) {
	t.Parallel()
	p := suite.Admin(t, plan.Business).Open(t, "/console#/audit-log")
	p.WaitText("The audit log comes with the Enterprise plan")
	if b := p.WaitFor("button", "Export"); !b.Disabled {
		t.Error("the export can be started without the feature")
	}
	p.Review("audit-log-gate")
	p.Click("link", "Compare plans")
	p.WaitText("By contract: contact support.")
}
