package firestore

import (
	"encoding/json"
	"errors"
	"reflect"
	"strconv"
	"strings"
	"time"

	gcp "cloud.google.com/go/firestore"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/plan"
)

// agentDocument is an agent as it is stored. A field that is missing has its zero value, and fields that are not named
// here survive an update, so that functions of different ages work on the same documents. Times are null instead of
// zero: a query for overdue work passes null over.
type agentDocument struct {
	OrganizationID string  `firestore:"organization_id"`
	Name           string  `firestore:"name"`
	Slug           string  `firestore:"slug"`
	Plan           plan.ID `firestore:"plan"`
	Cloud          string  `firestore:"cloud"`
	Region         string  `firestore:"region"`
	Cell           string  `firestore:"cell"`
	// JSON: a client's key need not be a field name that Firestore takes
	Config       string             `firestore:"config"`
	Env          []envDocument      `firestore:"env"`
	Sandbox      bool               `firestore:"sandbox"`
	Proven       agent.Isolation    `firestore:"proven"`
	Status       agent.Status       `firestore:"status"`
	StatusReason agent.StatusReason `firestore:"status_reason"`
	Stages       []stageDocument    `firestore:"stages"`
	Failure      *failureDocument   `firestore:"failure"`
	Undone       *failureDocument   `firestore:"undone"`
	// Operations are those that are open; see documents_secrets.go.
	Operations []operationDocument `firestore:"operations"`
	Live       []liveDocument      `firestore:"live"`

	Warming            bool       `firestore:"warming"`
	RotationPending    bool       `firestore:"rotation_pending"`
	Routed             bool       `firestore:"routed"`
	CredentialVersion  int64      `firestore:"credential_version"`
	FormerCredential   int64      `firestore:"former_credential"`
	RevealedAt         *time.Time `firestore:"revealed_at"`
	Rollout            int64      `firestore:"rollout"`
	SecretsRevision    int64      `firestore:"secrets_revision"`
	StoringUntil       *time.Time `firestore:"storing_until"`
	Generation         int64      `firestore:"generation"`
	ObservedGeneration int64      `firestore:"observed_generation"`
	Attempts           int64      `firestore:"attempts"`
	LeaseHolder        string     `firestore:"lease_holder"`
	LeaseUntil         *time.Time `firestore:"lease_until"`
	WorkDueAt          *time.Time `firestore:"work_due_at"`
	Deadline           *time.Time `firestore:"deadline"`
	CreatedAt          time.Time  `firestore:"created_at"`
	UpdatedAt          time.Time  `firestore:"updated_at"`
	CreatedBy          string     `firestore:"created_by"`
	ChangeID           string     `firestore:"change_id"`
	// WriteID names the last write. A commit whose answer was lost is recognised by it.
	WriteID string `firestore:"write_id"`
}

// Of what stands in an array, zero values are left out: the array is written whole, and fields cost time with every
// read.

type envDocument struct {
	Key           string `firestore:"key"`
	Value         string `firestore:"value,omitempty"`
	SecretVersion int64  `firestore:"secret_version,omitempty"`
	Bytes         int64  `firestore:"bytes,omitempty"`
	// SetAt is null for a plain variable.
	SetAt *time.Time `firestore:"set_at,omitempty"`
}

type liveDocument struct {
	Key     string `firestore:"key"`
	Version int64  `firestore:"version"`
}

type stageDocument struct {
	Name       agent.StageName   `firestore:"name"`
	Status     agent.StageStatus `firestore:"status"`
	Attempt    int64             `firestore:"attempt,omitempty"`
	StartedAt  *time.Time        `firestore:"started_at,omitempty"`
	FinishedAt *time.Time        `firestore:"finished_at,omitempty"`
	ErrorCode  string            `firestore:"error_code,omitempty"`
	Message    string            `firestore:"message,omitempty"`
}

type failureDocument struct {
	Code      string          `firestore:"code"`
	Stage     agent.StageName `firestore:"stage"`
	Message   string          `firestore:"message"`
	Retryable bool            `firestore:"retryable"`
}

