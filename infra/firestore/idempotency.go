package firestore

import (
	"context"
	"fmt"
	"time"

	gcp "cloud.google.com/go/firestore"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/apikey"
	"agents.example/controlplane/shared/idempotency"
	"agents.example/controlplane/shared/rehearsal"
)

// answer is the answer to a request that had an idempotency key. It is committed with the request's change. So it
// exists exactly when the change was carried out, and of several requests with one key only one succeeds. Firestore
// deletes the document some time after expiresAt; until then a later request may overwrite it.
type answer struct {
	organizationID string
	fingerprint    string
	changeID       string
	createdAt      time.Time
	expiresAt      time.Time
	// claimedUntil is when the claim of a request that is in progress ends; zero for an answer.
	claimedUntil time.Time
	// record is what the change left, or nil where the client's answer shows nothing of it. It never holds a secret.
	record map[string]any
}

func answerFields(a *answer) fields {
	return fields{
		{"organization_id", text(&a.organizationID)},
		{"fingerprint", text(&a.fingerprint)},
		{"change_id", text(&a.changeID)},
		{"created_at", timestamp(&a.createdAt)},
		{"expires_at", timestamp(&a.expiresAt)},
		{"claimed_until", timestamp(&a.claimedUntil)},
		{"answer", rawMap(&a.record)},
	}
}

// agentAnswer is the record of an answer that shows an agent.
type agentAnswer struct {
	id string
	// version is empty when the same commit wrote the agent: all documents of a commit have one version.
	version string
	agent   map[string]any
}

func agentAnswerFields(a *agentAnswer) fields {
	return fields{
		{"id", text(&a.id)},
		{"version", text(&a.version)},
		{"agent", rawMap(&a.agent)},
	}
}

// answerState is what a change found under its idempotency key. It is zero for a change without a key.
type answerState struct {
	snap   *gcp.DocumentSnapshot
	record map[string]any
	// valid is true for an answer to the same request that has not expired.
	valid bool
	// own is true when this change wrote the answer, although its commit returned an error.
	own bool
}

// readAnswer reads the answer to the attempt's request. It is not valid when there is none, or when it has expired.
// Errors: Invalid when the key was used for another request.
func readAnswer(snap *gcp.DocumentSnapshot, now time.Time, attempt *idempotency.Attempt) (a answer, valid bool,
	err error,
) {
	if !snap.Exists() {
		return a, false, nil
	}
	err = decode(snap, answerFields(&a))
	switch {
	case err != nil:
		return a, false, err
	case !now.Before(a.expiresAt):
		return a, false, nil
	case a.fingerprint != attempt.Fingerprint:
		return a, false, idempotency.Reused()
	}
	return a, true, nil
}

// answerRef names the document of the answer to an attempt's request.
func (c *Client) answerRef(a *idempotency.Attempt) *gcp.DocumentRef {
	ref, _ := c.ref(idempotencyCollection, a.ID) // a hash is a valid id
	return ref
}

// readAnswer reads the answer under the change's key. Errors: Invalid when the key was used for another request.
func (ch *change) readAnswer(snap *gcp.DocumentSnapshot) (answerState, error) {
	s := answerState{snap: snap}
	a, valid, err := readAnswer(snap, ch.at, ch.call.Attempt)
	if err != nil || !valid {
		return s, err
	}
	s.record, s.valid, s.own = a.record, true, a.changeID == ch.id
	return s, nil
}

// replays reports whether the change is answered with the stored answer. It is not when there is none, or when the
// request must be carried out again.
func (ch *change) replays(s answerState) bool {
	attempt := ch.call.Attempt
	if !s.valid || attempt.Amending() && !s.own {
		return false
	}
	if !s.own {
		attempt.Replay()
	}
	return !attempt.DiscardsAnswer()
}

