package firestore

import (
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/secret"
)

// operationDocument is a secret operation as it stands on its agent, while it is open. Its agent and its organization
// are the document's.
type operationDocument struct {
	ID           string        `firestore:"id"`
	Key          string        `firestore:"key"`
	Action       secret.Action `firestore:"action"`
	Stage        secret.Stage  `firestore:"stage"`
	Status       secret.Status `firestore:"status"`
	ErrorCode    string        `firestore:"error_code,omitempty"`
	Attempts     int64         `firestore:"attempts"`
	Seen         int64         `firestore:"seen,omitempty"`
	Version      int64         `firestore:"version,omitempty"`
	Bytes        int64         `firestore:"bytes,omitempty"`
	Batch        string        `firestore:"batch,omitempty"`
	StoringUntil *time.Time    `firestore:"storing_until,omitempty"`
	CreatedAt    time.Time     `firestore:"created_at"`
	UpdatedAt    time.Time     `firestore:"updated_at"`
}

// historyDocument is an operation in the history. The document's id is the operation's. Firestore deletes it some time
// after expires_at, which is null while the operation is open.
type historyDocument struct {
	AgentID        string            `firestore:"agent_id"`
	OrganizationID string            `firestore:"organization_id"`
	CreatedAt      time.Time         `firestore:"created_at"`
	ExpiresAt      *time.Time        `firestore:"expires_at"`
	Operation      operationDocument `firestore:"operation"`
}

// historyRetention is how long the history keeps an operation that has come to its end.
const historyRetention = 90 * 24 * time.Hour

func operationDocumentOf(o secret.Operation) operationDocument {
	return operationDocument{
		ID: o.ID, Key: o.Key, Action: o.Action, Stage: o.Stage, Status: o.Status, ErrorCode: o.ErrorCode,
		Attempts: int64(o.Attempts),
		Seen:     o.LatestBefore, Version: o.Version, Bytes: o.Bytes, Batch: o.Batch,
		StoringUntil: nullable(o.StoringUntil),
		CreatedAt:    precise(o.CreatedAt), UpdatedAt: precise(o.UpdatedAt),
	}
}

func (d operationDocument) operation(agentID, organizationID string) secret.Operation {
	return secret.Operation{
		ID: d.ID, AgentID: agentID, OrganizationID: organizationID, Key: d.Key, Action: d.Action, Stage: d.Stage,
		Status:    d.Status,
		ErrorCode: d.ErrorCode, Attempts: int(d.Attempts), LatestBefore: d.Seen, Version: d.Version, Bytes: d.Bytes,
		Batch:        d.Batch,
		StoringUntil: timeOf(d.StoringUntil), CreatedAt: d.CreatedAt, UpdatedAt: d.UpdatedAt,
	}
}

func operationIn(v *values) operationDocument {
	return operationDocument{
		ID: field[string](v, "id"), Key: field[string](v, "key"), Action: text[secret.Action](v, "action"),
		Stage:  text[secret.Stage](v, "stage"),
		Status: text[secret.Status](v, "status"), ErrorCode: field[string](v, "error_code"),
		Attempts: field[int64](v, "attempts"),
		Seen:     field[int64](v, "seen"), Version: field[int64](v, "version"), Bytes: field[int64](v, "bytes"),
		Batch:        field[string](v, "batch"),
		StoringUntil: moment(v, "storing_until"), CreatedAt: field[time.Time](v, "created_at"),
		UpdatedAt: field[time.Time](v, "updated_at"),
	}
}

// openOperations makes the documents of the operations that stay on an agent.
func openOperations(a agent.Agent) []operationDocument {
	var open []operationDocument
	for _, o := range a.Operations {
		if o.Open() {
			open = append(open, operationDocumentOf(o))
		}
	}
	return open
}

// saveOperations has the commit that writes an agent write the history of the operations that it moves.
func (c *Client) saveOperations(b *batch, before, after agent.Agent) {
	known := map[string]operationDocument{}
	for _, o := range before.Operations {
		known[o.ID] = operationDocumentOf(o)
	}
	for _, o := range after.Operations {
		d := operationDocumentOf(o)
		if was, ok := known[o.ID]; ok && sameOperation(was, d) {
			continue
		}
		ref, ok := c.ref(operationCollection, o.ID)
		if !ok {
			continue // ids are made by the control plane
		}
		h := historyDocument{AgentID: after.ID, OrganizationID: after.OrganizationID, CreatedAt: d.CreatedAt,
			Operation: d}
		if !o.Open() {
			h.ExpiresAt = nullable(o.UpdatedAt.Add(historyRetention))
		}
		b.Set(ref, h)
	}
}

func sameOperation(x, y operationDocument) bool {
	same := timeOf(x.StoringUntil).Equal(timeOf(y.StoringUntil)) && x.CreatedAt.Equal(y.CreatedAt) &&
		x.UpdatedAt.Equal(y.UpdatedAt)
	x.StoringUntil, x.CreatedAt, x.UpdatedAt = y.StoringUntil, y.CreatedAt, y.UpdatedAt
	return same && x == y
}
