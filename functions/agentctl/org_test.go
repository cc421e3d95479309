package agentctl_test

import (
	"encoding/json"
	"strings"
	"testing"

	"agents.example/controlplane/functions/agentctl"
	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/shared/member"
)

func TestWhoami_NamesSessionsAndKeys(t *testing.T) {
	t.Parallel()
	a := serve(t)
	a.admin().run(t, "whoami").want(t, output{
		Stdout: "User:  ada@example.com\nName:  Ada\nID:  ID\nRole:  admin\nOrganization:  org-1\nPlan:  enterprise\n",
	})
	_, secret := a.CreateKey(t, org)
	got := a.as(secret).run(t, "whoami").ok(t).Stdout
	if !strings.HasPrefix(got, "API key:") || strings.Contains(got, secret) {
		t.Errorf("whoami with a key prints\n%s", normal(got))
	}
	a.as(functiontest.UserToken()).run(t, "whoami").want(t, output{
		Stdout: "User:  ada@example.com\nName:  Ada\nID:  ID\n" +
			"Organization:  none is active: choose one and sign in again\n",
	})
}

func TestOrg_ShowsUsageOfLimits(t *testing.T) {
	t.Parallel()
	a := serve(t)
	a.RunningAgent(t, org, nil)
	got := a.admin().run(t, "org").ok(t).Stdout
	wantParts(t, "org", got, "Plan:    enterprise", "LIMIT", "Agents", "Storage")
	if strings.Contains(got, "█") {
		t.Errorf("org draws bars without a terminal:\n%s", got)
	}
	a.admin().run(t, "org", "-o", "jsonpath={.usage.agents}").want(t, output{Stdout: "1\n"})
}

func TestMembers_AreListedChangedAndRemoved(t *testing.T) {
	t.Parallel()
	a := serve(t)
	a.Firebase.Persons["u1"] = member.Person{ID: "u1", Email: "grace@example.com", Name: "Grace"}
	a.admin().run(t, "members", "set", "u1").want(t, output{
		Stdout: "User ID:  u1\nEmail:  grace@example.com\nName:  Grace\nRole:  member\n",
	})
	if got := a.admin().run(t, "members", "list").ok(t).Stdout; !strings.Contains(got, "grace@example.com") {
		t.Errorf("members list lacks the new member:\n%s", got)
	}
	a.admin().run(t, "members", "remove", "u1", "--yes").want(t, output{
		Stderr: "Removed u1 from the organization.\n",
	})
	if got := a.Firebase.Persons["u1"].OrganizationID; got != "" {
		t.Errorf("the removed member is still in %q", got)
	}
	if got := a.admin().run(t, "members", "set", "u2").Code; got != agentctl.ExitNotFound {
		t.Errorf("set of an unknown user exits with %d, want %d", got, agentctl.ExitNotFound)
	}
}

func TestBilling_ShowsPlansAndPages(t *testing.T) {
	t.Parallel()
	a := serve(t)
	plans := a.admin().run(t, "billing", "plans", "-o", "name").ok(t).Stdout
	if !strings.Contains(plans, "startup\n") {
		t.Errorf("billing plans lacks startup:\n%s", plans)
	}
	a.admin().run(t, "billing", "subscription", "-o", "name").want(t, output{Stdout: "enterprise\n"})
	a.admin().run(t, "billing", "checkout", "startup", "-o", "name").ok(t)
}

func TestAudit_FiltersAndExports(t *testing.T) {
	t.Parallel()
	a := serve(t)
	for range 3 {
		a.admin().run(t, "keys", "create", "deploy").ok(t)
	}
	listed := a.admin().run(t, "audit", "list", "--action", "CreateAPIKey", "--limit", "2", "--from", "1h").ok(t)
	if got := strings.Count(listed.Stdout, "CreateAPIKey"); got != 2 {
		t.Errorf("%d entries, want 2:\n%s", got, listed.Stdout)
	}
	if !strings.Contains(listed.Stderr, "There are more entries") {
		t.Errorf("stderr does not say that there are more: %q", listed.Stderr)
	}
	if all := a.admin().run(t, "audit", "list", "--limit", "0").ok(t); strings.Contains(all.Stderr, "more entries") {
		t.Errorf("stderr says that there are more of all entries: %q", all.Stderr)
	}
	exported := a.admin().run(t, "audit", "export", "--action", "CreateAPIKey").ok(t)
	lines := strings.Split(strings.TrimSpace(exported.Stdout), "\n")
	for _, line := range lines {
		var entry struct{ Action string }
		if err := json.Unmarshal([]byte(line), &entry); err != nil || entry.Action != "CreateAPIKey" {
			t.Errorf("exported line %q: %v", line, err)
		}
	}
	if len(lines) != 3 {
		t.Errorf("exported %d lines, want 3", len(lines))
	}
	if got := a.admin().run(t, "audit", "list", "--from", "yesterday").Code; got != agentctl.ExitUsage {
		t.Errorf("a wrong time exits with %d, want %d", got, agentctl.ExitUsage)
	}
}
