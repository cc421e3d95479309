package agentctl

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"agents.example/controlplane/functions/agentctl/login"
	"agents.example/controlplane/functions/agentctl/profile"
	"agents.example/controlplane/shared/client"
)

// nextError is an error with what the user can do.
type nextError struct {
	error
	next []string
}

// Unwrap returns the error inside.
func (e nextError) Unwrap() error { return e.error }

// withNext adds what the user can do to an error, one step a line.
func withNext(err error, next ...string) error {
	if len(next) == 0 {
		return err
	}
	return nextError{err, next}
}

// nextSteps returns the steps that were added to an error.
func nextSteps(err error) []string {
	var e nextError
	if !errors.As(err, &e) {
		return nil
	}
	return append(e.next[:len(e.next):len(e.next)], nextSteps(e.error)...)
}

// printError prints what happened to a command, and what the user can do.
func (t *tool) printError(c *cobra.Command, err error, interrupted bool) {
	w := t.stderr()
	next := nextSteps(err)
	if interrupted {
		fmt.Fprintln(w, w.in(bold, "Interrupted."))
		printNext(w, next)
		return
	}
	if several, ok := errors.AsType[severalError](err); ok {
		t.printSeveral(c, several)
		return
	}
	usage := usageError{}
	if errors.As(err, &usage) {
		next = append(next, "Run: "+c.CommandPath()+" --help")
	}
	e := client.AsError(err)
	if e == nil || errors.Is(err, login.ErrProfileChanged) {
		text, more := t.explain(err)
		fmt.Fprintln(w, w.in(red, "Error:"), harmlessLines(text))
		printNext(w, append(next, more...))
		return
	}
	fmt.Fprintln(w, w.in(red, "Error:"), harmlessLines(forPeople(e.Detail)))
	for _, v := range e.Violations {
		fmt.Fprintf(w, "  %s: %s\n", harmless(violated(c, v)), harmless(forPeople(v.Msg)))
	}
	if e.RequestID != "" {
		fmt.Fprintln(w, w.in(dim, harmless(fmt.Sprintf("Status %d %s, request %s", e.Status, e.Code, e.RequestID))))
	}
	printNext(w, append(next, t.remedies(e)...))
}

// forPeople removes from a message of the API what only programs can use.
func forPeople(message string) string {
	return strings.NewReplacer(" See meta.allowed_actions.", "", "without previous.", "without --previous.").
		Replace(strings.TrimPrefix(message, "Value error, "))
}

// printNext prints what the user can do.
func printNext(w screen, next []string) {
	for _, step := range next {
		fmt.Fprintln(w, harmlessLines(step))
	}
}

// timedOut returns the error of a command that --timeout ended, with what it met last.
func (t *tool) timedOut(err error) error {
	last := ""
	var request *url.Error
	if e := client.AsError(err); e != nil {
		last = forPeople(e.Detail)
	} else if errors.As(err, &request) && !errors.Is(request, context.DeadlineExceeded) {
		last, _ = t.explain(request)
	}
	if last == "" {
		return errTimeout
	}
	return fmt.Errorf("%w. The last error: %s", errTimeout, last)
}

// explain returns what an error that is no answer of the API means, and what the user can do.
func (t *tool) explain(err error) (text string, next []string) {
	for _, known := range []error{login.ErrProfileChanged, login.ErrSessionEnded, profile.ErrNotLoggedIn} {
		if errors.Is(err, known) {
			return known.Error(), nil
		}
	}
	var request *url.Error
	if !errors.As(err, &request) {
		return err.Error(), nil
	}
	host := request.URL
	if u, err := url.Parse(request.URL); err == nil {
		host = u.Host
	}
	check := "Check the network connection, and the API's URL in --base-url, AGENTS_BASE_URL or the profile."
	var name *net.DNSError
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.As(err, &name):
		return fmt.Sprintf("the name %s cannot be looked up: %s", name.Name, name.Err), []string{check}
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Sprintf("%s refuses connections: no server runs there", host), []string{check}
	case errors.As(err, &certificate):
		return fmt.Sprintf("the certificate of %s is not valid: %v", host, certificate.Err),
			[]string{"Check the API's URL. A proxy that reads connections may also be the reason."}
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH):
		return fmt.Sprintf("there is no route to %s", host), []string{check}
	case errors.Is(err, context.DeadlineExceeded), request.Timeout():
		return fmt.Sprintf("%s does not answer in time", host), []string{check}
	}
	return fmt.Sprintf("the connection to %s failed: %v", host, request.Err), []string{check}
}

// violated names the value that a violation is about as the user wrote it: a flag, an argument, or else its path in the
// request.
func violated(c *cobra.Command, v client.Violation) string {
	if len(v.Loc) < 2 {
		return v.Path()
	}
	name, rest := fmt.Sprint(v.Loc[1]), ""
	for _, part := range v.Loc[2:] {
		rest += "." + fmt.Sprint(part)
	}
	if name == "env_vars" || name == "secrets" {
		return "variable " + strings.TrimPrefix(rest, ".")
	}
	if name == "inject" && len(v.Loc) > 3 { // and the key, which the command line has once
		name, rest = "inject-"+strings.TrimSuffix(fmt.Sprint(v.Loc[3]), "s"), ""
	}
	names := map[string]string{"resource_plan": "plan", "files": "file", "timeout_seconds": "wait"}
	flag := names[name]
	if flag == "" {
		flag = strings.ToLower(strings.ReplaceAll(name, "_", "-"))
	}
	switch {
	case c.Flags().Lookup(flag) != nil:
		return strings.TrimSpace("--" + flag + " " + strings.TrimPrefix(rest, "."))
	case strings.Contains(c.Use, " "+strings.ToUpper(flag)):
		return strings.ToUpper(flag)
	}
	return v.Path()
}

// inManifest names the value that a violation is about as a file for apply has it.
func inManifest(v client.Violation) string {
	path := strings.TrimPrefix(v.Path(), "body.")
	if rest, isInject := strings.CutPrefix(path, "inject."); isInject {
		key, field, _ := strings.Cut(rest, ".")
		return "secrets." + key + ".inject." + field
	}
	return path
}
