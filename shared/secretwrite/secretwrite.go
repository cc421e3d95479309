// Package secretwrite writes secret values from API requests to the secret store, at most once each, even across
// crashes. It records an operation with the highest known version, then adds the value, then records its version. It
// does not roll the version out (package provisioning does) and does not handle HTTP.
//
// Between the two records, and until secret.StoringTime has passed after an unknown outcome, no other request may add a
// value under the same key. So if a request dies in between, its value was stored exactly if the store has a version
// with a higher number than the recorded one, created after the operation. Example: version 2 is the highest, the
// request adds its value, and the process dies. If the store has version 3, that is the value.
//
// The store's lists may be hours old. They may only add to what the record knows: no version is adopted, and none is
// taken for the highest, because a list lacks another one.
package secretwrite

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/credential"
	"agents.example/controlplane/shared/egress"
	"agents.example/controlplane/shared/secret"
)

// Service writes the values of requests to the secret store.
type Service struct {
	Agents  agent.Store
	Secrets credential.SecretWriter
	// Budget limits the calls of Secrets; nil means no limit.
	Budget Budget
	// Now is the clock.
	Now func() time.Time
}

// maxTries bounds how often a request starts over because other requests changed the same agent's secrets.
const maxTries = 8

// Changes are what a client wants of an agent's secrets.
type Changes struct {
	// Values has the values by name; a nil one deletes.
	Values map[string]*string
	// Targets has those of brokered secrets, by name.
	Targets map[string]egress.Target
	// IfMatch is the entity tag of the agent's version to change; empty for any.
	IfMatch string
}

// Put sets and deletes an agent's secrets. It returns the agent and the operations, also if only some of the values
// could be stored. Errors: NotFound, PreconditionFailed, Conflict, Invalid, RateLimited, Unavailable, and the secret
// store's if no value could be stored.
func (d Service) Put(ctx context.Context, agentID string, changes Changes) (agent.Agent, []secret.Operation, error) {
	var requested []secret.Operation
	values := map[string][]byte{}
	for name, value := range changes.Values {
		o := secret.Operation{Key: name, Action: secret.Delete}
		if target, brokered := changes.Targets[name]; brokered && value != nil {
			o.Key, o.Target = secret.BrokeredKey(name), target.Encode()
		}
		if value != nil {
			values[o.Key] = []byte(*value)
			o.Action, o.Bytes = secret.Set, int64(len(*value))
		}
		requested = append(requested, o)
	}
	return d.run(ctx, agentID, changes.IfMatch, requested, values)
}

// Rotate replaces an agent's credentials. It does nothing while a rotation is in progress. Errors: those of Put.
func (d Service) Rotate(ctx context.Context, agentID, ifMatch string) (agent.Agent, error) {
	rotation := []secret.Operation{{Key: secret.CredentialsKey, Action: secret.Rotate}}
	a, _, err := d.run(ctx, agentID, ifMatch, rotation, nil)
	return a, err
}

// Create creates an agent with secrets. It writes the record first. The agent starts only once its values are stored;
// the operation of a value that could not be stored says why. Errors: those of agent.Store; those of Put for a repeat
// that did not try to store the values that the first request left.
func (d Service) Create(ctx context.Context, a agent.Agent, values map[string]string) (agent.Agent, error) {
	if len(values) == 0 {
		return d.Agents.Create(ctx, a)
	}
	call.From(ctx).Attempt.Amend()
	call.From(ctx).Entry.Begin()
	var requested []secret.Operation
	bytes := map[string][]byte{}
	for key, value := range values {
		requested = append(requested, secret.Operation{
			Key: key, Action: secret.Set, Bytes: int64(len(value)), RequiredToStart: true,
		})
		bytes[key] = []byte(value)
	}
	begun, err := a.BeginOperations(a.SecretsRevision, assignIDs(ctx, a.ID, requested), a.CreatedAt)
	if err != nil {
		return a, err
	}
	created, err := d.Agents.Create(ctx, a)
	if err != nil {
		return created, err
	}
	var stored agent.Agent
	if call.From(ctx).Attempt.Replayed() {
		stored, _, err = d.replay(ctx, created, requested[0].Batch, bytes)
		if err != nil && stored.ID == "" {
			return created, err // the values may not be stored, and only a later repeat stores them
		}
	} else {
		stored, _, err = d.storeAndRecord(ctx, created, begun, bytes)
	}
	if err != nil && stored.ID == "" {
		return created, nil // the agent exists, and its operations say what is missing
	}
	return stored, nil
}

