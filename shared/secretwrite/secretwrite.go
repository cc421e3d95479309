// Package deposit knows how values that requests bring get into the secret store so that each is added at most once,
// whatever is lost on the way: an operation is recorded with what the store had, then the value is added, then its
// version is recorded. It does not know what becomes of a version afterwards (package provisioning), nor routes.
//
// Between the two records nobody else adds anything under the same key, so that of a request that died in between it
// can be told later whether its value is there: it is the one version that is newer than what was recorded.
package secretwrite

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/credential"
	"agents.example/controlplane/shared/idempotency"
	"agents.example/controlplane/shared/secret"
)

// Service puts values into the secret store on behalf of requests.
type Service struct {
	Agents  agent.Store
	Secrets credential.SecretWriter
	// Now is the clock.
	Now func() time.Time
	// Concurrency bounds the calls of the secret store in flight; 0 is 4. The quota is a project's.
	Concurrency int
}

const (
	// storingCalls bounds the calls of the secret store of one request. It leaves some of secret.StoringTime for the
	// record.
	storingCalls = 20 * time.Second
	storedAtOnce = 4
	// maxTries is how often a request begins again because others changed the same agent's secrets.
	maxTries = 8
)

// Put carries out what a client asks for of an agent's secrets: a nil value deletes. It returns the agent and the
// operations, also when only some of the values could be stored. Errors: NotFound, Conflict, Invalid, Unavailable; when
// no value could be stored, the store's.
func (d Service) Put(ctx context.Context, agentID string, changes map[string]*string) (agent.Agent, []secret.Operation,
	error,
) {
	var asked []secret.Operation
	values := map[string][]byte{}
	for key, value := range changes {
		o := secret.Operation{Key: key, Action: secret.Delete}
		if value != nil {
			values[key] = []byte(*value)
			o.Action, o.Bytes = secret.Set, int64(len(*value))
		}
		asked = append(asked, o)
	}
	return d.run(ctx, agentID, asked, values)
}

// Rotate has an agent's credentials replaced. It does nothing while they are being replaced. Errors: as those of Put.
func (d Service) Rotate(ctx context.Context, agentID string) (agent.Agent, error) {
	a, _, err := d.run(ctx, agentID, []secret.Operation{{Key: secret.CredentialsKey, Action: secret.Rotate}}, nil)
	return a, err
}

// Create creates an agent with secrets. The agent is there as soon as its operations are recorded; it waits with its
// start for their values, and says so where one could not be stored. Errors: those of agent.Store.
func (d Service) Create(ctx context.Context, a agent.Agent, values map[string]string) (agent.Agent, error) {
	if len(values) == 0 {
		return d.Agents.Create(ctx, a)
	}
	idempotency.Amend(ctx)
	var asked []secret.Operation
	brought := map[string][]byte{}
	for key, value := range values {
		asked = append(asked, secret.Operation{Key: key, Action: secret.Set, Bytes: int64(len(value))})
		brought[key] = []byte(value)
	}
	begun, err := a.BeginOperations(a.SecretsRevision, assignIDs(ctx, a.ID, asked), a.CreatedAt)
	if err != nil {
		return a, err
	}
	created, err := d.Agents.Create(ctx, a)
	if err != nil || created.ID != a.ID { // or it is the one that the first of repeated requests created
		return created, err
	}
	stored, _, err := d.storeAndRecord(ctx, created, begun, brought)
	if err != nil && stored.ID == "" {
		return created, nil // the agent is there, and its operations tell what is missing
	}
	return stored, nil
}

// run records operations, stores what they need, and records what became of that.
func (d Service) run(
	ctx context.Context, agentID string, asked []secret.Operation, values map[string][]byte,
) (agent.Agent, []secret.Operation, error) {
	idempotency.Amend(ctx)
	asked = assignIDs(ctx, agentID, asked)
	a, begun, err := d.recordOperations(ctx, agentID, asked)
	if err != nil {
		return a, nil, err
	}
	if idempotency.From(ctx).Replayed() {
		return d.replay(a, asked[0].Batch)
	}
	if !slices.ContainsFunc(begun, func(o secret.Operation) bool { return o.Stage == secret.Store }) {
		return a, begun, nil
	}
	return d.storeAndRecord(ctx, a, begun, values)
}

// assignIDs gives operations their ids, in the order of their keys.
func assignIDs(ctx context.Context, agentID string, asked []secret.Operation) []secret.Operation {
	batch := uuid.NewString()
	if attempt := idempotency.From(ctx); attempt != nil {
		batch = attempt.ID
	}
	slices.SortFunc(asked, func(x, y secret.Operation) int { return cmp.Compare(x.Key, y.Key) })
	for i := range asked {
		asked[i].ID, asked[i].AgentID, asked[i].Batch = uuid.NewString(), agentID, batch
	}
	return asked
}

// recordOperations records operations together with what the secret store has under their keys. Requests that bring
// values for the same key take turns. Errors: those of agent.Store and agent.Begin; Conflict when others keep changing
// the agent's secrets.
func (d Service) recordOperations(ctx context.Context, agentID string, asked []secret.Operation) (agent.Agent,
	[]secret.Operation, error,
) {
	a, err := d.Agents.Get(ctx, agentID)
	for range maxTries {
		if err != nil {
			return a, nil, err
		}
		revision := a.SecretsRevision
		if err := d.readLatestVersions(ctx, agentID, asked); err != nil {
			return a, nil, err
		}
		now := d.now()
		var begun []secret.Operation
		a, err = d.Agents.Change(ctx, agentID, func(a *agent.Agent) (err error) {
			begun, err = a.BeginOperations(revision, asked, now)
			return err
		})
		switch {
		case errors.Is(err, agent.ErrStoring), errors.Is(err, agent.ErrSecretsChanged):
			a, err = d.awaitOtherWriters(ctx, agentID, asked)
		default:
			return a, begun, err
		}
	}
	return a, nil, agent.ErrOperationInProgress()
}

// readLatestVersions notes the newest version of each secret.
func (d Service) readLatestVersions(ctx context.Context, agentID string, asked []secret.Operation) error {
	return d.forEach(len(asked), func(i int) (err error) {
		asked[i].LatestBefore, err = d.Secrets.LatestVersion(ctx, agentID, asked[i].Key)
		return err
	})
}

// awaitOtherWriters waits until no other request is adding values under the same keys, or can be any more, and returns
// the agent as it is then.
func (d Service) awaitOtherWriters(ctx context.Context, agentID string, asked []secret.Operation) (agent.Agent, error) {
	wait, cancel := context.WithTimeout(ctx, secret.StoringTime)
	defer cancel()
	return d.Agents.Await(wait, agentID, func(a agent.Agent) bool {
		now := d.now()
		return !slices.ContainsFunc(a.Operations, func(o secret.Operation) bool {
			return o.Storing(now) && slices.ContainsFunc(asked, func(n secret.Operation) bool { return n.Key == o.Key })
		})
	})
}

// now is the time to the microsecond, which is as precise as it is kept.
func (d Service) now() time.Time { return d.Now().UTC().Truncate(time.Microsecond) }
