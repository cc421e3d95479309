package client

import (
	"context"
	"time"
)

// waitSeconds is how long one request waits for an agent. The API allows 55.
const waitSeconds = 50

// IsSettled reports whether an agent's status does not change by itself, unlike pending, provisioning and deleting.
func (s AgentStatus) IsSettled() bool {
	return s == AgentStatusRunning || s == AgentStatusPaused || s == AgentStatusStopped || s == AgentStatusError
}

// WaitUntilSettled waits until an agent is running, paused, stopped or in error, and returns it. onChange, unless it is
// nil, is called with every other version of the agent that is seen in between. The API holds each request until the
// status settles, so a wait costs about one request a minute.
func (c *Client) WaitUntilSettled(ctx context.Context, agentID string, onChange func(*Agent)) (*Agent, error) {
	for {
		began := time.Now()
		a, err := c.GetAgent(ctx, agentID, GetAgentParams{Wait: waitSeconds})
		if err != nil {
			return nil, err
		}
		if onChange != nil {
			onChange(a)
		}
		if a.Status.IsSettled() {
			return a, nil
		}
		// The API answers immediately if too many requests wait already.
		if time.Since(began) < time.Second {
			if err := c.retry.sleep(ctx, time.Second); err != nil {
				return nil, err
			}
		}
	}
}
