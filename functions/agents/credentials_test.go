package agents_test

import (
	"net/http"
	"testing"
	"time"

	"agents.example/controlplane/functions/agents"
	"agents.example/controlplane/functions/backendtest"
	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/idempotency"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/page"
	"agents.example/controlplane/shared/secret"
	"agents.example/controlplane/shared/secretwrite"
)

const unknownID = "00000000-0000-4000-8000-000000000000"

func revealCredentials(t *testing.T, b *backendtest.Backend, as functiontest.Option, id string) functiontest.Response {
	t.Helper()
	return b.Call(t, agents.RevealCredentials(b.Agents, b.Credentials), as, functiontest.Path("agent_id", id))
}

func rotateCredentials(t *testing.T, b *backendtest.Backend, as functiontest.Option, id string) functiontest.Response {
	t.Helper()
	writer := secretwrite.Service{Agents: b.Agents, Secrets: b.SecretWriter, Now: time.Now}
	return b.Call(
		t,
		agents.RotateCredentials(writer, agent.Display{Addresses: b.Addresses}),
		as,
		functiontest.Path("agent_id", id),
	)
}

func TestCredentials_AreForAdmins(t *testing.T) {
	t.Parallel()
	for _, r := range []function.Route{
		agents.RevealCredentials(nil, nil), agents.RotateCredentials(secretwrite.Service{}, agent.Display{}),
	} {
		functiontest.CheckRefusals(t, r, function.Admin, functiontest.Path("agent_id", unknownID))
	}
}

func TestRevealCredentials_ShowsTheCredentialsInForce(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	a := b.RunningAgent(t, "org-1", nil)
	var v agents.CredentialsView
	res := revealCredentials(t, b, functiontest.AsAdmin("org-1"), a.ID).Want(t, http.StatusOK, "")
	res.Decode(t, &v)
	inForce, err := b.Credentials.GetCredentials(t.Context(), a.ID, a.CredentialVersion)
	must(t, err)
	want := agents.CredentialsView{
		AgentID: a.ID, DashboardUsername: inForce.DashboardUsername,
		DashboardPassword: inForce.DashboardPassword, TenantAPIKey: inForce.APIKey,
		CredentialVersion: a.CredentialVersion,
	}
	if v != want {
		t.Errorf("the credentials of version %d are not those in force, version %d", v.CredentialVersion,
			a.CredentialVersion)
	}
	if got := res.Header.Get("Cache-Control"); got != "no-store" {
		t.Errorf("Cache-Control = %q, want no-store", got)
	}
}

func TestRevealCredentials_WritesAnAuditEntryEachTime(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	a := b.RunningAgent(t, "org-1", nil)
	for range 2 {
		revealCredentials(t, b, functiontest.AsAdmin("org-1"), a.ID).Want(t, http.StatusOK, "")
	}
	wantReveals(t, b, 2)
}

// wantReveals counts the audit entries of org-1's reveals.
func wantReveals(t *testing.T, b *backendtest.Backend, want int) {
	t.Helper()
	ctx := call.As(t.Context(), identity.Caller{OrganizationID: "org-1"})
	found, err := b.Audit.List(ctx, audit.Filter{Action: "RevealCredentials"}, page.Request{Limit: 10})
	must(t, err)
	if len(found.Items) != want {
		t.Errorf("%d audit entries, want %d", len(found.Items), want)
	}
	for _, e := range found.Items {
		if e.Outcome != audit.Succeeded || e.Replayed {
			t.Errorf("outcome %s, replayed %t; want a success that showed the credentials", e.Outcome, e.Replayed)
		}
	}
}

// A kept answer would hold secrets, so a repeated request reads the credentials again.
func TestRevealCredentials_RepeatedWithAKeyWritesAnotherAuditEntry(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	a := b.RunningAgent(t, "org-1", nil)
	for range 2 {
		res := b.Call(t, agents.RevealCredentials(b.Agents, b.Credentials), functiontest.AsAdmin("org-1"),
			functiontest.Path("agent_id", a.ID), functiontest.Header(idempotency.Header, "once"))
		if res.Want(t, http.StatusOK, "").Text("dashboard_password") == "" {
			t.Error("the answer has no password")
		}
	}
	wantReveals(t, b, 2)
}

func TestRevealCredentials_RefusesAnAgentWithoutCredentials(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	id := b.CallNamed(t, "CreateAgent", functiontest.AsAdmin("org-1"),
		functiontest.Body(map[string]string{"name": "new", "resource_plan": "hobby"})).Text("id")
	revealCredentials(t, b, functiontest.AsAdmin("org-1"), id).Want(t, http.StatusConflict, "credentials_not_ready")
}

func TestRotateCredentials_IsPendingUntilAWorkerProvesIt(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	a := b.RunningAgent(t, "org-1", nil)
	for range 2 { // a second request joins the rotation
		res := rotateCredentials(t, b, functiontest.AsAdmin("org-1"), a.ID).Want(t, http.StatusOK, "")
		if got := res.JSON["credential_rotation_pending"]; got != true {
			t.Errorf("credential_rotation_pending = %v, want true", got)
		}
	}
	present := b.Agent(t, a.ID)
	latest := present.HighestVersion(secret.CredentialsKey)
	if want := a.CredentialVersion + 1; latest != want {
		t.Errorf("the newest version is %d, want %d", latest, want)
	}
}

func TestCredentials_DoNotFindAgentsOfOtherOrganizations(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	a := b.RunningAgent(t, "org-1", nil)
	for _, call := range []func(*testing.T, *backendtest.Backend, functiontest.Option, string) functiontest.Response{
		revealCredentials, rotateCredentials,
	} {
		call(t, b, functiontest.AsAdmin("org-2"), a.ID).Want(t, http.StatusNotFound, "agent_not_found")
		call(t, b, functiontest.AsAdmin("org-1"), unknownID).Want(t, http.StatusNotFound, "agent_not_found")
	}
}