// documentOf makes the document of an agent, without a write id. Equal agents have deeply equal documents.
func documentOf(a agent.Agent) agentDocument {
	d := agentDocument{
		OrganizationID: a.OrganizationID, Name: a.Name, Slug: a.Slug, Plan: a.Plan, Cloud: a.Cloud, Region: a.Region,
		Cell:   a.Cell,
		Config: string(a.Config), Sandbox: a.Sandbox, Proven: a.LastReadyIsolation, Status: a.Status,
		StatusReason: a.StatusReason,
		Warming:      a.Warming, RotationPending: a.RotationPending, Routed: a.Routed,
		CredentialVersion: a.CredentialVersion,
		FormerCredential:  a.FormerCredential, SecretsRevision: a.SecretsRevision,
		StoringUntil: nullable(a.StoringUntil),
		RevealedAt:   nullable(a.RevealedAt), Rollout: a.Rollout, Generation: a.Generation,
		ObservedGeneration: a.ObservedGeneration, Attempts: int64(a.Attempts),
		LeaseHolder: a.Lease.Holder, LeaseUntil: nullable(a.Lease.Until), WorkDueAt: nullable(a.WorkDueAt),
		Deadline: nullable(a.Deadline), CreatedAt: precise(a.CreatedAt), UpdatedAt: precise(a.UpdatedAt),
		CreatedBy: a.CreatedBy, ChangeID: a.ChangeID,
	}
	for _, e := range a.Env {
		d.Env = append(d.Env, envDocument{e.Key, e.Value, e.SecretVersion, e.Bytes, nullable(e.SetAt)})
	}
	for _, l := range a.Live {
		d.Live = append(d.Live, liveDocument(l))
	}
	d.Operations = openOperations(a)
	for _, s := range a.Stages {
		d.Stages = append(d.Stages, stageDocument{
			Name: s.Name, Status: s.Status, Attempt: int64(s.Attempt), StartedAt: nullable(s.StartedAt),
			FinishedAt: nullable(s.FinishedAt), ErrorCode: s.ErrorCode, Message: s.Message,
		})
	}
	d.Failure, d.Undone = failureOf(a.Failure), failureOf(a.RevertReason)
	return d
}

// agent makes the record with an id. It shares nothing with the document.
func (d agentDocument) agent(id string) agent.Agent {
	a := agent.Agent{
		ID: id, OrganizationID: d.OrganizationID, Name: d.Name, Slug: d.Slug, Plan: d.Plan, Cloud: d.Cloud,
		Region: d.Region,
		Cell:   d.Cell, Sandbox: d.Sandbox, LastReadyIsolation: d.Proven, Status: d.Status,
		StatusReason: d.StatusReason,
		Warming:      d.Warming, RotationPending: d.RotationPending, Routed: d.Routed,
		CredentialVersion: d.CredentialVersion,
		FormerCredential:  d.FormerCredential, SecretsRevision: d.SecretsRevision, StoringUntil: timeOf(d.StoringUntil),
		RevealedAt: timeOf(d.RevealedAt), Rollout: d.Rollout, Generation: d.Generation,
		ObservedGeneration: d.ObservedGeneration, Attempts: int(d.Attempts),
		Lease: agent.Lease{Holder: d.LeaseHolder, Until: timeOf(d.LeaseUntil)}, WorkDueAt: timeOf(d.WorkDueAt),
		Deadline: timeOf(d.Deadline), CreatedAt: d.CreatedAt, UpdatedAt: d.UpdatedAt, CreatedBy: d.CreatedBy,
		ChangeID: d.ChangeID,
	}
	if d.Config != "" {
		a.Config = json.RawMessage(d.Config)
	}
	for _, e := range d.Env {
		a.Env = append(a.Env, agent.EnvVar{Key: e.Key, Value: e.Value, SecretVersion: e.SecretVersion, Bytes: e.Bytes,
			SetAt: timeOf(e.SetAt)})
	}
	for _, l := range d.Live {
		a.Live = append(a.Live, agent.LiveVersion(l))
	}
	for _, o := range d.Operations {
		a.Operations = append(a.Operations, o.operation(id, d.OrganizationID))
	}
	for _, s := range d.Stages {
		a.Stages = append(a.Stages, agent.Stage{
			Name: s.Name, Status: s.Status, Attempt: int(s.Attempt), StartedAt: timeOf(s.StartedAt),
			FinishedAt: timeOf(s.FinishedAt), ErrorCode: s.ErrorCode, Message: s.Message,
		})
	}
	a.Failure, a.RevertReason = d.Failure.failure(), d.Undone.failure()
	return a
}

// failureOf makes the document of a failure; nil stays nil.
func failureOf(f *agent.Failure) *failureDocument {
	if f == nil {
		return nil
	}
	d := failureDocument(*f)
	return &d
}

// failure is the inverse of failureOf.
func (d *failureDocument) failure() *agent.Failure {
	if d == nil {
		return nil
	}
	f := agent.Failure(*d)
	return &f
}

// fields lists the fields of a document struct for an update, which leaves all others as they are.
func fields(document any) []gcp.Update {
	v := reflect.ValueOf(document)
	updates := make([]gcp.Update, v.NumField())
	for i := range updates {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("firestore"), ",")
		updates[i] = gcp.Update{FieldPath: gcp.FieldPath{name}, Value: v.Field(i).Interface()}
	}
	return updates
}

// versionBase makes a version short; it is part of an entity tag.
const versionBase = 36

// versionAt is the version of a document that was last written at t.
func versionAt(t time.Time) string { return strconv.FormatInt(t.UnixNano(), versionBase) }

var errNoVersion = errors.New("not a version of a document")

// writtenAt is the time of a version, for the precondition that the document still has it.
func writtenAt(version string) (time.Time, error) {
	nanos, err := strconv.ParseInt(version, versionBase, 64)
	if err != nil || nanos <= 0 {
		return time.Time{}, errNoVersion
	}
	return time.Unix(0, nanos).UTC(), nil
}

// precise is t as it will be read again.
func precise(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

// nullable is nil for the zero time.
func nullable(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = precise(t)
	return &t
}

func timeOf(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}
