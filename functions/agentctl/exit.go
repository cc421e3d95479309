package agentctl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"charm.land/fang/v2"

	"agents.example/controlplane/shared/client"
)

// Exit codes. They are part of the tool's interface: scripts depend on them.
const (
	ExitOK          = 0
	ExitFailed      = 1   // any other error
	ExitUsage       = 2   // the command line is wrong
	ExitNoSession   = 3   // no key or session, or one that the API refuses (401)
	ExitNotAllowed  = 4   // the role or the plan does not allow it (402, 403)
	ExitNotFound    = 5   // the object does not exist (404)
	ExitConflict    = 6   // the object's state does not allow it (409, 412)
	ExitInvalid     = 7   // the API refuses a value (400, 413, 415, 422)
	ExitUnavailable = 8   // the API cannot be reached, is overloaded, or limits the rate (429, 5xx)
	ExitUnsettled   = 9   // the object was waited for, and failed
	ExitTimeout     = 124 // --timeout has passed, as with timeout(1)
	ExitInterrupted = 130 // the user interrupted the tool
)

// errNoProfile is the error of a command that needs a token when there is none.
var errNoProfile = errors.New("not signed in. Run: agentctl login. Or set AGENTS_BASE_URL and AGENTS_API_KEY")

// usageError is a wrong command line.
type usageError struct{ error }

// usagef returns the error of a wrong command line.
func usagef(text string, args ...any) error { return usageError{fmt.Errorf(text, args...)} }

// failedError is the end of a wait for an object that failed.
type failedError struct{ error }

// exitCode returns the exit code of a command that ended with err.
func exitCode(err error) int {
	var usage usageError
	var failed failedError
	switch e := client.AsError(err); {
	case err == nil:
		return ExitOK
	case errors.As(err, &usage):
		return ExitUsage
	case errors.As(err, &failed):
		return ExitUnsettled
	case errors.Is(err, errTimeout), errors.Is(err, context.DeadlineExceeded):
		return ExitTimeout
	case errors.Is(err, errNoProfile):
		return ExitNoSession
	case e != nil:
		return statusCode(e.Status)
	}
	return ExitFailed
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

// printError prints what happened and what the user can do.
func (a *App) printError(w io.Writer, _ fang.Styles, err error) {
	fmt.Fprintln(w, "Error:", err)
}
