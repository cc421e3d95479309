package agentctl_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"agents.example/controlplane/functions/agentctl"
	"agents.example/controlplane/functions/functiontest"
)

const receiver = "https://hooks.example.com/agents"

func TestWebhooks_CreatePrintsTheSecretOnce(t *testing.T) {
	t.Parallel()
	a := serve(t)
	created := a.admin().run(t, "webhooks", "create", receiver, "--type", "agent.error", "--description", "Pager").ok(t)
	secret := strings.TrimSpace(created.Stdout)
	if !strings.HasPrefix(secret, "whsec_") || strings.Count(created.Stdout, "\n") != 1 {
		t.Fatalf("stdout = %q, want the secret in one line", created.Stdout)
	}
	if strings.Contains(created.Stderr, secret) || !strings.Contains(created.Stderr, "Standard Webhooks") {
		t.Errorf("stderr = %q, want how to verify, without the secret", created.Stderr)
	}
	listed := a.admin().run(t, "webhooks", "list").ok(t).Stdout
	wantParts(t, "webhooks list", listed, receiver, "enabled", "agent.error", "Pager")
	if strings.Contains(listed, secret) {
		t.Error("webhooks list shows the secret")
	}
}

func TestWebhooks_ChangeTestAndDelete(t *testing.T) {
	t.Parallel()
	a := serve(t)
	a.admin().run(t, "webhooks", "create", receiver).ok(t)
	id := strings.TrimSpace(a.admin().run(t, "webhooks", "list", "-o", "name").ok(t).Stdout)
	status := func(args ...string) string {
		args = append(args, "-o", "jsonpath={.status} {.types[*]} {.url} {.description}")
		return a.admin().run(t, args...).ok(t).Stdout
	}
	changed := status("webhooks", "update", id, "--enabled=false", "--type", "agent.error", "--url", receiver+"/2",
		"--description", "Pager")
	if want := "disabled agent.error " + receiver + "/2 Pager\n"; changed != want {
		t.Errorf("the changed webhook is %q, want %q", changed, want)
	}
	if got := status("webhooks", "update", id, "--enabled"); !strings.HasPrefix(got, "enabled agent.error ") {
		t.Errorf("the enabled webhook is %q, want its other fields as before", got)
	}
	if got := status("webhooks", "update", id, "--all-types"); !strings.HasPrefix(got, "enabled  "+receiver) {
		t.Errorf("the webhook for all types is %q, want no types", got)
	}
	a.admin().run(t, "webhooks", "update", id, "--all-types", "--type", "agent.error").
		wantCode(t, agentctl.ExitUsage, "all-types")
	if got := a.admin().run(t, "webhooks", "get", id).ok(t).Stdout; !strings.Contains(got, receiver+"/2") {
		t.Errorf("webhooks get has no URL:\n%s", got)
	}
	a.admin().run(t, "webhooks", "update", id).wantCode(t, agentctl.ExitUsage, "nothing to change")
	sent := a.admin().run(t, "webhooks", "test", id).ok(t)
	if !strings.Contains(sent.Stdout, "webhook.test") || !strings.Contains(sent.Stdout, "pending") {
		t.Errorf("webhooks test prints no pending delivery:\n%s", sent.Stdout)
	}
	delivery := strings.TrimSpace(a.admin().run(t, "webhooks", "deliveries", id, "-o", "name").ok(t).Stdout)
	if delivery == "" || !strings.Contains(sent.Stdout, delivery) {
		t.Errorf("the deliveries are %q, want that of the test", delivery)
	}
	rotated := a.admin().run(t, "webhooks", "rotate-secret", id).ok(t)
	if s := strings.TrimSpace(rotated.Stdout); !strings.HasPrefix(s, "whsec_") || strings.Contains(rotated.Stderr, s) ||
		!strings.Contains(rotated.Stderr, "former secret") {
		t.Errorf("webhooks rotate-secret prints %d characters and says %q, want the secret alone and how long the "+
			"former one signs", len(rotated.Stdout), rotated.Stderr)
	}
	ended := a.admin().run(t, "webhooks", "rotate-secret", id, "--keep-former", "0").ok(t)
	if !strings.HasPrefix(ended.Stdout, "whsec_") || !strings.Contains(ended.Stderr, "No former secret signs") {
		t.Errorf("rotate-secret --keep-former 0 says %q, want that the former secrets ended", ended.Stderr)
	}
	for _, keep := range []string{"25h", "-1s", "500ms"} {
		a.admin().run(t, "webhooks", "rotate-secret", id, "--keep-former", keep).
			wantCode(t, agentctl.ExitUsage, "from 0 to 24h")
	}
	a.admin().run(t, "webhooks", "deliveries", id, "--limit", "-1").wantCode(t, agentctl.ExitUsage, "0 or more")
	a.admin().run(t, "webhooks", "redeliver", id, delivery).wantCode(t, agentctl.ExitConflict, "delivery is pending")
	completed := a.admin().run(t, "__complete", "webhooks", "get", "").ok(t).Stdout
	if completed != id+"\t"+receiver+"/2\n:4\n" {
		t.Errorf("completion = %q, want the webhook", completed)
	}
	a.admin().run(t, "webhooks", "delete", id).wantCode(t, agentctl.ExitUsage, "add --yes to confirm")
	a.admin().run(t, "webhooks", "delete", id, "--yes").ok(t)
	a.admin().run(t, "webhooks", "get", id).wantCode(t, agentctl.ExitNotFound, "")
}

