package agentctl_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"agents.example/controlplane/functions/agentctl"
)

// TestExec_ShowsLinesOnATerminal lets a command print what would rewrite the screen.
func TestExec_ShowsLinesOnATerminal(t *testing.T) {
	t.Parallel()
	c := answering(t, http.StatusOK, nil,
		`{"stdout": "one\n\u001b[2Jtwo\n", "stderr": "three\nfour\n", "exit_code": 0}`)
	got, _ := c.person(t, 80, "", "agents", "exec", someAgent, "--", "ls")
	got.want(t, output{Stdout: "one\n\\x1b[2Jtwo\n", Stderr: "three\nfour\n"})
}

func TestExec_EndsAsTheCommand(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, exitCode, stderr string
		want                   int
	}{
		{name: "success", exitCode: "0", want: agentctl.ExitOK},
		{name: "failure", exitCode: "7", want: 7},
		{
			name: "outlasts --wait", exitCode: "null", want: agentctl.ExitTimeout,
			stderr: "Error: the command did not end within 2s (--wait); it may go on\n",
		},
	} {
		c := answering(t, http.StatusOK, nil, `{"stdout": "some", "stderr": "", "exit_code": `+test.exitCode+`}`)
		for _, format := range []string{"table", "json", "yaml", "jsonpath={.stdout}"} {
			got := c.run(t, "agents", "exec", someAgent, "--wait", "2s", "-o", format, "--", "ls")
			if got.Code != test.want || !strings.Contains(got.Stdout, "some") || got.Stderr != test.stderr {
				t.Errorf("%s, -o %s: %+v, want the output, exit code %d and %q", test.name, format, got, test.want,
					test.stderr)
			}
		}
	}
	c := answering(t, http.StatusOK, nil, `{"stdout": null, "stderr": null, "exit_code": null}`)
	if got := c.run(t, "agents", "exec", someAgent, "--", "ls"); got.Code != agentctl.ExitFailed ||
		!strings.Contains(got.Stderr, "not known how the command ended") {
		t.Errorf("the answer to a repeat: %+v, want that the end is not known", got)
	}
}

func TestExec_SaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	a := serve(t)
	a.RunningAgent(t, org, nil)
	for wait, want := range map[string]struct {
		code int
		text string
	}{
		"1500ms": {agentctl.ExitUsage, "--wait must be whole seconds"},
		"10m":    {agentctl.ExitInvalid, "--wait: Input should be less than or equal to 300"},
	} {
		a.admin().run(t, "agents", "exec", "test", "--wait", wait, "--", "ls").wantCode(t, want.code, want.text)
	}
	a.admin().with(strings.Repeat("\u20ac", 1<<20)).run(t, "agents", "exec", "test", "--stdin", "--", "cat").
		wantCode(t, agentctl.ExitInvalid, "standard input is larger than 1 MiB")
	a.admin().run(t, "keys", "create", "ci", "--expires-in-days", "999").
		wantCode(t, agentctl.ExitInvalid, "--expires-in-days: Input should be")
}

// TestTerminal_KeepsItsTokenFromRedirects opens a terminal at an API that leads elsewhere, to the same host. Package
// net/http sends the token there.
func TestTerminal_KeepsItsTokenFromRedirects(t *testing.T) {
	t.Parallel()
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("the terminal follows a redirect")
	}))
	defer other.Close()
	c := answering(t, http.StatusFound, http.Header{"Location": {other.URL}}, "")
	c.run(t, "agents", "terminal", someAgent).wantCode(t, agentctl.ExitFailed, "302")
}
