package agentctl_test

import (
	"strings"
	"testing"

	"agents.example/controlplane/functions/agentctl"
	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/shared/agent"
)

func TestCredentials_RevealPrintsToStandardOutputOnly(t *testing.T) {
	t.Parallel()
	a := serve(t)
	a.RunningAgent(t, org, nil)
	got := a.admin().run(t, "credentials", "reveal", "test").ok(t)
	wantParts(t, "reveal", got.Stdout, "Username:", "Password:", "API key:", "Version:   1")
	if got.Stderr != "" {
		t.Errorf("stderr = %q, want none", got.Stderr)
	}
	password := a.admin().run(t, "credentials", "reveal", "test", "-o", "jsonpath={.dashboard_password}").ok(t).Stdout
	if !strings.Contains(got.Stdout, strings.TrimSpace(password)) || strings.TrimSpace(password) == "" {
		t.Error("the password in the table is not the one in the JSON")
	}
}

func TestCredentials_RevealWarnsDuringARotation(t *testing.T) {
	t.Parallel()
	a := serve(t)
	id := a.RunningAgent(t, org, nil).ID
	a.admin().run(t, "credentials", "rotate", id).want(t, output{
		Stdout: "Agent:  test (ID)\nStatus:  running\nRotation:  pending\n",
	})
	got := a.admin().run(t, "credentials", "reveal", id, "-o", "name").ok(t)
	if want := "Warning: a rotation is pending."; !strings.HasPrefix(got.Stderr, want) {
		t.Errorf("stderr = %q, want %q", got.Stderr, want)
	}
}

func TestCredentials_RotateReportsFailure(t *testing.T) {
	t.Parallel()
	a := serve(t)
	id := a.RunningAgent(t, org, nil).ID
	a.onNudge(t, func(id string) {
		a.UpdateAgent(t, id, func(r *agent.Agent) {
			for i := range r.Operations {
				r.Operations[i].Status, r.Operations[i].ErrorCode = "failed", "sync_conflict"
			}
		})
	})
	got := a.admin().run(t, "credentials", "rotate", id, "--wait")
	if got.Code != agentctl.ExitUnsettled || !strings.Contains(got.Stderr, "agentctl secrets reconcile "+id) {
		t.Errorf("exit code %d, stderr %q; want %d and how to retry", got.Code, got.Stderr, agentctl.ExitUnsettled)
	}
}

func TestCredentials_RotateDoesNotWaitForAStoppedAgent(t *testing.T) {
	t.Parallel()
	a := serve(t)
	id := a.RunningAgent(t, org, nil).ID
	a.CallNamed(t, "StopAgent", functiontest.AsAdmin(org), functiontest.Path("agent_id", id)).Want(t, 200, "")
	a.Reconcile(t, id)
	a.admin().run(t, "credentials", "rotate", id, "--wait").want(t, output{
		Stdout: "Agent:  test (ID)\nStatus:  stopped\nRotation:  pending until the agent starts\n",
		Stderr: "The agent is stopped. It gets the new credentials at its next start.\n",
	})
}

func TestAgents_AreNamedByTheirIDOrUniqueName(t *testing.T) {
	t.Parallel()
	a := serve(t)
	a.RunningAgent(t, org, nil)
	a.admin().run(t, "secrets", "list", "absent").want(t, output{
		Code:   agentctl.ExitNotFound,
		Stderr: "Error: no agent has the name or id \"absent\"\nRun: agentctl agents list\n",
	})
	a.RunningAgent(t, org, nil)
	got := a.admin().run(t, "secrets", "list", "test")
	if got.Code != agentctl.ExitUsage || !strings.Contains(got.Stderr, `2 agents have the name "test"`) {
		t.Errorf("exit code %d, stderr %q; want %d", got.Code, got.Stderr, agentctl.ExitUsage)
	}
}
