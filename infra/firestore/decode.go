package firestore

import (
	"fmt"
	"time"

	gcp "cloud.google.com/go/firestore"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/apikey"
	"agents.example/controlplane/shared/plan"
)

// decode reads a document that exists into its struct, by reflection.
func decode[D any](snap *gcp.DocumentSnapshot) (D, error) {
	var d D
	if err := snap.DataTo(&d); err != nil {
		return d, fmt.Errorf("decode a document of %s: %w", snap.Ref.Parent.ID, err)
	}
	return d, nil
}

// values reads the fields of a document one by one. Agents and keys are read this way, because they are read with every
// request, and reflection takes three times as long. The first field of a wrong type is the error of them all.
type values struct {
	of  map[string]any
	err error
}

// field reads a field; one that is missing or null has its zero value.
func field[T any](v *values, name string) T {
	raw := v.of[name]
	t, ok := raw.(T)
	if !ok && raw != nil && v.err == nil {
		v.err = fmt.Errorf("the field %s is %T instead of %T", name, raw, t)
	}
	return t
}

func text[S ~string](v *values, name string) S { return S(field[string](v, name)) }

// moment reads a time that may be null.
func moment(v *values, name string) *time.Time {
	if v.of[name] == nil {
		return nil
	}
	t := field[time.Time](v, name)
	return &t
}

// items reads an array of maps.
func items[D any](v *values, name string, item func(*values) D) []D {
	raw := field[[]any](v, name)
	if len(raw) == 0 {
		return nil
	}
	list := make([]D, len(raw))
	for i, r := range raw {
		m, ok := r.(map[string]any)
		if !ok && v.err == nil {
			v.err = fmt.Errorf("the field %s has %T instead of a map", name, r)
		}
		inner := values{of: m}
		if list[i] = item(&inner); v.err == nil {
			v.err = inner.err
		}
	}
	return list
}

// agentDocumentIn reads an agent's document.
func agentDocumentIn(snap *gcp.DocumentSnapshot) (agentDocument, error) {
	v := &values{of: snap.Data()}
	d := agentDocument{
		OrganizationID: field[string](v, "organization_id"), Name: field[string](v, "name"),
		Slug: field[string](v, "slug"),
		Plan: text[plan.ID](v, "plan"), Cloud: field[string](v, "cloud"), Region: field[string](v, "region"),
		Cell: field[string](v, "cell"), Config: field[string](v, "config"), Sandbox: field[bool](v, "sandbox"),
		Proven: text[agent.Isolation](v, "proven"), Status: text[agent.Status](v, "status"),
		StatusReason: text[agent.StatusReason](v, "status_reason"),
		Warming:      field[bool](v, "warming"), RotationPending: field[bool](v, "rotation_pending"),
		Routed:            field[bool](v, "routed"),
		CredentialVersion: field[int64](v, "credential_version"),
		FormerCredential:  field[int64](v, "former_credential"),
		SecretsRevision:   field[int64](v, "secrets_revision"), StoringUntil: moment(v, "storing_until"),
		RevealedAt: moment(v, "revealed_at"),
		Rollout:    field[int64](v, "rollout"), Generation: field[int64](v, "generation"),
		ObservedGeneration: field[int64](v, "observed_generation"), Attempts: field[int64](v, "attempts"),
		LeaseHolder: field[string](v, "lease_holder"), LeaseUntil: moment(v, "lease_until"),
		WorkDueAt: moment(v, "work_due_at"),
		Deadline:  moment(v, "deadline"), CreatedAt: field[time.Time](v, "created_at"),
		UpdatedAt: field[time.Time](v, "updated_at"),
		CreatedBy: field[string](v, "created_by"), ChangeID: field[string](v, "change_id"),
		WriteID: field[string](v, "write_id"),
	}
	d.Env = items(v, "env", func(v *values) envDocument {
		return envDocument{
			field[string](v, "key"), field[string](v, "value"), field[int64](v, "secret_version"),
			field[int64](v, "bytes"), moment(v, "set_at"),
		}
	})
	d.Live = items(v, "live", func(v *values) liveDocument {
		return liveDocument{field[string](v, "key"), field[int64](v, "version")}
	})
	d.Operations = items(v, "operations", operationIn)
	d.Stages = items(v, "stages", func(v *values) stageDocument {
		return stageDocument{
			Name: text[agent.StageName](v, "name"), Status: text[agent.StageStatus](v, "status"),
			Attempt:   field[int64](v, "attempt"),
			StartedAt: moment(v, "started_at"), FinishedAt: moment(v, "finished_at"),
			ErrorCode: field[string](v, "error_code"), Message: field[string](v, "message"),
		}
	})
	d.Failure, d.Undone = failureIn(v, "failure"), failureIn(v, "undone")
	if v.err != nil {
		return agentDocument{}, fmt.Errorf("decode the agent %s: %w", snap.Ref.ID, v.err)
	}
	return d, nil
}

// failureIn reads a failure that may be null.
func failureIn(v *values, name string) *failureDocument {
	f := field[map[string]any](v, name)
	if f == nil {
		return nil
	}
	inner := &values{of: f, err: v.err}
	d := &failureDocument{
		field[string](inner, "code"), text[agent.StageName](inner, "stage"), field[string](inner, "message"),
		field[bool](inner, "retryable"),
	}
	v.err = inner.err
	return d
}

// agentOf makes the record of a document that exists. Every call makes its own.
func agentOf(snap *gcp.DocumentSnapshot) (agent.Agent, error) {
	d, err := agentDocumentIn(snap)
	if err != nil {
		return agent.Agent{}, err
	}
	a := d.agent(snap.Ref.ID)
	a.Version = versionAt(snap.UpdateTime)
	return a, nil
}

// keyOf makes the record of a key's document that exists. Its hash is the document's id.
func keyOf(snap *gcp.DocumentSnapshot) (apikey.Key, error) {
	v := &values{of: snap.Data()}
	k := apikey.Key{
		ID: field[string](v, "id"), OrganizationID: field[string](v, "organization_id"), Name: field[string](v, "name"),
		Purpose: text[apikey.Purpose](v, "purpose"), Prefix: field[string](v, "prefix"), Hash: snap.Ref.ID,
		CreatedBy: field[string](v, "created_by"), CreatedAt: field[time.Time](v, "created_at"),
		LastUsedAt: field[time.Time](v, "last_used_at"), ExpiresAt: field[time.Time](v, "expires_at"),
	}
	if v.err != nil {
		return apikey.Key{}, fmt.Errorf("decode the API key %s: %w", k.ID, v.err)
	}
	return k, nil
}