// TestWebhooks_CreateAfterALostAnswer loses the first answer, so that the repeat has no secret.
func TestWebhooks_CreateAfterALostAnswer(t *testing.T) {
	t.Parallel()
	a := serve(t)
	c, lost := a.losingAnAnswer(t)
	if got := c.run(t, "webhooks", "create", receiver).ok(t).Stdout; !strings.HasPrefix(got, "whsec_") {
		t.Errorf("stdout = %q, want the secret", got)
	}
	names := a.admin().run(t, "webhooks", "list", "-o", "name").ok(t).Stdout
	if got := strings.Count(names, "\n"); got != 1 || !lost.Load() {
		t.Errorf("%d webhooks remain, want only the one whose secret was printed:\n%s", got, names)
	}
}

// TestWebhooks_RotateAfterALostAnswer loses the first answer, so that the repeat has no secret.
func TestWebhooks_RotateAfterALostAnswer(t *testing.T) {
	t.Parallel()
	a := serve(t)
	created := strings.TrimSpace(a.admin().run(t, "webhooks", "create", receiver).ok(t).Stdout)
	id := strings.TrimSpace(a.admin().run(t, "webhooks", "list", "-o", "name").ok(t).Stdout)
	c, lost := a.losingAnAnswer(t)
	got := strings.TrimSpace(c.run(t, "webhooks", "rotate-secret", id).ok(t).Stdout)
	if !strings.HasPrefix(got, "whsec_") || got == created || !lost.Load() {
		t.Errorf("%d characters are printed after a lost answer (%t), want a new secret", len(got), lost.Load())
	}
	named := a.admin().run(t, "webhooks", "rotate-secret", id, "-o", "name").ok(t)
	if named.Stdout != id+"\n" || !strings.Contains(named.Stderr, "secret was not printed") {
		t.Errorf("-o name prints %d characters and says %q, want the id, and that the secret is missing",
			len(named.Stdout), named.Stderr)
	}
}

func TestWebhooks_ShowHowDeliveriesEnded(t *testing.T) {
	t.Parallel()
	const delivery = `{"id": "d-1", "webhook_id": "w-1", "event_id": "evt_1", "event_type": "agent.error",
		"status": "failed", "created_at": "2026-03-02T09:30:00Z", "attempts": [
		{"at": "2026-03-02T09:30:01Z", "http_status": null, "error": "timeout", "latency_ms": 1}, %s]}`
	for last, want := range map[string]string{
		`{"at": "2026-03-02T09:31:00Z", "http_status": 503, "error": "bad_status", "latency_ms": 2}`: "2  503  evt_1",
		`{"at": "2026-03-02T09:31:00Z", "http_status": null, "error": "dns", "latency_ms": 0}`:       "2  dns  evt_1",
	} {
		c := answering(t, http.StatusAccepted, nil, fmt.Sprintf(delivery, last))
		got := c.run(t, "webhooks", "redeliver", "w-1", "d-1").ok(t)
		row := normal(got.Stdout)
		if !strings.Contains(row, "d-1  agent.error  failed") || !strings.Contains(row, want) {
			t.Errorf("the delivery is shown as %q, want %q in it", row, want)
		}
		if !strings.Contains(got.Stderr, "agentctl webhooks deliveries w-1") {
			t.Errorf("standard error is %q, want how to see the end", got.Stderr)
		}
	}
}

func TestWebhooks_RefuseMembers(t *testing.T) {
	t.Parallel()
	a := serve(t)
	got := a.as(functiontest.MemberToken(org)).run(t, "webhooks", "create", receiver)
	if got.Code != agentctl.ExitNotAllowed || got.Stdout != "" {
		t.Errorf("a member gets exit code %d and %q, want %d", got.Code, got.Stdout, agentctl.ExitNotAllowed)
	}
}
