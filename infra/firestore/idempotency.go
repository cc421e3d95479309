package firestore

import (
	"context"
	"time"

	gcp "cloud.google.com/go/firestore"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/apikey"
	"agents.example/controlplane/shared/idempotency"
)

// keptDocument is the answer to a change that had an idempotency key. It is committed with the change, so it exists
// exactly when the change was carried out, and a race for a key has one winner. Firestore deletes it some time after
// expires_at; until then it is overwritten.
type keptDocument struct {
	OrganizationID string    `firestore:"organization_id"`
	Fingerprint    string    `firestore:"fingerprint"`
	ChangeID       string    `firestore:"change_id"`
	CreatedAt      time.Time `firestore:"created_at"`
	ExpiresAt      time.Time `firestore:"expires_at"`
	// Answer is the record as the change left it, or null where the answer shows nothing of it. It never holds a
	// secret.
	Answer any `firestore:"answer"`
}

// keptAgent is an agent in an answer. Plain values of its environment are left out: no answer shows them, and they
// would outlive their removal from the agent.
type keptAgent struct {
	ID string `firestore:"id"`
	// Version is empty when the answer's own commit wrote the agent: all that a commit writes is of the same time, and
	// so of one version.
	Version string        `firestore:"version"`
	Agent   agentDocument `firestore:"agent"`
}

// keptAnswer is what a change saw under its key. The zero value is that of a change without one.
type keptAnswer struct {
	snap *gcp.DocumentSnapshot
	// live is true when there is an answer to the same request that has not expired.
	live bool
	// own is true when this very change wrote it, although the commit's answer said otherwise or was lost.
	own bool
}

// keptIn reads what stands under the key of the change. Errors: Invalid when the key is another request's.
func (ch change) keptIn(snap *gcp.DocumentSnapshot) (keptAnswer, error) {
	k := keptAnswer{snap: snap}
	if !snap.Exists() {
		return k, nil
	}
	d, err := decode[keptDocument](snap)
	switch {
	case err != nil:
		return k, err
	case !ch.at.Before(d.ExpiresAt):
		return k, nil
	case d.Fingerprint != ch.attempt.Fingerprint:
		return k, idempotency.Reused()
	}
	k.live, k.own = true, d.ChangeID == ch.id
	return k, nil
}

// answered reports whether the kept answer is the change's. It is not when there is none, or when the change is one to
// carry out anew.
func (ch change) answered(k keptAnswer) bool {
	if !k.live || ch.amends && !k.own {
		return false
	}
	if !k.own {
		ch.attempt.Replay()
	}
	return !ch.attempt.Anew()
}

// answeredAgent returns the agent of the kept answer, if that is the change's.
func (ch change) answeredAgent(k keptAnswer) (a agent.Agent, ok bool, err error) {
	if !ch.answered(k) {
		return agent.Agent{}, false, nil
	}
	kept, err := answerIn[keptAgent](k.snap)
	a = kept.Agent.agent(kept.ID)
	if a.Version = kept.Version; a.Version == "" {
		a.Version = versionAt(k.snap.UpdateTime)
	}
	return a, true, err
}

// answeredKey returns the API key of the kept answer, if that is the change's. Its hash is not known.
func (ch change) answeredKey(k keptAnswer) (key apikey.Key, ok bool, err error) {
	if !ch.answered(k) {
		return apikey.Key{}, false, nil
	}
	kept, err := answerIn[keyDocument](k.snap)
	return kept.key(""), true, err
}

func answerIn[D any](snap *gcp.DocumentSnapshot) (D, error) {
	d, err := decode[struct {
		Answer D `firestore:"answer"`
	}](snap)
	return d.Answer, err
}

// keepAnswer has a commit keep the change's answer. It does nothing, and is false, for a change without a key and where
// an answer is kept.
func (ch change) keepAnswer(b *batch, k keptAnswer, answer any) bool {
	if ch.attempt == nil || k.live && !ch.amends {
		return false
	}
	if ch.attempt.Anew() {
		answer = nil
	}
	d := keptDocument{
		OrganizationID: ch.caller.OrganizationID, Fingerprint: ch.attempt.Fingerprint, ChangeID: ch.id,
		CreatedAt: ch.at, ExpiresAt: ch.at.Add(idempotency.Retention), Answer: answer,
	}
	if k.snap.Exists() {
		b.Update(ch.kept, fields(d), gcp.LastUpdateTime(k.snap.UpdateTime))
	} else {
		b.Create(ch.kept, d)
	}
	return true
}

// keepAgent has a commit keep an agent as the change's answer; version is empty when the same commit writes the agent.
func (ch change) keepAgent(b *batch, k keptAnswer, id, version string, d agentDocument) bool {
	env := make([]envDocument, len(d.Env))
	for i, e := range d.Env {
		env[i] = envDocument{Key: e.Key, SecretVersion: e.SecretVersion, Bytes: e.Bytes, SetAt: e.SetAt}
	}
	d.Env = env
	return ch.keepAnswer(b, k, keptAgent{ID: id, Version: version, Agent: d})
}

// keepUnchanged commits that a request was answered with an agent that is as it was asked to be already.
func (ch change) keepUnchanged(ctx context.Context, k keptAnswer, a agent.Agent) error {
	b := ch.client.batch()
	if !ch.keepAgent(b, k, a.ID, a.Version, documentOf(a)) {
		return nil
	}
	_, err := ch.client.commit(ctx, b)
	return err
}

// retryUntilDecided repeats a change until it is decided. When it was carried out, or had been before, its key is used
// up.
func (ch change) retryUntilDecided(ctx context.Context, try func(ctx context.Context, again bool) error) error {
	err := ch.client.retryUntilDecided(ctx, try)
	if err == nil {
		ch.attempt.Use()
	}
	return err
}

// key makes the record with a hash.
func (d keyDocument) key(hash string) apikey.Key {
	return apikey.Key{
		ID: d.ID, OrganizationID: d.OrganizationID, Name: d.Name, Purpose: d.Purpose, Prefix: d.Prefix, Hash: hash,
		CreatedBy: d.CreatedBy, CreatedAt: d.CreatedAt, LastUsedAt: timeOf(d.LastUsedAt),
		ExpiresAt: timeOf(d.ExpiresAt),
	}
}
