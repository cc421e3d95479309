package agentctl

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"time"

	"agents.example/controlplane/functions/agentctl/manifest"
	"agents.example/controlplane/shared/client"
)

// What apply does with an agent.
const (
	actionCreate = "create"
	actionChange = "change"
	actionKeep   = "keep"
	actionDelete = "delete"
)

// How far it is with that. Before, the state is empty.
const (
	stateDone   = "done"
	stateFailed = "failed"
)

// step is what apply does with one agent.
type step struct {
	Key     string                 `json:"agent"`
	Name    string                 `json:"name"`
	ID      string                 `json:"id,omitempty"`
	Action  string                 `json:"action"`
	State   string                 `json:"state,omitempty"`
	Changes []fieldChange          `json:"changes"`
	Would   *client.RehearsalWould `json:"would,omitempty"`
	Error   string                 `json:"error,omitempty"`

	spec    *manifest.Agent
	secrets []envEntry
	status  client.AgentStatus
	// etag is the version of the agent that body changes.
	etag string
	body client.UpdateAgentRequest
	// creation creates the agent that is not there yet.
	creation client.CreateAgentRequest
}

// planStep finds out what has to change about an agent.
func (r *application) planStep(ctx context.Context, s *step) error {
	if s.Action == actionDelete {
		var rehearsal client.Rehearsal
		_, err := r.api.DeleteAgent(ctx, s.ID, client.DryRun(&rehearsal))
		s.Would, s.status = &rehearsal.Would, rehearsal.Agent.Status
		return err
	}
	present, err := r.find(s.spec.Key)
	if err == nil && present == nil {
		present, err = r.adopted(s.spec)
	}
	if err != nil {
		return err
	}
	if present == nil {
		return r.planCreation(ctx, s)
	}
	s.ID = present.ID
	if s.secrets, err = r.secretValues(ctx, s.spec, present); err != nil {
		return err
	}
	return r.planChange(ctx, s)
}

// planCreation rehearses the creation of an agent.
func (r *application) planCreation(ctx context.Context, s *step) (err error) {
	if s.secrets, err = r.secretValues(ctx, s.spec, &client.Agent{}); err != nil {
		return err
	}
	if s.creation, err = r.creation(ctx, s.spec); err != nil {
		return err
	}
	var rehearsal client.Rehearsal
	if _, err = r.api.CreateAgent(ctx, s.creation, client.DryRun(&rehearsal)); err != nil {
		return err
	}
	s.Would, s.Changes = &rehearsal.Would, newFields(s.spec, &rehearsal.Agent)
	s.Changes = append(s.Changes, secretChanges(s.spec, s.secrets, &client.Agent{})...)
	return nil
}

// mostReads bounds how often an agent is read again that others change, such as the worker that starts it.
const mostReads = 10

// planChange compares an agent with the file. It reads an agent again that changes in between.
func (r *application) planChange(ctx context.Context, s *step) error {
	for reads := 1; ; reads++ {
		err := r.compare(ctx, s)
		if !isOutdated(err) || reads == mostReads {
			return err
		}
		if err := pause(ctx, time.Duration(reads)*readAgainAfter); err != nil {
			return err
		}
	}
}

// readAgainAfter is the pause before an agent is read the second time. It grows with each one.
const readAgainAfter = 50 * time.Millisecond

