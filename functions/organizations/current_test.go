package organizations_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agents.example/controlplane/functions/backendtest"
	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/functions/organizations"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/billing"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/egress"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/page"
	"agents.example/controlplane/shared/plan"
)

func current(t *testing.T, b *backendtest.Backend) organizations.View {
	t.Helper()
	var v organizations.View
	b.Call(t, organizations.Current(b.Accounts), functiontest.AsMember("org-1")).Want(t, http.StatusOK, "").Decode(t,
		&v)
	return v
}

func TestCurrent_IsForMembers(t *testing.T) {
	t.Parallel()
	functiontest.CheckRefusals(t, organizations.Current(nil), function.Member)
}

func TestCurrent_BeginsOnHobbyWithoutUsage(t *testing.T) {
	t.Parallel()
	v := current(t, backendtest.New(t))
	if v.ID != "org-1" || v.Plan != plan.Hobby || v.Status != organization.Active {
		t.Errorf("organization %s is on %s and %s, want org-1 on hobby and active", v.ID, v.Plan, v.Status)
	}
	if v.GraceEndsAt != nil {
		t.Errorf("grace_ends_at = %v without a payment, want null", v.GraceEndsAt)
	}
	if diff := cmp.Diff(organization.Amounts{SnapshotBytes: new(int64(0))}, v.Usage); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
	want := organization.Amounts{Agents: 1, CPUCores: 0.5, MemoryBytes: 1 << 30, StorageBytes: 5 << 30, APIKeys: 50}
	if v.Limits != want {
		t.Errorf("limits = %+v, want %+v", v.Limits, want)
	}
}

func TestCurrent_CountsWhatTheOrganizationHolds(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	b.CreateKey(t, "org-1")
	b.RunningAgent(t, "org-1", nil)
	b.CreateKey(t, "org-2")
	want := organization.Amounts{
		Agents: 1, CPUCores: 0.5, MemoryBytes: 1 << 30, StorageBytes: 5 << 30, APIKeys: 1, SnapshotBytes: new(int64(0)),
	}
	if diff := cmp.Diff(want, current(t, b).Usage); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
}

func TestCurrent_SaysWhenAgentsArePaused(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	b.SetPlan(t, "org-1", plan.Hobby)
	for i, row := range []struct {
		reported   billing.Status
		wantStatus organization.Status
		wantGrace  bool
	}{
		{reported: billing.Active, wantStatus: organization.Active},
		{reported: billing.PastDue, wantStatus: organization.PastDue, wantGrace: true},
		{reported: billing.Active, wantStatus: organization.Active},
	} {
		b.Stripe.Subscriptions["sub_1"] = billing.State{OrganizationID: "org-1", Subscription: billing.Subscription{
			Provider: billing.Stripe, ID: "sub_1", CustomerID: "cus_1", Status: row.reported, Plan: plan.Startup,
			Interval: billing.Month, StartedAt: time.Now(),
		}}
		before := time.Now()
		b.CallNamed(t, "ReceiveStripeEvent", functiontest.Body(map[string]any{
			"id": fmt.Sprint("evt_", i), "data": map[string]any{"object": map[string]any{"id": "sub_1"}},
		})).Want(t, http.StatusOK, "")
		v := current(t, b)
		if v.Status != row.wantStatus || v.Plan != plan.Startup {
			t.Errorf("after %s: the organization is %s on %s, want %s on startup", row.reported, v.Status, v.Plan,
				row.wantStatus)
		}
		if (v.GraceEndsAt != nil) != row.wantGrace {
			t.Fatalf("after %s: grace_ends_at = %v, want one: %t", row.reported, v.GraceEndsAt, row.wantGrace)
		}
		if !row.wantGrace {
			continue
		}
		first, last := before.Add(billing.Grace-time.Millisecond), time.Now().Add(billing.Grace)
		if v.GraceEndsAt.Before(first) || v.GraceEndsAt.After(last) {
			t.Errorf("grace_ends_at = %s, want seven days after the failed payment", v.GraceEndsAt)
		}
	}
}

