package agentctl

import (
	"bytes"
	"fmt"
	"net/http"
	"testing"

	"agents.example/controlplane/functions/agentctl/login"
	"agents.example/controlplane/shared/client"
)

func TestForPeople_SpeaksOfTheCommandLine(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"It is paused. See meta.allowed_actions.":              "It is paused.",
		"It is paused. See meta.allowed_actions. Retry later.": "It is paused. Retry later.",
		"There is none. Read the log without previous.":        "There is none. Read the log without --previous.",
		"Value error, too long":                                "too long",
	} {
		if got := forPeople(given); got != want {
			t.Errorf("forPeople(%q) = %q, want %q", given, got, want)
		}
	}
}

// TestPrintError_SaysThatTheProfileChanged: the refused token is the reason why the changed profile was found.
func TestPrintError_SaysThatTheProfileChanged(t *testing.T) {
	t.Parallel()
	refused := &client.Error{Status: http.StatusUnauthorized, Code: "unauthorized", Detail: "The token is not valid."}
	err := fmt.Errorf("%w; the token could not be replaced: %w", refused, login.ErrProfileChanged)
	var stderr bytes.Buffer
	app := &App{Stderr: &stderr, Lookup: func(string) (string, bool) { return "", false }}
	command, root := app.tool()
	command.printError(root, err, false)
	if got, want := stderr.String(), "Error: "+login.ErrProfileChanged.Error()+"\n"; got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
	if got := exitCode(err); got != ExitNoSession {
		t.Errorf("exit code %d, want %d", got, ExitNoSession)
	}
}