// compare compares an agent with the file. The rehearsal says whether it differs, also in what the API does not show:
// the values of variables, and the contents of files.
func (r *application) compare(ctx context.Context, s *step) error {
	var header http.Header
	a, err := r.api.GetAgent(ctx, s.ID, client.GetAgentParams{}, client.ResponseHeader(&header))
	if err != nil {
		return err
	}
	s.etag, s.status, s.Action, s.Changes = header.Get("ETag"), a.Status, actionKeep, []fieldChange{}
	if s.spec.Region != nil && *s.spec.Region != a.Region {
		return invalidf("an agent stays in its region, which is %s. Under another key, the file makes another agent",
			a.Region)
	}
	s.body = changeOf(r.set.Name, s.spec, a)
	after, would, err := r.rehearse(ctx, s, s.body)
	if err != nil {
		return err
	}
	if !after.UpdatedAt.Equal(a.UpdatedAt) {
		s.Action, s.Would = actionChange, would
		s.Changes = shownChanges(s.spec, a, after)
		hidden, err := r.hiddenChanges(ctx, s, a)
		if err != nil {
			return err
		}
		s.Changes = append(s.Changes, hidden...)
	}
	if len(s.secrets) > 0 {
		s.Action = actionChange
		s.Changes = append(s.Changes, secretChanges(s.spec, s.secrets, a)...)
		return r.rehearseSecrets(ctx, s, !reflect.DeepEqual(a.Egress, after.Egress))
	}
	return nil
}

// rehearseSecrets finds out whether the API would refuse the secrets of a step, and whether they restart the agent.
// Those that are injected cannot be rehearsed before the egress is as the file has it.
func (r *application) rehearseSecrets(ctx context.Context, s *step, egressDiffers bool) error {
	secrets := s.secrets
	if egressDiffers {
		secrets = slices.DeleteFunc(slices.Clone(secrets), isInjected)
	}
	for done := 0; done < len(secrets); {
		batch := nextBatch(secrets[done:])
		var rehearsal client.Rehearsal
		if _, err := r.api.PutSecrets(ctx, s.ID, putRequest(batch), client.DryRun(&rehearsal)); err != nil {
			return err
		}
		if s.Would == nil || rehearsal.Would.Restarts && !s.Would.Restarts {
			s.Would = &rehearsal.Would
		}
		done += len(batch)
	}
	return nil
}

// rehearse returns the agent as a change would leave it.
func (r *application) rehearse(
	ctx context.Context, s *step, body client.UpdateAgentRequest,
) (*client.Agent, *client.RehearsalWould, error) {
	var rehearsal client.Rehearsal
	_, err := r.api.UpdateAgent(ctx, s.ID, body, client.DryRun(&rehearsal), client.IfMatch(s.etag))
	return &rehearsal.Agent, &rehearsal.Would, err
}

// mostHidden bounds the rehearsals that find out which of the values differ that the API does not show.
const mostHidden = 20

// hiddenChanges rehearses each value alone that the API does not show.
func (r *application) hiddenChanges(ctx context.Context, s *step, a *client.Agent) ([]fieldChange, error) {
	alone := hiddenValues(s.spec, a)
	var found []fieldChange
	for i, name := range slices.Sorted(maps.Keys(alone)) {
		if i == mostHidden {
			return append(found, fieldChange{Field: "...", New: fmt.Sprintf("%d more values were not compared",
				len(alone)-i)}), nil
		}
		after, _, err := r.rehearse(ctx, s, alone[name])
		if err != nil {
			return nil, err
		}
		if !after.UpdatedAt.Equal(a.UpdatedAt) {
			found = append(found, fieldChange{Field: name, Old: "(another value)", New: newValue(s.spec, name)})
		}
	}
	return found, nil
}

// carryOut creates, changes or deletes an agent.
func (r *application) carryOut(ctx context.Context, s *step) error {
	switch s.Action {
	case actionKeep:
		return nil
	case actionDelete:
		return r.pruneStep(ctx, s)
	case actionCreate:
		a, err := r.create(ctx, s)
		if err != nil {
			return err
		}
		s.ID, s.status = a.ID, a.Status
	}
	again := s.Action == actionCreate || len(s.secrets) > 0 // what was planned is of an older version
	if slices.ContainsFunc(s.secrets, isInjected) && s.body.Egress != nil {
		// The agent must be able to reach the hosts of its secrets. The rest of the change follows the secrets.
		first := client.UpdateAgentRequest{Egress: s.body.Egress}
		if _, err := r.api.UpdateAgent(ctx, s.ID, first); err != nil {
			return err
		}
	}
	if len(s.secrets) > 0 {
		if _, err := r.putAll(ctx, r.api, s.ID, s.secrets); err != nil {
			return err
		}
	}
	planned := *s
	planned.secrets = nil
	if err := r.update(ctx, &planned, again); err != nil {
		return err
	}
	s.status, s.State = planned.status, stateDone
	return nil
}

