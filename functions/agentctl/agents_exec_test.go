package agentctl_test

import (
	"net/http"
	"testing"
)

// TestExec_ShowsLinesOnATerminal lets a command print what would rewrite the screen.
func TestExec_ShowsLinesOnATerminal(t *testing.T) {
	t.Parallel()
	c := answering(t, http.StatusOK, nil,
		`{"stdout": "one\n\u001b[2Jtwo\n", "stderr": "three\nfour\n", "exit_code": 0}`)
	got, _ := c.person(t, 80, "", "agents", "exec", someAgent, "--", "ls")
	got.want(t, output{Stdout: "one\n\\x1b[2Jtwo\n", Stderr: "three\nfour\n"})
}
