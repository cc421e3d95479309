// Package agentexec runs commands in agents' own containers: the port that cells implement, bounded runs of commands,
// terminals that relay frames, and the transfer of files. It stores nothing, and what passes through it is never
// written to a log.
package agentexec

import (
	"context"
	"fmt"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agentexec/channel"
	"agents.example/controlplane/shared/fault"
)

// The limits of commands and terminals.
const (
	// MaxOutput is how many bytes of each output of a command an answer has.
	MaxOutput = 1 << 20
	// MaxTimeout and DefaultTimeout bound how long a command may take.
	MaxTimeout     = 300 * time.Second
	DefaultTimeout = 30 * time.Second
	// MaxSession is how long a terminal may stay open. Cloud Run ends a request after an hour.
	MaxSession = 59 * time.Minute
	// MaxIdle is how long a terminal may stay open without input and output.
	MaxIdle = 15 * time.Minute
	// MaxArguments and MaxArgument bound a command. The kernel takes no longer argument than 128 KiB.
	MaxArguments = 256
	MaxArgument  = 16 << 10
)

// Source opens commands in agents' containers.
type Source interface {
	// Open starts a command in the agent's own container, never in another container of its pod. ctx ends the stream.
	// Errors: Conflict with CodeNotRunning if there is no container that runs, Unavailable if the agent's cluster does
	// not answer.
	Open(ctx context.Context, a agent.Agent, c Command) (Stream, error)
}

// Command is a program with its arguments. The container looks it up: no shell does.
type Command struct {
	Args []string
	// Input says that the command gets an input; otherwise its input is empty.
	Input bool
	// Terminal gives the command a terminal, which has one output.
	Terminal bool
	// Reader runs the command in the pod that has a copy of a snapshot, instead of the agent's.
	Reader bool
}

// Stream is a command that runs. Its Read returns outputs and, after the last one, an *Exit, or a fault: Conflict with
// CodeNotFound if the container has no such program, Conflict with CodeNotRunning if the container ended, or
// Unavailable.
type Stream interface {
	channel.Conn
	// Close ends the stream. The command may go on: a container runtime does not end it.
	Close() error
}

// Exit is the end of a command.
type Exit struct{ Code int }

// Error implements error.
func (e *Exit) Error() string { return fmt.Sprintf("the command ended with exit code %d", e.Code) }

// Codes of errors.
const (
	CodeNotRunning = "agent_not_running"
	CodeNotFound   = "program_not_found"
	CodeNoShell    = "image_has_no_shell"
)

// NotRunning is the error for an agent without a container that runs.
func NotRunning() *fault.Error {
	return fault.New(fault.Conflict, CodeNotRunning,
		"The agent has no running container. Start the agent, or wait until it runs.")
}

// NotFound is the error for a program that the container does not have.
func NotFound() *fault.Error {
	return fault.New(fault.Conflict, CodeNotFound,
		"The agent's container has no such program. Give the path of a program of its image. A pipe or a variable "+
			"needs a shell: sh -c '...'.")
}

// NoShell is the error for a terminal in a container without a shell.
func NoShell() *fault.Error {
	return fault.New(fault.Conflict, CodeNoShell,
		"The agent's image has no shell. Name a program of the image as the command, or add a shell to the image.")
}

// Shell is the command of a terminal that names none: bash, or else sh.
func Shell() []string {
	return []string{"sh", "-c", "command -v bash >/dev/null 2>&1 && exec bash; exec sh"}
}
