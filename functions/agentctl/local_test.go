package agentctl_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"agents.example/controlplane/functions/agentctl"
	"agents.example/controlplane/functions/agentctl/profile"
)

// TestRun_FindsMistakesWithoutTheAPI checks exit codes of mistakes that need no request.
func TestRun_FindsMistakesWithoutTheAPI(t *testing.T) {
	t.Parallel()
	at := func(url, key string) tool { return tool{url: url, token: key} }
	loopback := "http://" + closedAddress(t)
	for _, row := range []struct {
		as   tool
		args []string
		code int
		say  string
	}{
		{
			as: at("foo", "so_x"), args: []string{"agents", "list"}, code: agentctl.ExitUsage,
			say: "base URL must look like",
		},
		{
			as: at("http://example.com", "so_x"), args: []string{"agents", "list"}, code: agentctl.ExitUsage,
			say: "must use https",
		},
		{
			as: tool{}, args: []string{"login", "--base-url", "foo"}, code: agentctl.ExitUsage,
			say: "base URL must look like",
		},
		{
			as: at(loopback, "so_ x"), args: []string{"agents", "list"}, code: agentctl.ExitNoSession,
			say: "the API key has a space",
		},
		{
			as: at(loopback, "so_x"), args: []string{"agents", "metrics", "--window", "1h"}, code: agentctl.ExitUsage,
			say: "--window needs an agent",
		},
		{
			as: at(loopback, "so_x"), args: []string{"api", "GET", "api/v1/me"}, code: agentctl.ExitUsage,
			say: "begin with one slash",
		},
		{
			as: at(loopback, "so_x"), args: []string{"api", "GET", "//x/api"}, code: agentctl.ExitUsage,
			say: "begin with one slash",
		},
		{
			as: at(loopback, "so_x"), args: []string{"api", "GET", "/a/../b"}, code: agentctl.ExitUsage,
			say: "between slashes",
		},
		{
			as: at(loopback, "so_x"), args: []string{"api", "GET", "/", "-H", "X: a\nb"}, code: agentctl.ExitUsage,
			say: "line breaks",
		},
		{
			as: at(loopback, "so_x"), args: []string{"agents", "pause", "x", "--idempotency-key", "two words"},
			code: agentctl.ExitUsage, say: "visible ASCII",
		},
		{
			as: at(loopback, "so_x"), args: []string{"agents", "list", "--timeout", "1s"}, code: agentctl.ExitTimeout,
			say: "The last error: " + strings.TrimPrefix(loopback, "http://") + " refuses connections",
		},
		{as: at(loopback, "so_x"), args: []string{"secrets", "set", "x"}, code: agentctl.ExitUsage, say: "got one\n"},
	} {
		row.as.run(t, row.args...).wantCode(t, row.code, row.say)
	}
}

func TestTimeout_SaysWhatItMetLast(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		timeout, say string
		busy         int32
	}{
		{timeout: "10ms", say: "Error: the time limit of --timeout has passed\n"},
		{timeout: "1s", say: "Error: the time limit of --timeout has passed. The last error: busy", busy: 1},
	} {
		var calls atomic.Int32
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if calls.Add(1) > c.busy {
				<-r.Context().Done() // silent
				return
			}
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, `{"detail": "busy", "code": "busy"}`)
		}))
		t.Cleanup(server.Close)
		tool{url: server.URL, token: "so_x"}.run(t, "agents", "list", "--timeout", c.timeout).
			wantCode(t, agentctl.ExitTimeout, c.say)
	}
}

func TestProfile_IsNotUsedForAnotherAPI(t *testing.T) {
	t.Parallel()
	a := serve(t)
	c := tool{config: t.TempDir()}
	_, key := a.CreateKey(t, org)
	err := profile.Store{Path: filepath.Join(c.config, "agentctl", "config.json")}.Save(t.Context(), "default",
		profile.Profile{BaseURL: "https://a.example.com", Key: profile.Secret(key)})
	if err != nil {
		t.Fatal(err)
	}
	c.run(t, "agents", "list", "--base-url", a.url).wantCode(t, agentctl.ExitNoSession,
		"the profile default is for https://a.example.com, not "+a.url)
}

func TestWait_RefusesToWaitForNoDeletion(t *testing.T) {
	t.Parallel()
	a := serve(t)
	id := a.RunningAgent(t, org, nil).ID
	a.admin().run(t, "agents", "wait", id, "--for", "deleted").wantCode(t, agentctl.ExitUnsettled,
		"is running, and is not being deleted", "agentctl agents delete")
}

// TestWait_FindsThatAnAgentIsGone waits for a deletion that has ended before.
func TestWait_FindsThatAnAgentIsGone(t *testing.T) {
	t.Parallel()
	a := serve(t)
	c, id := a.admin(), deleteAgent(t, a)
	c.run(t, "agents", "wait", id, "--for", "deleted").
		wantCode(t, agentctl.ExitOK, "There is no agent with the id "+id)
	c.run(t, "agents", "wait", id).wantCode(t, agentctl.ExitNotFound, "Agent not found")
	c.run(t, "agents", "wait", "no-name", "--for", "deleted").wantCode(t, agentctl.ExitNotFound, "no-name")
	elsewhere := answering(t, http.StatusNotFound, nil, "404 page not found")
	elsewhere.run(t, "agents", "wait", uuid.NewString(), "--for", "deleted").
		wantCode(t, agentctl.ExitNotFound, "Not Found")
}

func TestDelete_PrintsTheLastRecord(t *testing.T) {
	t.Parallel()
	a := serve(t)
	id := a.RunningAgent(t, org, nil).ID
	defer a.onNudge(t, func(id string) { a.Reconcile(t, id) })()
	got := a.admin().run(t, "agents", "delete", id, "--yes", "--wait", "-o", "json").ok(t)
	var last struct{ ID, Status string }
	if err := json.Unmarshal([]byte(got.Stdout), &last); err != nil || last.ID != id || last.Status != "deleting" {
		t.Errorf("standard output is not the last record (%v): %q", err, got.Stdout)
	}
}

func TestSecrets_HintsIfThereAreNone(t *testing.T) {
	t.Parallel()
	a := serve(t)
	id := a.RunningAgent(t, org, nil).ID
	for _, list := range []string{"list", "operations"} {
		a.admin().run(t, "secrets", list, id).wantCode(t, 0, "Set one: agentctl secrets set "+id+" KEY")
		if got := a.admin().run(t, "secrets", list, id, "-o", "json").ok(t); got.Stdout != "[]\n" {
			t.Errorf("secrets %s -o json = %q, want an empty list", list, got.Stdout)
		}
	}
}