// run records operations, stores their values, and records the outcomes.
func (d Service) run(
	ctx context.Context, agentID, ifMatch string, requested []secret.Operation, values map[string][]byte,
) (agent.Agent, []secret.Operation, error) {
	call.From(ctx).Attempt.Amend()
	if slices.ContainsFunc(requested, func(o secret.Operation) bool { return o.Action != secret.Delete }) {
		call.From(ctx).Entry.Begin() // the values are stored after the first commit
	}
	requested = assignIDs(ctx, agentID, requested)
	a, begun, err := d.recordOperations(ctx, agentID, ifMatch, requested)
	if err != nil {
		return a, nil, err
	}
	if call.From(ctx).Attempt.Replayed() {
		return d.replay(ctx, a, requested[0].Batch, values)
	}
	if !slices.ContainsFunc(begun, func(o secret.Operation) bool { return o.Stage == secret.Store }) {
		return a, begun, nil
	}
	return d.storeAndRecord(ctx, a, begun, values)
}

// assignIDs sorts operations by key and gives them ids.
func assignIDs(ctx context.Context, agentID string, requested []secret.Operation) []secret.Operation {
	batch := uuid.NewString()
	if attempt := call.From(ctx).Attempt; attempt != nil {
		batch = attempt.ID
	}
	slices.SortFunc(requested, func(x, y secret.Operation) int { return cmp.Compare(x.Key, y.Key) })
	for i := range requested {
		requested[i].ID, requested[i].AgentID, requested[i].Batch = uuid.NewString(), agentID, batch
	}
	return requested
}

// recordOperations records operations together with the latest versions of their keys. Requests with values for the
// same key wait for each other. Errors: those of agent.Store, Agent.BeginOperations and Budget; Conflict if other
// requests keep changing the agent's secrets.
func (d Service) recordOperations(
	ctx context.Context, agentID, ifMatch string, requested []secret.Operation,
) (agent.Agent, []secret.Operation, error) {
	a, err := d.Agents.Get(ctx, agentID)
	if err != nil {
		return a, nil, err
	}
	latest := lookups{}
	for i := range requested {
		if o := &requested[i]; o.Action == secret.Delete {
			o.Key = a.SecretKey(o.Key) // the client names a brokered secret as it does others
		}
	}
	for range maxTries {
		revision := a.SecretsRevision
		if err := d.lookUp(ctx, a, requested, latest); err != nil {
			return a, nil, err
		}
		now := d.now()
		var begun []secret.Operation
		a, err = d.Agents.Change(ctx, agentID, func(a *agent.Agent) (err error) {
			if err := a.Match(ifMatch); err != nil {
				return err
			}
			begun, err = a.BeginOperations(revision, requested, now)
			if err == nil && !latest.cover(begun) {
				err = agent.ErrSecretsChanged
			}
			return err
		})
		switch {
		case errors.Is(err, agent.ErrStoring), errors.Is(err, agent.ErrSecretsChanged):
			if a, err = d.awaitOtherWriters(ctx, agentID, requested); err != nil {
				return a, nil, err
			}
		default:
			return a, begun, err
		}
	}
	return a, nil, a.OperationInProgress()
}

// awaitOtherWriters waits until no other request can be adding values under the same keys, and returns the present
// agent.
func (d Service) awaitOtherWriters(
	ctx context.Context, agentID string, requested []secret.Operation,
) (agent.Agent, error) {
	a, err := d.reload(ctx, agentID)
	now := d.now()
	until := storingUntil(a, requested, now)
	if err != nil || until.IsZero() {
		return a, err
	}
	wait, cancel := context.WithTimeout(ctx, until.Sub(now))
	defer cancel()
	return d.await(wait, agentID, func(a agent.Agent) bool {
		return storingUntil(a, requested, d.now()).IsZero()
	})
}

// reload returns the present agent. Agents.Get may return the one that was read when the request arrived.
func (d Service) reload(ctx context.Context, agentID string) (agent.Agent, error) {
	return d.await(ctx, agentID, func(agent.Agent) bool { return true })
}

func (d Service) await(ctx context.Context, agentID string, until func(agent.Agent) bool) (agent.Agent, error) {
	a, err := d.Agents.Await(ctx, agentID, until)
	if err != nil {
		return agent.Agent{}, err
	}
	return *a, nil
}

// storingUntil is until when another request may be adding a value under one of the keys; zero if none may.
func storingUntil(a agent.Agent, requested []secret.Operation, now time.Time) (until time.Time) {
	for _, o := range a.Operations {
		sameKey := slices.ContainsFunc(requested, func(n secret.Operation) bool { return n.Key == o.Key })
		if sameKey && o.Storing(now) && o.StoringUntil.After(until) {
			until = o.StoringUntil
		}
	}
	return until
}

// now is the time in microseconds, the precision of the record.
func (d Service) now() time.Time { return d.Now().UTC().Truncate(time.Microsecond) }
