package mcp

import (
	"context"
	"fmt"
	"strings"

	"agents.example/controlplane/shared/client"
)

type commandInput struct {
	agentID
	Command []string `json:"command" jsonschema:"A program of the agent's image, by path or name, and its arguments."`
	Stdin   string   `json:"stdin,omitempty" jsonschema:"The program's input."`
}

type commandView struct {
	Notice string `json:"notice"`
	// ExitCode is nil if the program did not end.
	ExitCode *int64 `json:"exit_code"`
	Stdout   string `json:"stdout"`
	Stderr   string `json:"stderr"`
	Omitted  bool   `json:"omitted"`
}

// commandSeconds is less than the time of a tool.
const commandSeconds = 20

func runCommand(ctx context.Context, c *call, in commandInput) (commandView, string, error) {
	request := client.ExecInAgentRequest{Command: in.Command, TimeoutSeconds: new(int64(commandSeconds))}
	if in.Stdin != "" {
		request.Stdin = &in.Stdin
	}
	answer, err := c.ExecInAgent(ctx, in.ID, request)
	if err != nil {
		return commandView{}, "", err
	}
	out := commandView{Notice: notice, ExitCode: answer.ExitCode, Omitted: answer.Truncated}
	out.Stdout = out.bounded(answer.Stdout)
	out.Stderr = out.bounded(answer.Stderr)
	if out.ExitCode == nil {
		return out, fmt.Sprintf("The program did not end within %d seconds. %s", commandSeconds, notice), nil
	}
	return out, fmt.Sprintf("Exit code %d. %s", *out.ExitCode, notice), nil
}

// bounded returns as much of an output as a model may get.
func (v *commandView) bounded(output *string) string {
	if output == nil {
		return ""
	}
	if len(*output) <= maxLogBytes {
		return *output
	}
	v.Omitted = true
	return strings.ToValidUTF8((*output)[:maxLogBytes], "")
}
