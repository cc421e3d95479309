// Package organizations has the routes of the caller, of their organization, and of its members and API keys. It does
// not have the rules of members, which package member has, and does not authenticate with keys; package identity does.
package organizations

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/billing"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/plan"
)

// View is an organization in an answer.
type View struct {
	ID          string               `json:"id"`
	Plan        plan.ID              `json:"plan" jsonschema:"The organization's plan."`
	Status      organization.Status  `json:"status" jsonschema:"Whether the organization's payments are in order."`
	GraceEndsAt *time.Time           `json:"grace_ends_at" jsonschema:"When running agents are paused because a payment is overdue; null if none is."`
	Limits      organization.Amounts `json:"limits" jsonschema:"What all agents and API keys together may take up."`
	Usage       organization.Amounts `json:"usage" jsonschema:"What all agents and API keys together take up."`
	Exec        organization.Exec    `json:"exec" jsonschema:"Who may enter the containers of agents: admins, or off for no one."`
	Egress      agent.EgressView     `json:"egress" jsonschema:"What new agents may reach unless their creation says otherwise."`
	CreatedAt   time.Time            `json:"created_at"`
}

// Example implements function.Exampler.
func (View) Example() any {
	o := organization.New("org_1", time.Date(2026, time.March, 2, 9, 30, 0, 0, time.UTC))
	o.Plan, o.Usage = plan.Startup,
		organization.Usage{Agents: 1, CPUMillis: 2000, MemoryBytes: 4 << 30, StorageBytes: 20 << 30, APIKeys: 1}
	limits, _ := o.Limits()
	return view(billing.Account{Organization: o}, limits)
}

func view(a billing.Account, limits organization.Usage) View {
	v := View{
		ID: a.ID, Plan: a.Plan, Status: a.Status, Limits: limits.Limits(), Usage: a.Usage.Amounts(),
		Exec: a.ExecSetting(), Egress: agent.ShowEgress(a.Egress), CreatedAt: a.CreatedAt.UTC(),
	}
	if ends := a.GraceEndsAt(); !ends.IsZero() {
		v.GraceEndsAt = new(ends.UTC())
	}
	return v
}

// settings are what admins choose for their organization.
type settings struct {
	Exec   organization.Exec `json:"exec,omitempty" jsonschema:"Who may enter the containers of agents."`
	Egress *agent.EgressSpec `json:"egress,omitempty" jsonschema:"Changes what new agents may reach unless their creation says otherwise; a field that is not given stays. Agents that exist keep what they have."`
}

type updateInput struct {
	Header struct {
		IfMatch string `json:"If-Match,omitempty" jsonschema:"The ETag of the organization with the settings to change. If these have changed, the call fails with 412."`
	} `json:"header"`
	Body settings `json:"body"`
}

// Example implements function.Exampler.
func (updateInput) Example() any { return updateInput{Body: settings{Exec: organization.ExecAdmins}} }

// Update changes the settings of the caller's organization.
func Update(chosen organization.Settings, accounts billing.Store, log audit.Log) function.Route {
	return function.Route{
		Name: "UpdateCurrentOrganization", Method: http.MethodPatch, Path: "/api/v1/organizations/current",
		Access: function.Admin, Needs: []function.Need{function.Firestore}, KeepAnswer: true,
		Errors: []fault.Kind{fault.Conflict}, // a key whose call is in progress
		Status: http.StatusOK, Summary: "Change the settings of the active organization",
		Handle: function.Handle(func(ctx context.Context, in updateInput) (View, error) {
			id := call.From(ctx).Caller.OrganizationID
			if err := in.store(ctx, chosen, log, id); err != nil {
				return View{}, err
			}
			return read(ctx, accounts, id)
		}, agent.EgressViolations),
	}
}

// store stores the settings that are given: all of them, or none.
func (in updateInput) store(ctx context.Context, chosen organization.Settings, log audit.Log, id string) error {
	s, c := in.Body, call.From(ctx)
	if s.Exec != "" {
		c.Entry.AddFact("exec", string(s.Exec))
	}
	if s.Egress != nil {
		addFacts(c.Entry, *s.Egress)
	}
	if err := c.BeginEntry(ctx, log); err != nil {
		return err
	}
	return chosen.Choose(ctx, id, func(c *organization.Choices) (err error) {
		if err = match(in.Header.IfMatch, *c); err != nil {
			return err
		}
		c.Exec = cmp.Or(s.Exec, c.Exec)
		if s.Egress != nil {
			c.Egress, err = s.Egress.Change(c.Egress)
		}
		return err
	})
}

// match checks an If-Match header against the present settings. An empty header matches. Errors: PreconditionFailed.
func match(ifMatch string, c organization.Choices) error {
	present := `"` + settingsTag(organization.Organization{Exec: c.Exec}.ExecSetting(), agent.ShowEgress(c.Egress)) + "."
	for tag := range strings.SplitSeq(ifMatch, ",") {
		if tag = strings.TrimSpace(tag); ifMatch == "" || tag == "*" || strings.HasPrefix(tag, present) {
			return nil
		}
	}
	return fault.New(fault.PreconditionFailed, "version_mismatch",
		"The organization's settings have changed since the version in If-Match. Get the organization again and retry.")
}

// settingsTag is the part of the entity tag that changes with the settings alone. The other part changes with all that
// the view has, such as the usage.
func settingsTag(exec organization.Exec, rules agent.EgressView) string {
	return hash([]any{exec, rules})
}

func hash(value any) string {
	encoded, _ := json.Marshal(value) // values of these types can be encoded
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:8])
}

// tagged is an organization with its entity tag.
type tagged struct{ View }

// Example implements function.Exampler.
func (tagged) Example() any {
	v, _ := View{}.Example().(View)
	return tagged{v}
}

// Reply implements function.Reply.
func (v tagged) Reply(h http.Header) any {
	h.Set("ETag", `"`+settingsTag(v.Exec, v.Egress)+"."+hash(v.View)+`"`)
	return v.View
}

// addFacts adds what a client chose to the audit entry.
func addFacts(entry *audit.CallEntry, e agent.EgressSpec) {
	if e.Mode != "" {
		entry.AddFact("egress.mode", string(e.Mode))
	}
	if e.Allow != nil {
		entry.AddFact("egress.allow", strings.Join(*e.Allow, " "))
	}
	if e.Deny != nil {
		entry.AddFact("egress.deny", strings.Join(*e.Deny, " "))
	}
}

func read(ctx context.Context, accounts billing.Store, id string) (View, error) {
	a, err := accounts.Account(ctx, id)
	if err != nil {
		return View{}, err
	}
	limits, err := a.Limits()
	return view(a, limits), err
}

// Current reads the caller's organization with its plan, its limits and its usage.
func Current(accounts billing.Store) function.Route {
	return function.Route{
		Name: "GetCurrentOrganization", Method: http.MethodGet, Path: "/api/v1/organizations/current",
		Role:   function.RoleAccounts,
		Access: function.Member, Needs: []function.Need{function.Firestore},
		Status: http.StatusOK, Summary: "Get the active organization",
		Handle: function.Handle(func(ctx context.Context, _ function.Empty) (tagged, error) {
			v, err := read(ctx, accounts, call.From(ctx).Caller.OrganizationID)
			return tagged{v}, err
		}),
	}
}
