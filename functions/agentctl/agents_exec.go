package agentctl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"agents.example/controlplane/shared/client"
)

// remoteExit is the exit code of a command in a container, with which the tool ends, too.
type remoteExit struct{ code int }

// Error implements error.
func (e remoteExit) Error() string { return fmt.Sprintf("the command ended with exit code %d", e.code) }

// errNotKnown is the end of a command whose connection broke.
var errNotKnown = errors.New("the connection broke, so it is not known how the command ended; it may go on")

// outlastedError is a command in a container that did not end within --wait.
type outlastedError struct{ wait time.Duration }

// Error implements error.
func (e outlastedError) Error() string {
	return fmt.Sprintf("the command did not end within %s (--wait); it may go on", e.wait)
}

// Unwrap gives it the exit code of a time limit.
func (outlastedError) Unwrap() error { return context.DeadlineExceeded }

// maxStdin is how much input the API takes for a command.
const maxStdin = 1 << 20

func (t *tool) agentExec() *cobra.Command {
	var wait time.Duration
	var input bool
	c := &cobra.Command{
		Use: "exec AGENT -- COMMAND [ARGUMENT...]", Short: "Run a command in an agent's container",
		Args: cobra.MinimumNArgs(2), Annotations: sends("ExecInAgent"), ValidArgsFunction: t.completeAgents,
		Long: "Run a command in an agent's container and print its outputs. No shell interprets the command. The " +
			"tool ends with the command's exit code, or with 124 if it does not end within --wait. For more than a " +
			"MiB of output, or for longer than five minutes, open a terminal: agentctl agents terminal.",
		Example: "  agentctl agents exec my-agent -- ls -l /data\n" +
			"  agentctl agents exec my-agent -- sh -c 'df -h /data | tail -1'\n" +
			"  echo 'select 1' | agentctl agents exec my-agent --stdin -- sqlite3 /data/agent.db",
		RunE: func(cmd *cobra.Command, args []string) error {
			if wait%time.Second != 0 {
				return usagef("--wait must be whole seconds")
			}
			api, a, err := t.clientAndAgent(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			request := client.ExecInAgentRequest{Command: args[1:], TimeoutSeconds: new(int64(wait.Seconds()))}
			if input {
				text, err := readAll(t.stdin, maxStdin)
				if err != nil {
					return err
				}
				const copyIt = "Copy a file: agentctl agents cp"
				if len(text) > maxStdin { // and may be cut in the middle of a character
					return withNext(invalidf("standard input is larger than %s", bytesText(maxStdin)), copyIt)
				}
				if !utf8.ValidString(text) {
					return withNext(invalidf("standard input is no text in UTF-8"), copyIt)
				}
				request.Stdin = &text
			}
			answer, err := api.ExecInAgent(cmd.Context(), a.ID, request)
			if err != nil {
				return err
			}
			if err := t.printExec(answer); err != nil {
				return err
			}
			switch {
			case answer.ExitCode == nil && answer.Stdout == nil: // the answer to a repeat of the request
				return errNotKnown
			case answer.ExitCode == nil:
				return outlastedError{wait}
			case *answer.ExitCode != 0:
				return remoteExit{int(*answer.ExitCode)}
			}
			return nil
		},
	}
	c.Flags().BoolVarP(&input, "stdin", "i", false, "send standard input to the command, at most 1 MiB")
	c.Flags().DurationVar(&wait, "wait", 30*time.Second, "wait this long for the command, at most 5m")
	return c
}

// printExec prints the outputs of a command.
func (t *tool) printExec(answer *client.ExecAnswer) error {
	if t.output.kind != formatTable {
		return t.show(object(answer, "", nil))
	}
	show := func(w io.Writer, text *string, terminal bool) error {
		if text == nil {
			return nil
		}
		shown := *text
		if terminal {
			shown = harmlessLines(shown)
		}
		_, err := io.WriteString(w, shown)
		return err
	}
	if err := show(t.app.Stdout, answer.Stdout, t.app.Terminal.Out); err != nil {
		return err
	}
	if err := show(t.app.Stderr, answer.Stderr, t.app.Terminal.Err); err != nil {
		return err
	}
	if answer.Truncated {
		t.note("The output was longer than 1 MiB. Write it to a file, and copy that: agentctl agents cp.")
	}
	return nil
}
