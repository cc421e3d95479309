package containers

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agentexec"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
)

// command is a program with its arguments.
type command []string

// JSONSchema implements function.Schemer.
func (command) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{
		Type: "array", MinItems: new(1), MaxItems: new(agentexec.MaxArguments),
		Items:       &jsonschema.Schema{Type: "string", MaxLength: new(agentexec.MaxArgument), Pattern: "^[^\\x00]*$"},
		Description: "A program of the agent's image, by path or name, and its arguments. No shell interprets them.",
	}
}

// stdin is the input of a command.
type stdin string

// JSONSchema implements function.Schemer.
func (stdin) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", MaxLength: new(MaxStdin), Description: "The command's input."}
}

// timeout is a number of seconds.
type timeout int

// JSONSchema implements function.Schemer.
func (timeout) JSONSchema() *jsonschema.Schema {
	s := function.Integer(1, agentexec.MaxTimeout.Seconds(), int(agentexec.DefaultTimeout.Seconds()))
	s.Description = "How long the answer waits for the end of the command."
	return s
}

// ExecRequest is a command to run.
type ExecRequest struct {
	Command        command `json:"command"`
	Stdin          stdin   `json:"stdin,omitempty"`
	TimeoutSeconds timeout `json:"timeout_seconds,omitempty"`
}

type execInput struct {
	path
	Body ExecRequest `json:"body"`
}

// Example implements function.Exampler.
func (execInput) Example() any {
	return execInput{Body: ExecRequest{Command: command{"ls", "-l", "/data"}, TimeoutSeconds: 10}}
}

// ExecAnswer is how a command ended.
type ExecAnswer struct {
	ExitCode   *int    `json:"exit_code" jsonschema:"Null if it is not known how the command ended: it did not end in time, or the connection to it broke. It may go on then."`
	Stdout     *string `json:"stdout" jsonschema:"The first MiB of the standard output. Bytes that are not UTF-8 are replaced. Null in the answer to a repeat, because outputs are not stored."`
	Stderr     *string `json:"stderr" jsonschema:"The standard error, as stdout."`
	Truncated  bool    `json:"truncated" jsonschema:"True if an output was longer."`
	DurationMS int64   `json:"duration_ms" jsonschema:"How long the command ran."`
}

// Example implements function.Exampler.
func (ExecAnswer) Example() any {
	return ExecAnswer{
		ExitCode: new(0), Stdout: new("total 4\n-rw-r--r-- 1 agent agent 12 Mar  2 09:30 notes.txt\n"),
		Stderr: new(""), DurationMS: 41,
	}
}

// Keep implements function.Keeper. Outputs belong to the agent's container, so none is stored.
func (a ExecAnswer) Keep() any {
	a.Stdout, a.Stderr = nil, nil
	return a
}

// MaxStdin bounds the body of a command.
const MaxStdin = 1 << 20

// Exec runs a command in an agent's container and answers with its outputs.
func Exec(s Service) function.Route {
	r := s.route("ExecInAgent", http.MethodPost, "exec", "Run a command in an agent's container")
	r.Status, r.BodyLimit, r.KeepAnswer, r.Holds = http.StatusOK, MaxStdin, true, agentexec.MaxTimeout
	r.Handle = function.Handle(func(ctx context.Context, in execInput) (ExecAnswer, error) {
		a, err := s.admit(ctx, in.id())
		if err == nil {
			err = s.mayReceive(ctx)
		}
		if err == nil {
			err = s.hold(ctx, a)
		}
		if err != nil {
			return ExecAnswer{}, err
		}
		describe(ctx, a, in.Body.Command)
		if err := call.From(ctx).BeginEntry(ctx, s.Audit); err != nil {
			return ExecAnswer{}, err
		}
		wait := time.Duration(in.Body.TimeoutSeconds) * time.Second
		if wait == 0 {
			wait = agentexec.DefaultTimeout
		}
		began := time.Now()
		stdout, stderr := &agentexec.Limited{Limit: agentexec.MaxOutput}, &agentexec.Limited{Limit: agentexec.MaxOutput}
		running, cancel := context.WithTimeoutCause(ctx, wait, errTimeout)
		defer cancel()
		var input io.Reader
		if in.Body.Stdin != "" {
			input = strings.NewReader(string(in.Body.Stdin))
		}
		commands := &begun{Source: s.Commands}
		code, err := agentexec.Run(running, commands, a, agentexec.Task{
			Args: in.Body.Command, Input: input, Output: stdout, Errors: stderr,
		})
		answer := ExecAnswer{
			Stdout: text(stdout), Stderr: text(stderr), Truncated: stdout.Truncated || stderr.Truncated,
			DurationMS: milliseconds(began),
		}
		_ = s.countSent(ctx, len(stdout.Bytes)+len(stderr.Bytes)) // the next call is refused: this one has run
		exit := "none"
		if err == nil {
			answer.ExitCode, exit = &code, strconv.Itoa(code)
		}
		e := call.From(ctx).Entry
		e.AddFact("exit_code", exit)
		e.AddFact("input_bytes", strconv.Itoa(len(in.Body.Stdin)))
		e.AddFact("output_bytes", number(stdout.Written+stderr.Written))
		e.AddFact("duration_ms", number(answer.DurationMS))
		switch {
		case errors.Is(err, errTimeout):
			err = nil
		case err != nil && commands.any && !fault.Is(err, fault.Conflict):
			call.From(ctx).Attempt.KeepIfFails(answer)
		}
		return answer, explain(err, a)
	})
	return r
}

// begun is a source of commands that knows whether one may have begun to run.
type begun struct {
	agentexec.Source
	any bool
}

// Open implements agentexec.Source.
func (b *begun) Open(ctx context.Context, a agent.Agent, c agentexec.Command) (agentexec.Stream, error) {
	s, err := b.Source.Open(ctx, a, c)
	b.any = err == nil || ctx.Err() != nil // the client left while the cluster was asked
	return s, err
}

// errTimeout ends the wait for a command.
var errTimeout = errors.New("the command did not end in time")

func text(l *agentexec.Limited) *string {
	return new(strings.ToValidUTF8(string(l.Bytes), "\uFFFD"))
}
