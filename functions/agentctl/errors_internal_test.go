package agentctl

import (
	"bytes"
	"context"
	"errors"
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

// TestExitCode_SaysThatTheSessionCannotBeRenewedNow: the user need not sign in again, and no --timeout has passed.
func TestExitCode_SaysThatTheSessionCannotBeRenewedNow(t *testing.T) {
	t.Parallel()
	for _, reason := range []error{
		errors.New("the identity provider answered with the status 503"),
		context.DeadlineExceeded,
	} {
		err := fmt.Errorf("there is no token for the API: %w", &client.TokenUnavailableError{Err: reason})
		if got := exitCode(err); got != ExitUnavailable {
			t.Errorf("%v: exit code %d, want %d", err, got, ExitUnavailable)
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
