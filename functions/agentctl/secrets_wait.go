package agentctl

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"agents.example/controlplane/shared/client"
)

// largestPage is how many items one request asks for at most.
const largestPage = 100

// pageSize returns the size of pages for a list of at most limit items; 0 is no limit.
func pageSize(limit int) int64 {
	if limit > 0 && limit < largestPage {
		return int64(limit)
	}
	return largestPage
}

// first returns the first items of a list, and whether there are more; a limit of 0 is none.
func first[T any](items iter.Seq2[T, error], limit int) (found []T, more bool, err error) {
	found = []T{}
	for item, err := range items {
		if err != nil {
			return nil, false, err
		}
		if limit > 0 && len(found) == limit {
			return found, true, nil
		}
		found = append(found, item)
	}
	return found, false, nil
}

// operationTable is the result of a command that shows secret operations.
func (t *tool) operationTable(value any, operations []client.SecretOperation) result {
	r := list(operations, func(o client.SecretOperation) string { return o.ID }, []column[client.SecretOperation]{
		{"KEY", func(o client.SecretOperation) string { return o.Key }},
		{"ACTION", func(o client.SecretOperation) string { return string(o.Action) }},
		{"STAGE", func(o client.SecretOperation) string { return string(o.Stage) }},
		{"STATUS", func(o client.SecretOperation) string { return string(o.Status) }},
		{"REASON", func(o client.SecretOperation) string { return textOr(o.ErrorCode, "") }},
		{"BEGAN", func(o client.SecretOperation) string { return t.since(&o.CreatedAt, "") }},
		{"OPERATION ID", func(o client.SecretOperation) string { return o.ID }},
	})
	r.value = value
	return r
}

// followChanges shows what a change of secrets began, after a wait if the user wants it.
func (t *tool) followChanges(
	ctx context.Context, api *client.Client, changes *client.SecretChanges, wait bool,
) (err error) {
	if changes.Operations, err = t.follow(ctx, api, changes.AgentID, changes.Operations, wait); err != nil {
		return err
	}
	if len(changes.Operations) == 0 && t.output.kind == formatTable {
		t.note("Nothing had to change.")
		return nil
	}
	if err := t.show(t.operationTable(changes, changes.Operations)); err != nil {
		return err
	}
	return t.outcome(changes.AgentID, changes.Operations, wait)
}

// follow waits for operations if the user wants it, and returns them.
func (t *tool) follow(
	ctx context.Context, api *client.Client, agentID string, operations []client.SecretOperation, wait bool,
) ([]client.SecretOperation, error) {
	if !wait || len(operations) == 0 {
		return operations, nil
	}
	if t.app.Terminal.Err {
		t.note("Waiting until the agent has the change. Ctrl-C stops the wait, not the change.")
	}
	ids := make([]string, len(operations))
	for i, o := range operations {
		ids[i] = o.ID
	}
	done, err := api.WaitForSecretOperations(ctx, agentID, ids)
	if err != nil {
		return nil, withNext(err, "The change continues. Run: agentctl secrets operations "+agentID)
	}
	return done, nil
}

// outcome says how operations ended. It is an error if one failed.
func (t *tool) outcome(agentID string, operations []client.SecretOperation, wait bool) error {
	var parked, open, superseded []string
	var failed error
	for _, o := range operations {
		switch {
		case o.Status == client.SecretOperationStatusFailed:
			failed = errors.Join(failed, fmt.Errorf("%s failed at the stage %s: %s", o.Key, o.Stage,
				textOr(o.ErrorCode, "no reason is known")))
		case o.Status == client.SecretOperationStatusCanceled:
			failed = errors.Join(failed, fmt.Errorf("%s was canceled, because the agent is being deleted", o.Key))
		case o.Status == client.SecretOperationStatusSuperseded:
			superseded = append(superseded, o.Key)
		case wait && o.IsStoring():
			failed = errors.Join(failed, fmt.Errorf("it is not known whether the value of %s was stored", o.Key))
		case o.IsParked():
			parked = append(parked, o.Key)
		case !o.IsDone():
			open = append(open, o.Key)
		}
	}
	if failed != nil {
		return withNext(failedError{failed}, operationRemedies(agentID, operations)...)
	}
	if len(parked) > 0 {
		t.note("The agent is not running. It gets the change at its next start: %s.", strings.Join(parked, ", "))
	}
	if len(superseded) > 0 {
		t.note("A newer change took over: %s.", strings.Join(superseded, ", "))
	}
	if len(open) > 0 && !wait {
		t.note("The agent gets the change soon. To see when, run: agentctl secrets operations %s", agentID)
	}
	return nil
}

// storingRemedies returns what the user can do about a value that may not be stored.
func storingRemedies(agentID string, o client.SecretOperation) []string {
	again := fmt.Sprintf("Set it again: agentctl secrets set %s %s --wait", agentID, o.Key)
	if o.Action == client.SecretOperationActionRotate {
		again = fmt.Sprintf("Rotate again: agentctl credentials rotate %s --wait", agentID)
	}
	return []string{
		again,
		fmt.Sprintf("Or look for it in the secret store: agentctl secrets reconcile %s %s --wait", agentID, o.ID),
	}
}

// operationRemedies returns what the user can do about failed operations.
func operationRemedies(agentID string, operations []client.SecretOperation) []string {
	var next []string
	for _, o := range operations {
		if o.IsStoring() {
			next = append(next, storingRemedies(agentID, o)...)
			continue
		}
		if o.Status != client.SecretOperationStatusFailed {
			continue
		}
		switch textOr(o.ErrorCode, "") {
		case "secret_value_unavailable":
			next = append(next, fmt.Sprintf("The value was not stored. Set it again: agentctl secrets set %s %s",
				agentID, o.Key))
			continue
		case "pod_crash_loop", "gateway_unhealthy", "rollout_timeout":
			next = append(next, "See why the agent does not start: agentctl agents logs "+agentID)
		}
		next = append(next, fmt.Sprintf("Retry it: agentctl secrets reconcile %s %s --wait", agentID, o.ID))
	}
	return next
}