// update sends a change of an agent. It never overwrites a change of others: it reads the agent again.
func (r *application) update(ctx context.Context, s *step, again bool) error {
	for reads := 0; ; reads++ {
		if again {
			before := s.Changes
			if err := r.planChange(ctx, s); err != nil {
				return err
			}
			if reads > 0 && s.Action != actionKeep && !reflect.DeepEqual(before, s.Changes) {
				r.note("%s was changed by others since it was read, and was read again.", s.Key)
			}
		}
		if s.Action == actionKeep {
			return nil
		}
		a, err := r.api.UpdateAgent(ctx, s.ID, s.body, client.IfMatch(s.etag))
		if err == nil {
			s.status = a.Status
			return nil
		}
		if !isOutdated(err) || reads == mostReads {
			return err
		}
		again = true
	}
}

// isOutdated reports whether an agent was changed since it was read.
func isOutdated(err error) bool {
	e := client.AsError(err)
	return e != nil && e.Status == http.StatusPreconditionFailed
}

// mostCreations bounds how many agents of one key were created and deleted in the last 24 hours.
const mostCreations = 100

// create creates an agent. Concurrent runs, and one after a run that died, create the same agent: the idempotency key
// follows from the manifest and the agent's key. The API remembers it for 24 hours. If the agent was deleted since, the
// next key of the sequence creates another one.
func (r *application) create(ctx context.Context, s *step) (*client.Agent, error) {
	for n := range mostCreations {
		name := fmt.Sprintf("%s/%s/%d", r.set.Name, s.Key, n)
		key := fmt.Sprintf("agentctl-apply-%x", sha256.Sum256([]byte(name)))
		a, err := r.api.CreateAgent(ctx, s.creation, client.IdempotencyKey(key))
		if e := client.AsError(err); e != nil && e.Code == "idempotency_key_reused" { // by another version of the file
			if a, err = r.created(ctx, s.Key); err == nil && a == nil {
				continue
			}
		}
		if err != nil {
			return nil, err
		}
		a, err = r.api.GetAgent(ctx, a.ID, client.GetAgentParams{}) // the answer may be that of an earlier run
		if client.IsNotFound(err) || err == nil && a.Status == client.AgentStatusDeleting {
			continue
		}
		return a, err
	}
	return nil, fmt.Errorf("%s was created and deleted %d times in the last 24 hours", s.Key, mostCreations)
}

// created looks for an agent that another run has created in between.
func (r *application) created(ctx context.Context, key string) (*client.Agent, error) {
	now := &application{tool: r.tool, api: r.api, set: r.set}
	if err := now.list(ctx); err != nil {
		return nil, err
	}
	return now.find(key)
}

// pruneStep deletes an agent, unless it is not of the manifest any more.
func (r *application) pruneStep(ctx context.Context, s *step) error {
	for reads := 0; ; reads++ {
		var header http.Header
		a, err := r.api.GetAgent(ctx, s.ID, client.GetAgentParams{}, client.ResponseHeader(&header))
		if client.IsNotFound(err) {
			s.State = stateDone
			return nil
		}
		if err != nil {
			return err
		}
		if name, key := markOf(a); name != r.set.Name || key != s.Key {
			return stateError{fmt.Errorf("%s is not of the manifest any more, and was not deleted", a.Name)}
		}
		a, err = r.api.DeleteAgent(ctx, s.ID, client.IfMatch(header.Get("ETag")))
		if err == nil {
			s.State, s.status = stateDone, a.Status
			return nil
		}
		if !isOutdated(err) || reads == mostReads {
			return err
		}
	}
}
