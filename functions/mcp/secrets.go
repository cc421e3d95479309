package mcp

import (
	"context"
	"fmt"
	"time"

	"agents.example/controlplane/shared/client"
)

type setSecretsInput struct {
	agentID
	Secrets map[string]*string             `json:"secrets" jsonschema:"Values by key, 1 to 20; null deletes a secret. Others stay. A key is an environment variable's name."`
	Inject  map[string]client.SecretInject `json:"inject,omitempty" jsonschema:"By key: the agent does not get the value, which is added to its requests to these hosts. Needs egress allow_list."`
}

// operationView is a secret operation. None has the value.
type operationView struct {
	ID        string    `json:"id"`
	Key       string    `json:"key"`
	Action    string    `json:"action"`
	Stage     string    `json:"stage"`
	Status    string    `json:"status"`
	ErrorCode string    `json:"error_code"`
	Attempts  int64     `json:"attempts"`
	UpdatedAt time.Time `json:"updated_at"`
}

type operationList struct {
	Operations []operationView `json:"operations"`
	Next       string          `json:"next_cursor,omitempty"`
}

func operationsOf(operations []client.SecretOperation) operationList {
	out := operationList{Operations: []operationView{}}
	for i := range operations {
		out.Operations = append(out.Operations, operationOf(&operations[i]))
	}
	return out
}

func operationOf(o *client.SecretOperation) operationView {
	return operationView{
		ID: o.ID, Key: o.Key, Action: string(o.Action), Stage: string(o.Stage), Status: string(o.Status),
		ErrorCode: deref(o.ErrorCode), Attempts: o.AttemptCount, UpdatedAt: o.UpdatedAt,
	}
}

func setSecrets(ctx context.Context, c *call, in setSecretsInput) (operationList, string, error) {
	changes, err := c.PutSecrets(ctx, in.ID, client.PutSecretsRequest{Secrets: in.Secrets, Inject: in.Inject},
		c.options()...)
	if err != nil {
		return operationList{}, "", err
	}
	return operationsOf(changes.Operations), fmt.Sprintf("%d operations began. A running agent restarts with the new "+
		"values; list_secret_operations shows when they have the status succeeded.", len(changes.Operations)), nil
}

type secretView struct {
	Key    string `json:"key"`
	InSync bool   `json:"in_sync"`
	// Inject is nil for a secret in the agent's environment.
	Inject    *client.SecretInject `json:"inject,omitempty"`
	UpdatedAt time.Time            `json:"updated_at"`
}

type secretList struct {
	Secrets []secretView `json:"secrets"`
}

func listSecrets(ctx context.Context, c *call, in agentID) (secretList, string, error) {
	secrets, err := c.ListSecrets(ctx, in.ID)
	if err != nil {
		return secretList{}, "", err
	}
	out := secretList{Secrets: []secretView{}}
	for _, s := range secrets {
		out.Secrets = append(out.Secrets, secretView{s.Key, s.InSync, s.Inject, s.UpdatedAt})
	}
	return out, fmt.Sprintf("%d secrets. Values are never shown.", len(secrets)), nil
}

type listOperationsInput struct {
	agentID
	Limit  pageSize `json:"limit,omitempty"`
	Cursor string   `json:"cursor,omitempty" jsonschema:"next_cursor of the previous call, for the next page."`
}

func listOperations(ctx context.Context, c *call, in listOperationsInput) (operationList, string, error) {
	if in.Limit == 0 {
		in.Limit = defaultPage
	}
	page, err := c.ListSecretOperations(in.ID, client.ListSecretOperationsParams{
		Limit: int64(in.Limit), Cursor: in.Cursor,
	}).Page(ctx)
	if err != nil {
		return operationList{}, "", err
	}
	out := operationsOf(page.Items)
	out.Next = page.Next
	return out, fmt.Sprintf("%d operations, the newest first. reconcile_secret_operation repeats one that failed.",
		len(out.Operations)), nil
}

type reconcileInput struct {
	agentID
	Operation string `json:"operation_id" jsonschema:"The operation's id, from list_secret_operations."`
}

func reconcileOperation(ctx context.Context, c *call, in reconcileInput) (operationView, string, error) {
	o, err := c.ReconcileSecretOperation(ctx, in.ID, in.Operation, c.options()...)
	if err != nil {
		return operationView{}, "", err
	}
	return operationOf(o), fmt.Sprintf("The operation is %s at the stage %s.", o.Status, o.Stage), nil
}