// replayAgent returns the agent of the stored answer, if that answers the change.
func (ch *change) replayAgent(s answerState) (a agent.Agent, ok bool, err error) {
	if !ch.replays(s) {
		return agent.Agent{}, false, nil
	}
	a, err = answeredAgent(s.snap, s.record)
	if err == nil {
		ch.call.Entry.SetTarget(agentTarget(a))
	}
	return a, true, err
}

// answeredAgent decodes the agent of an answer.
func answeredAgent(snap *gcp.DocumentSnapshot, record map[string]any) (agent.Agent, error) {
	var stored agentAnswer
	if _, err := agentAnswerFields(&stored).decode(inMap(record)); err != nil {
		return agent.Agent{}, fmt.Errorf("decode the answer to a repeated request: %w", err)
	}
	a, _, err := decodeAgent(stored.id, inMap(stored.agent))
	if a.Version = stored.version; a.Version == "" {
		a.Version = versionOf(snap.UpdateTime)
	}
	return a, err
}

// keptAgent returns the agent of the answer to the attempt's request; ok is false if that shows another agent or none.
func (s *Agents) keptAgent(ctx context.Context, attempt *idempotency.Attempt, id string) (a agent.Agent, ok bool,
	err error,
) {
	snap, err := s.client.readOne(ctx, s.client.answerRef(attempt))
	if err != nil {
		return a, false, err
	}
	kept, valid, err := readAnswer(snap, s.client.now(), attempt)
	if shown, _ := kept.record["id"].(string); err != nil || !valid || shown != id {
		return a, false, err
	}
	a, err = answeredAgent(snap, kept.record)
	return a, true, err
}

// replayKey returns the API key of the stored answer, if that answers the change. It does not have the key's hash.
func (ch *change) replayKey(s answerState) (k apikey.Key, ok bool, err error) {
	if !ch.replays(s) {
		return apikey.Key{}, false, nil
	}
	if k, err = decodeKey("", inMap(s.record)); err == nil {
		ch.call.Entry.SetTarget(keyTarget(k))
	}
	return k, true, err
}

// lacksAnswer is false for a change without an idempotency key, and when its answer is stored already.
func (ch *change) lacksAnswer(s answerState) bool {
	return ch.answer != nil && (!s.valid || ch.call.Attempt.Amending())
}

// saveAnswer stores the record as the change's answer, if that lacks one.
func (ch *change) saveAnswer(b *batch, s answerState, record map[string]any) {
	if !ch.lacksAnswer(s) {
		return
	}
	attempt := ch.call.Attempt
	if attempt.DiscardsAnswer() {
		record = nil
	}
	doc := answerFields(&answer{
		organizationID: ch.call.Caller.OrganizationID, fingerprint: attempt.Fingerprint, changeID: ch.id,
		createdAt: ch.at, expiresAt: ch.at.Add(idempotency.Retention), record: record,
	}).encode()
	if s.snap.Exists() {
		b.Update(ch.answer, updates(doc), gcp.LastUpdateTime(s.snap.UpdateTime))
	} else {
		b.Create(ch.answer, doc)
	}
}

// saveAgentAnswer stores an agent as the change's answer, if that lacks one. version is empty when the same commit
// writes the agent.
func (ch *change) saveAgentAnswer(b *batch, s answerState, version string, a agent.Agent) {
	if !ch.lacksAnswer(s) {
		return
	}
	record := agentAnswer{a.ID, version, encodeAgent(a.WithoutValues(), ch.id)}
	ch.saveAnswer(b, s, agentAnswerFields(&record).encode())
}

// commitAgentAnswer stores the answer to a request that found its agent already as it should be.
func (ch *change) commitAgentAnswer(ctx context.Context, s changeState, a agent.Agent) error {
	if ch.call.Rehearsal != nil {
		same := rehearsal.State{Agent: a, Organization: s.org.Organization}
		ch.call.Rehearsal.Record(same, same)
		return nil
	}
	if !ch.lacksAnswer(s.answer) {
		return nil
	}
	b := ch.client.batch()
	ch.saveAgentAnswer(b, s.answer, a.Version, a)
	_, err := ch.client.commit(ctx, b)
	return err
}
