package client

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// waitSeconds is how long one request waits for an agent. The API allows 55.
const waitSeconds = 50

// Pauses between the reads of an object that is waited for. The API allows 5 reads of one agent in a second.
const (
	firstPoll  = 500 * time.Millisecond
	maxPoll    = 5 * time.Second
	watchEvery = 300 * time.Millisecond
)

// IsSettled reports whether an agent's status does not change by itself, unlike pending, provisioning and deleting.
func (s AgentStatus) IsSettled() bool {
	return s == AgentStatusRunning || s == AgentStatusPaused || s == AgentStatusStopped || s == AgentStatusError
}

// WaitUntilSettled waits until an agent is running, paused, stopped or in error, and returns it.
//
// A running agent stays running while its pod is replaced. After a restart, or a change of variables, secrets or
// credentials, use WaitUntilReady instead.
//
// If onChange is nil, the API holds each request until the status settles, so a wait costs about one request a minute.
// Otherwise, the agent is read about three times a second, and onChange is called with each version that is seen, such
// as one with another provisioning stage; the last one is the one that is returned.
//
// Once the API has shown the agent, a wait bears that it is out of reach for 2 minutes.
func (c *Client) WaitUntilSettled(ctx context.Context, agentID string, onChange func(*Agent)) (*Agent, error) {
	return c.awaitAgent(ctx, agentID, onChange, func(a *Agent) bool { return a.Status.IsSettled() })
}

// WaitUntilReady waits until an agent is paused, stopped, in error, or running with its newest pod, and returns it. It
// covers every change of an agent, also a restart. onChange is as for WaitUntilSettled; without it, the agent is read
// about once a second while a pod is replaced.
func (c *Client) WaitUntilReady(ctx context.Context, agentID string, onChange func(*Agent)) (*Agent, error) {
	return c.awaitAgent(ctx, agentID, onChange, (*Agent).IsReady)
}

// IsReady reports whether an agent is paused, stopped, in error, or running with its newest pod.
func (a *Agent) IsReady() bool {
	return a.Status.IsSettled() && (a.Status != AgentStatusRunning || !a.DashboardWarming)
}

// WaitUntilDeleted waits until an agent that is being deleted does not exist anymore. It fails if an agent is not
// being deleted. onChange is as for WaitUntilSettled.
func (c *Client) WaitUntilDeleted(ctx context.Context, agentID string, onChange func(*Agent)) error {
	a, err := c.awaitAgent(ctx, agentID, onChange, func(a *Agent) bool { return a.Status.IsSettled() })
	if IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return fmt.Errorf("the agent %s is %s, not being deleted. Delete it before you wait", agentID, a.Status)
}

// patient returns a client for the reads of a wait whose object the API has shown: it bears an outage of the API.
func (c *Client) patient() *Client {
	p := *c
	p.retry.outage = outagePatience
	return &p
}

// awaitAgent reads an agent until it is as wanted.
func (c *Client) awaitAgent(
	ctx context.Context, agentID string, onChange func(*Agent), wanted func(*Agent) bool,
) (*Agent, error) {
	params := GetAgentParams{Wait: waitSeconds}
	if onChange != nil {
		params.Wait = 0
	}
	for etag := ""; ; {
		var header http.Header
		began := time.Now()
		a, err := c.GetAgent(ctx, agentID, params, ResponseHeader(&header))
		if err != nil {
			return nil, err
		}
		c = c.patient()
		if changed := header.Get("ETag"); onChange != nil && (changed == "" || changed != etag) {
			etag = changed
			onChange(a)
		}
		if wanted(a) {
			return a, nil
		}
		// The API answers immediately, with Retry-After, if too many requests wait already, and before it shuts down.
		rest := retryAfter(header, time.Now())
		if onChange != nil {
			rest = watchEvery
		} else if took := time.Since(began); took < time.Second {
			rest = max(rest, time.Second)
		}
		if err := c.retry.sleep(ctx, min(rest, longestRetryAfter)); err != nil {
			return nil, err
		}
	}
}

// IsDone reports whether an operation has ended: it succeeded, failed, was superseded or was canceled.
func (o SecretOperation) IsDone() bool {
	return o.Status == SecretOperationStatusSucceeded || o.Status == SecretOperationStatusFailed ||
		o.Status == SecretOperationStatusSuperseded || o.Status == SecretOperationStatusCanceled
}

