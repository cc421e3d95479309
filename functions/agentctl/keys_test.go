package agentctl_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"agents.example/controlplane/functions/agentctl"
	"agents.example/controlplane/functions/functiontest"
)

func TestKeys_CreatePrintsTheSecretOnce(t *testing.T) {
	t.Parallel()
	a := serve(t)
	created := a.admin().run(t, "keys", "create", "deploy", "--purpose", "ci", "--expires-in-days", "90").ok(t)
	secret := strings.TrimSpace(created.Stdout)
	if !strings.HasPrefix(secret, "so_") || strings.Count(created.Stdout, "\n") != 1 {
		t.Fatalf("stdout = %q, want the secret in one line", normal(created.Stdout))
	}
	if strings.Contains(created.Stderr, secret) {
		t.Error("stderr has the secret")
	}
	listed := a.as(secret).run(t, "keys", "list").ok(t)
	if strings.Contains(listed.Stdout, secret) {
		t.Error("keys list shows the secret")
	}
	if !strings.Contains(listed.Stdout, "deploy") || !strings.Contains(listed.Stdout, "ci") {
		t.Errorf("keys list lacks the new key:\n%s", listed.Stdout)
	}
}

func TestKeys_CreateAKeyThatMayOnlyRead(t *testing.T) {
	t.Parallel()
	a := serve(t)
	created := a.admin().run(t, "keys", "create", "status", "--role", "member").ok(t)
	if !strings.Contains(created.Stderr, "Created the member key status") {
		t.Errorf("stderr = %q, want the role of the key", normal(created.Stderr))
	}
	if listed := a.admin().run(t, "keys", "list").ok(t).Stdout; !strings.Contains(listed, "member") {
		t.Errorf("keys list lacks the role:\n%s", listed)
	}
	reader := a.as(strings.TrimSpace(created.Stdout))
	reader.run(t, "agents", "list").ok(t)
	if got := reader.run(t, "keys", "create", "more"); got.Code != agentctl.ExitNotAllowed {
		t.Errorf("a member key that creates a key exits with %d, want %d", got.Code, agentctl.ExitNotAllowed)
	}
}

func TestKeys_ListNames(t *testing.T) {
	t.Parallel()
	a := serve(t)
	id, secret := a.CreateKey(t, org)
	a.as(secret).run(t, "keys", "list", "-o", "name").want(t, output{Stdout: "ID\n"})
	if got := a.as(secret).run(t, "keys", "list", "-o", "name").Stdout; got != id+"\n" {
		t.Errorf("names = %q, want %q", got, id)
	}
}

// losingAnAnswer returns a tool of an admin that loses the first answer to a POST, after it has taken effect.
func (a *api) losingAnAnswer(t *testing.T) (c tool, lost *atomic.Bool) {
	t.Helper()
	target, err := url.Parse(a.url)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	lost = new(atomic.Bool)
	server := functiontest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && lost.CompareAndSwap(false, true) {
			proxy.ServeHTTP(httptest.NewRecorder(), r)
			http.Error(w, "gateway", http.StatusBadGateway)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	c = a.admin()
	c.url = server.URL
	return c, lost
}

// TestKeys_CreateAfterALostAnswer loses the first answer, so that the repeat has no secret.
func TestKeys_CreateAfterALostAnswer(t *testing.T) {
	t.Parallel()
	a := serve(t)
	c, lost := a.losingAnAnswer(t)
	secret := strings.TrimSpace(c.run(t, "keys", "create", "deploy").ok(t).Stdout)
	names := a.as(secret).run(t, "keys", "list", "-o", "name").ok(t).Stdout
	if got := strings.Count(names, "\n"); got != 1 || !lost.Load() {
		t.Errorf("%d keys remain, want only the one that was printed:\n%s", got, names)
	}
}

func TestKeys_RevokeAsksBeforehand(t *testing.T) {
	t.Parallel()
	a := serve(t)
	id, secret := a.CreateKey(t, org)
	a.admin().run(t, "keys", "revoke", id).want(t, output{
		Code: agentctl.ExitUsage,
		Stderr: "Error: this cannot be undone, and there is no terminal to ask on: add --yes to confirm\n" +
			"Run: agentctl keys revoke --help\n",
	})
	a.admin().run(t, "keys", "revoke", id, "--descendants", "--yes").want(t, output{
		Stderr: "Revoked the key ID and every key that was created with it.\n",
	})
	if got := a.as(secret).run(t, "whoami").Code; got != agentctl.ExitNoSession {
		t.Errorf("whoami with the revoked key exits with %d, want %d", got, agentctl.ExitNoSession)
	}
}

func TestKeys_RefuseMembers(t *testing.T) {
	t.Parallel()
	a := serve(t)
	got := a.as(functiontest.MemberToken(org)).run(t, "keys", "create", "deploy")
	if got.Code != agentctl.ExitNotAllowed || got.Stdout != "" {
		t.Errorf("a member gets exit code %d and %q, want %d", got.Code, got.Stdout, agentctl.ExitNotAllowed)
	}
}
