package agentctl_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestJSONPath_ReadsListsAndObjects(t *testing.T) {
	t.Parallel()
	a := serve(t)
	id := a.RunningAgent(t, org, nil).ID
	for _, row := range []struct{ template, want string }{
		{"[*].status", "running"},
		{".[*].status", "running"},
		{"{[*].status}", "running"},
		{"{.[*].id}", id},
		{"[0].id", id},
		{".[0].id", id},
		{`{range .[*]}{.name}={.status};{end}`, "test=running;"},
		{`[?(@.status=="running")].id`, id},
	} {
		got := a.admin().run(t, "agents", "list", "-o", "jsonpath="+row.template)
		if got.Code != 0 || got.Stdout != row.want+"\n" {
			t.Errorf("agents list -o jsonpath=%s: exit code %d, got %q, want %q: %s", row.template, got.Code,
				got.Stdout, row.want, got.Stderr)
		}
	}
	for _, template := range []string{"status", ".status", "{.status}"} {
		if got := a.admin().run(t, "agents", "get", id, "-o", "jsonpath="+template); got.Stdout != "running\n" {
			t.Errorf("agents get -o jsonpath=%s = %q, want running: %s", template, got.Stdout, got.Stderr)
		}
	}
}

// evil has characters that control a terminal or the direction of writing: ESC, DEL, CSI of C1, and two of Unicode.
const evil = "a\x1b[31m\x7f\u009b31m\u202eb\u2066c"

// TestVersion_IsACommandAndAFlag: neither needs an API.
func TestVersion_IsACommandAndAFlag(t *testing.T) {
	t.Parallel()
	a := serve(t)
	flag := a.as("").run(t, "--version").ok(t).Stdout
	command := a.as("").run(t, "version").ok(t).Stdout
	if command != flag || !strings.HasPrefix(flag, "agentctl version ") {
		t.Errorf("version prints %q, and --version %q", command, flag)
	}
}

func TestOutput_IsHarmlessOnTerminals(t *testing.T) {
	t.Parallel()
	a := serve(t)
	id := a.RunningAgent(t, org, nil).ID
	renameAgent(t, a, id, evil)
	list := []string{"agents", "list", "--color", "never"}
	for _, args := range [][]string{
		{"-o", "json"},
		{"-o", "yaml"},
		{"-o", "jsonpath=[0].name"},
		{"-o", "table"},
	} {
		got, _ := a.admin().person(t, 0, "", append(list, args...)...)
		checkHarmless(t, args, got.ok(t))
	}
	raw, _ := a.admin().person(t, 0, "", "api", "GET", "/api/v1/agents")
	checkHarmless(t, []string{"api"}, raw.ok(t))
	for _, args := range [][]string{{"agents", "list", "-o", "json"}, {"api", "GET", "/api/v1/agents"}} {
		got, _ := a.admin().person(t, 0, "", args...)
		var agents []struct{ Name string }
		err := json.Unmarshal([]byte(got.Stdout), &agents)
		if err != nil || len(agents) != 1 || agents[0].Name != evil {
			t.Errorf("%v on a terminal: %+v (%v), want the name in JSON", args, agents, err)
		}
	}
	if got := a.admin().run(t, "agents", "list", "-o", "jsonpath=[0].name").ok(t); got.Stdout != evil+"\n" {
		t.Errorf("a pipe gets %q, want the exact name", got.Stdout)
	}
}

func TestAPI_CopiesTextHarmlesslyToTerminals(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("€ü", 20_000) + evil + "\nend\xe2"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		_, _ = w.Write([]byte(text))
	}))
	t.Cleanup(server.Close)
	c := tool{url: server.URL, token: "so_x"}
	got, _ := c.person(t, 0, "", "api", "GET", "/")
	checkHarmless(t, []string{"api"}, got.ok(t))
	if want := strings.Repeat("€ü", 20_000) + "a\\x1b"; !strings.HasPrefix(got.Stdout, want) ||
		!strings.HasSuffix(got.Stdout, "\nend\\xe2") {
		t.Errorf("the text was changed: %q", got.Stdout[len(want)-20:])
	}
	if got := c.run(t, "api", "GET", "/").ok(t); got.Stdout != text {
		t.Error("a pipe gets another text than the server sent")
	}
}

// checkHarmless fails if a terminal would follow the output.
func checkHarmless(t *testing.T, what any, got output) {
	t.Helper()
	if strings.ContainsAny(got.Stdout, "\x1b\x7f\u009b\u202e\u2066") {
		t.Errorf("%v has control characters: %q", what, got.Stdout)
	}
	if !strings.Contains(got.Stdout, "31m") {
		t.Errorf("%v does not show the text: %q", what, got.Stdout)
	}
}
