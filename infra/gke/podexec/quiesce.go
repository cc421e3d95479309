package podexec

import (
	"context"
	"errors"
	"fmt"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agentexec"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/provisioning"
)

var _ provisioning.Quiescer = (*Commands)(nil)

const (
	// quiesceTime is how long the program of an image may take to make its volume quiet, or to end that.
	quiesceTime = 5 * time.Second
	// codeHookFailed is the code of all failures that are the image's.
	codeHookFailed = "hook_failed"
)

// Quiesce implements provisioning.Quiescer. It reads the program's output and drops it, because that may have secrets.
// A program that takes too long may go on: a container runtime does not end it.
func (c *Commands) Quiesce(ctx context.Context, a agent.Agent, argument string) error {
	if a.Image.Quiesce == "" {
		return hookFailed("The agent's image has no program that makes its volume quiet.", nil)
	}
	limited, cancel := context.WithTimeout(ctx, c.quiesceTime)
	defer cancel()
	code, err := agentexec.Run(limited, c, a, agentexec.Task{Args: []string{a.Image.Quiesce, argument}})
	program := a.Image.Quiesce + " " + argument
	switch {
	case err == nil && code == 0:
		return nil
	case err == nil:
		return hookFailed(fmt.Sprintf("The image's program %s failed with exit code %d.", program, code), nil)
	case fault.Code(err) == agentexec.CodeNotFound:
		return hookFailed(fmt.Sprintf("The agent's container has no program %s.", a.Image.Quiesce), err)
	case errors.Is(limited.Err(), context.DeadlineExceeded) && ctx.Err() == nil:
		return hookFailed(fmt.Sprintf("The image's program %s did not end within %s.", program, c.quiesceTime), err)
	case fault.Code(err) == agentexec.CodeNotRunning:
		return fault.New(fault.Unavailable, agentexec.CodeNotRunning, "The agent's container does not run.").
			WithCause(err)
	case fault.Is(err, fault.Unavailable):
		return err
	default:
		return unavailable(err)
	}
}

func hookFailed(message string, cause error) *provisioning.Permanent {
	return &provisioning.Permanent{Code: codeHookFailed, Message: message, Cause: cause}
}