// IsParked reports whether an operation waits for the agent's next start, because the agent is not running.
func (o SecretOperation) IsParked() bool {
	return !o.IsDone() && o.ErrorCode != nil && *o.ErrorCode == "agent_not_running"
}

// IsStoring reports whether it is not known whether the secret store has the operation's value.
func (o SecretOperation) IsStoring() bool {
	return o.Stage == SecretOperationStageStore && o.Status == SecretOperationStatusPending
}

// longestStoring is how long the API may take to know whether a value was stored. After that, an operation leaves the
// stage only with another request: its own again, another value, or a reconciliation.
const longestStoring = 30 * time.Second

// WaitForSecretOperations waits until each of an agent's secret operations is done, parked until the agent starts, or
// at the stage store for more than 30 seconds, and returns them in the order of their ids. A failed operation is no
// error here; the caller looks at Status, and at IsStoring: then the value must be sent again.
func (c *Client) WaitForSecretOperations(ctx context.Context, agentID string, ids []string) ([]SecretOperation, error) {
	found := map[string]SecretOperation{}
	first := map[operationVersion]time.Time{}
	c = c.patient()
	for poll := firstPoll; ; poll = min(poll*3/2, maxPoll) {
		if err := c.readOperations(ctx, agentID, ids, found); err != nil {
			return nil, err
		}
		for _, id := range ids {
			if v := versionOf(found[id]); first[v].IsZero() {
				first[v] = time.Now()
			}
		}
		if !slices.ContainsFunc(ids, func(id string) bool {
			o := found[id]
			return isPending(o) && (!o.IsStoring() || time.Since(first[versionOf(o)]) <= longestStoring)
		}) {
			break
		}
		if err := c.retry.sleep(ctx, poll); err != nil {
			return nil, err
		}
	}
	operations := make([]SecretOperation, len(ids))
	for i, id := range ids {
		operations[i] = found[id]
	}
	return operations, nil
}

// operationVersion identifies an operation as it was from one change to the next.
type operationVersion struct {
	id      string
	updated int64
}

func versionOf(o SecretOperation) operationVersion {
	return operationVersion{o.ID, o.UpdatedAt.UnixNano()}
}

// isPending reports whether an operation that was read, or not read yet, must be waited for.
func isPending(o SecretOperation) bool { return !o.IsDone() && !o.IsParked() }

// readOperations reads the pending ones of an agent's operations. A page of the list has them with one request, unless
// they are old.
func (c *Client) readOperations(
	ctx context.Context, agentID string, ids []string, found map[string]SecretOperation,
) error {
	var pending []string
	for _, id := range ids {
		if isPending(found[id]) {
			pending = append(pending, id)
		}
	}
	if len(pending) > 1 {
		page, err := c.ListSecretOperations(agentID, ListSecretOperationsParams{Limit: 100}).Page(ctx)
		if err != nil {
			return err
		}
		for _, o := range page.Items {
			if i := slices.Index(pending, o.ID); i >= 0 {
				found[o.ID] = o
				pending = slices.Delete(pending, i, i+1)
			}
		}
	}
	for _, id := range pending {
		o, err := c.GetSecretOperation(ctx, agentID, id)
		if err != nil {
			return err
		}
		found[id] = *o
	}
	return nil
}

// WaitUntilDashboardReachable waits until an agent's dashboard answers, and returns the result of the last check. It
// also returns, with Reachable false, when waiting longer changes nothing.
func (c *Client) WaitUntilDashboardReachable(ctx context.Context, agentID string) (*DashboardReachability, error) {
	for {
		r, err := c.GetDashboardReachability(ctx, agentID)
		if err != nil {
			return nil, err
		}
		c = c.patient()
		if r.Reachable && !r.DashboardWarming || r.RetryAfterSeconds == nil {
			return r, nil
		}
		rest := min(max(time.Duration(*r.RetryAfterSeconds)*time.Second, firstPoll), longestRetryAfter)
		if err := c.retry.sleep(ctx, rest); err != nil {
			return nil, err
		}
	}
}
