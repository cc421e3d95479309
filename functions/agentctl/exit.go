package agentctl

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"agents.example/controlplane/functions/agentctl/profile"
	"agents.example/controlplane/shared/client"
)

// Exit codes. They are part of the tool's interface: scripts depend on them.
const (
	ExitOK          = 0
	ExitFailed      = 1
	ExitUsage       = 2
	ExitNoSession   = 3
	ExitNotAllowed  = 4
	ExitNotFound    = 5
	ExitConflict    = 6
	ExitInvalid     = 7
	ExitUnavailable = 8
	ExitUnsettled   = 9
	ExitDiffers     = 10
	ExitTimeout     = 124
	ExitInterrupted = 130
)

// exitMeaning is what an exit code says.
type exitMeaning struct {
	code    int
	meaning string
}

// exitMeanings lists all exit codes.
func exitMeanings() []exitMeaning {
	return []exitMeaning{
		{ExitOK, "The command succeeded."},
		{ExitFailed, "The command failed for a reason that no other code names."},
		{ExitUsage, "The command line is wrong."},
		{ExitNoSession, "There is no API key or session, or the API refuses it (401)."},
		{ExitNotAllowed, "The role, the plan or an open payment does not allow the call (402, 403)."},
		{ExitNotFound, "The object does not exist (404)."},
		{ExitConflict, "The object's present state does not allow the call (409, 412)."},
		{ExitInvalid, "The API refuses a value (400, 413, 415, 422), or agents cannot run an image."},
		{ExitUnavailable, "The API cannot be reached, is overloaded, or limits the rate (429, 5xx)."},
		{ExitUnsettled, "The command waited for an object, which failed or took another turn."},
		{ExitDiffers, "apply --dry-run found what differs from the file."},
		{ExitTimeout, "The time limit of --timeout has passed, or that of --wait for a command in a container."},
		{ExitInterrupted, "The user interrupted the command (Ctrl-C)."},
	}
}

// exitCodesTopic is the help text about exit codes.
func exitCodesTopic() *cobra.Command {
	var b strings.Builder
	b.WriteString("Scripts can depend on the exit code of agentctl:\n\n")
	for _, e := range exitMeanings() {
		fmt.Fprintf(&b, "  %3d  %s\n", e.code, e.meaning)
	}
	return &cobra.Command{Use: "exit-codes", Short: "What the exit codes mean", Long: strings.TrimSpace(b.String())}
}

// failedError is the end of a wait for an object that failed.
type failedError struct{ error }

// Unwrap returns the error inside.
func (e failedError) Unwrap() error { return e.error }

// notFoundError is an object that does not exist.
type notFoundError struct{ error }

// Unwrap returns the error inside.
func (e notFoundError) Unwrap() error { return e.error }

// stateError is an object whose present state does not allow the command.
type stateError struct{ error }

// Unwrap returns the error inside.
func (e stateError) Unwrap() error { return e.error }

// exitCode returns the exit code of a command that ended with err.
func exitCode(err error) int {
	if several, ok := errors.AsType[severalError](err); ok {
		return exitCode(several.failed[0].err)
	}
	var usage usageError
	var unknown *profile.UnknownError
	var failed failedError
	var missing notFoundError
	var state stateError
	var invalid invalidError
	var unavailable *client.TokenUnavailableError
	switch e := client.AsError(err); {
	case err == nil:
		return ExitOK
	case errors.As(err, &usage), errors.As(err, &unknown):
		return ExitUsage
	case errors.As(err, &failed):
		return ExitUnsettled
	case errors.As(err, &missing):
		return ExitNotFound
	case errors.As(err, &state):
		return ExitConflict
	case errors.As(err, &invalid):
		return ExitInvalid
	case errors.As(err, &unavailable):
		return ExitUnavailable
	case errors.Is(err, context.DeadlineExceeded):
		return ExitTimeout
	case withoutCredential(err):
		return ExitNoSession
	case e != nil:
		return statusCode(e.Status)
	case isConnection(err):
		return ExitUnavailable
	}
	return ExitFailed
}

// isConnection reports whether a request has got no answer.
func isConnection(err error) bool {
	var request *url.Error
	var connection *net.OpError
	var name *net.DNSError
	// An error of a file also implements net.Error.
	return errors.As(err, &request) || errors.As(err, &connection) || errors.As(err, &name)
}

// statusCode returns the exit code of an HTTP status.
func statusCode(status int) int {
	switch status {
	case http.StatusUnauthorized:
		return ExitNoSession
	case http.StatusPaymentRequired, http.StatusForbidden:
		return ExitNotAllowed
	case http.StatusNotFound:
		return ExitNotFound
	case http.StatusConflict, http.StatusPreconditionFailed:
		return ExitConflict
	case http.StatusTooManyRequests:
		return ExitUnavailable
	}
	if status >= http.StatusInternalServerError {
		return ExitUnavailable
	}
	return ExitInvalid
}
