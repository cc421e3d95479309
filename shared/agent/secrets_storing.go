package agent

import (
	"slices"
	"time"

	"agents.example/controlplane/shared/secret"
)

// ResumeStoring begins the store stage of operations again, for a repeat of their request with the same values. It
// returns those that are still at that stage. revision is the SecretsRevision at which the caller read the secret
// store, and found no version of them. Errors: ErrStoring, ErrSecretsChanged, Conflict while the agent is being
// deleted.
func (a *Agent) ResumeStoring(revision int64, ids []string, now time.Time) ([]secret.Operation, error) {
	if a.Status == Deleting {
		return nil, a.conflict("secrets")
	}
	left := func(id string) *secret.Operation {
		if o := a.Operation(id); o != nil && o.Stage == secret.Store {
			return o
		}
		return nil
	}
	for _, id := range ids {
		if o := left(id); o != nil && o.Storing(now) {
			return nil, ErrStoring
		}
	}
	if revision != a.SecretsRevision {
		return nil, ErrSecretsChanged
	}
	var resumed []secret.Operation
	for _, id := range ids {
		if o := left(id); o != nil && o.Apply(secret.EventResumed, "", now) {
			resumed = append(resumed, *o)
		}
	}
	a.SecretsRevision++
	return resumed, nil
}

// RecordStored records the outcomes of operations at the secret store. It skips operations that have been superseded.
// An operation whose outcome is unknown stays at the store stage, and blocks its key until StoringUntil. Errors:
// Conflict while the agent is being deleted.
func (a *Agent) RecordStored(outcomes []Outcome, now time.Time) error {
	if a.Status == Deleting {
		return a.conflict("secrets")
	}
	for _, result := range outcomes {
		i := slices.IndexFunc(a.Operations, func(o secret.Operation) bool { return o.ID == result.OperationID })
		if i < 0 {
			continue
		}
		o := &a.Operations[i]
		if result.Version == 0 {
			if o.Stage == secret.Store && o.Apply(result.event(), result.Code, now) {
				a.SecretsRevision++
			}
			continue
		}
		if !o.Apply(secret.EventStored, "", now) {
			continue
		}
		o.Version = result.Version
		a.recordVersions(o.Key, o.Version, 0)
		a.SecretsRevision++
		for j := range a.Operations[:i] {
			if a.Operations[j].Key == o.Key {
				a.Operations[j].Apply(secret.EventSuperseded, "", now)
			}
		}
	}
	a.scheduleWork(now)
	return nil
}

// Outcome is the result of an operation at the secret store.
type Outcome struct {
	OperationID string
	// Version is the version that was added; 0 if none was, or if that is unknown.
	Version int64
	// Refused is true if certainly no version was added, and none will be.
	Refused bool
	// Code is why there is no Version.
	Code string
}

// event is what an outcome without a version means for its operation.
func (o Outcome) event() secret.Event {
	if o.Refused {
		return secret.EventGaveUp
	}
	return secret.EventUnconfirmed
}