// TestUpdate_RefusesToOverwriteTheSettingsOfOthers: the entity tag changes with all that the organization shows, but
// only another change of the settings is one that If-Match refuses.
func TestUpdate_RefusesToOverwriteTheSettingsOfOthers(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	tag := func() string {
		t.Helper()
		r := b.Call(t, organizations.Current(b.Accounts), functiontest.AsMember("org-1")).Want(t, http.StatusOK, "")
		return r.Header.Get("ETag")
	}
	update := func(ifMatch, body string) functiontest.Response {
		return b.CallNamed(t, "UpdateCurrentOrganization", functiontest.AsAdmin("org-1"),
			functiontest.Header("If-Match", ifMatch), functiontest.RawBody(body))
	}
	read := tag()
	b.CreateKey(t, "org-1")
	if tag() == read {
		t.Errorf("ETag = %s before and after another key, want another one: a read would not show its usage", read)
	}
	const changed = `{"egress":{"mode":"allow_list","allow":["a.example"]}}`
	update(read, changed).Want(t, http.StatusOK, "")
	update(read, `{"egress":{"allow":["b.example"]}}`).Want(t, http.StatusPreconditionFailed, "version_mismatch")
	update(`"other", W/`+tag(), changed).Want(t, http.StatusPreconditionFailed, "version_mismatch")
	if got := current(t, b).Egress.Allow; !slices.Equal(got, []string{"a.example"}) {
		t.Errorf("allow = %q after a refused change, want that of the first one", got)
	}
	update(`"other", `+tag(), `{"exec":"off"}`).Want(t, http.StatusOK, "")
	update("*", `{"exec":"admins"}`).Want(t, http.StatusOK, "")
	update("", `{"exec":"off"}`).Want(t, http.StatusPreconditionFailed, "version_mismatch")
	b.CallNamed(t, "UpdateCurrentOrganization", functiontest.AsAdmin("org-1"), functiontest.RawBody(`{"exec":"off"}`)).
		Want(t, http.StatusOK, "")
}

// TestUpdate_ChangesTheDefaultOfEgress: fields that are not given stay, and the audit log has those that are.
func TestUpdate_ChangesTheDefaultOfEgress(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	open := agent.EgressView{Mode: egress.Open, Allow: []string{}, Deny: []string{}}
	if diff := cmp.Diff(open, current(t, b).Egress); diff != "" {
		t.Errorf("a new organization (-want +got):\n%s", diff)
	}
	update := func(body string) functiontest.Response {
		return b.CallNamed(t, "UpdateCurrentOrganization", functiontest.AsAdmin("org-1"), functiontest.RawBody(body))
	}
	update(`{"egress":{"mode":"allow_list","allow":["B.example","a.example"]}}`).Want(t, http.StatusOK, "")
	update(`{"egress":{"deny":["c.example"]}}`).Want(t, http.StatusOK, "")
	update(`{"exec":"off"}`).Want(t, http.StatusOK, "")
	want := agent.EgressView{
		Mode: egress.AllowList, Allow: []string{"a.example", "b.example"}, Deny: []string{"c.example"},
	}
	if diff := cmp.Diff(want, current(t, b).Egress); diff != "" {
		t.Errorf("after two changes (-want +got):\n%s", diff)
	}
	ctx := call.As(t.Context(), identity.Caller{OrganizationID: "org-1"})
	updates := audit.Filter{Action: "UpdateCurrentOrganization"}
	found, err := b.Audit.List(ctx, updates, page.Request{Limit: page.MaxLimit})
	if err != nil {
		t.Fatal(err)
	}
	var changes []audit.Change
	for _, e := range slices.Backward(found.Items) {
		changes = append(changes, e.Changes...)
	}
	wantChanges := []audit.Change{
		{Field: "egress.mode", New: "allow_list"},
		{Field: "egress.allow", New: "B.example a.example"},
		{Field: "egress.deny", New: "c.example"},
		{Field: "exec", New: "off"},
	}
	if diff := cmp.Diff(wantChanges, changes); diff != "" {
		t.Errorf("the audit log (-want +got):\n%s", diff)
	}
	long := make([]string, 100)
	for i := range long {
		long[i] = fmt.Sprintf("%d%s.example", i, strings.Repeat("a", 60))
	}
	update(`{"egress":{"allow":["`+strings.Join(long, `","`)+`"]}}`).Want(t, http.StatusOK, "")
	update(`{"exec":"admins","egress":{"deny":["`+strings.Join(long, `","`)+`"]}}`).
		Want(t, http.StatusUnprocessableEntity, "validation_error")
	if got := current(t, b).Exec; got != organization.ExecOff {
		t.Errorf("exec after a refused request = %q, want off as before", got)
	}
}
