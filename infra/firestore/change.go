package firestore

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	gcp "cloud.google.com/go/firestore"
	"github.com/google/uuid"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/event"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/idempotency"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/rehearsal"
)

// A client's change is one atomic commit. The commit of an agent's change writes up to eight kinds of documents:
//
//	the agent                      Agents.Create, Agents.saveChange
//	its organization's usage       organizationState.saveUsage, if the usage changed
//	the limit of secret requests   change.chargeSecrets, with a new agent that has secrets
//	its metrics                    createMetrics, with a new agent only
//	its secret operations          saveOperations, each one that the change began or moved
//	its events                     change.writeEvents, if clients can see the change
//	the audit entry of the call    change.writeEntry, and
//	the idempotent answer          change.saveAgentAnswer, if the request has an idempotency key
//
// Changes of API keys and accounts write their document in place of the agent's.
//
// A change's id is chosen before its first commit, and the audit entry names it. So when the answer to a commit is
// lost, reading the entry shows whether the commit was carried out, even if other changes followed.

// change is one change that a client makes in its organization.
type change struct {
	client       *Client
	id           string
	at           time.Time
	caller       identity.Caller
	request      audit.Request
	organization *gcp.DocumentRef
	entry        *gcp.DocumentRef
	trail        *audit.CallEntry
	// first reports whether the change is the first of the call that sends a commit, which creates the entry.
	first func() bool
	// attempt is nil when the change has no idempotency key. answer is the document of the idempotent answer.
	attempt *idempotency.Attempt
	answer  *gcp.DocumentRef
	// rehearsal records the change instead of a commit; nil for a real change.
	rehearsal *rehearsal.Rehearsal
	// amends is true for a change that replaces the answer which the call's first change stored.
	amends bool
	// hasEvents is true once a commit with events was sent.
	hasEvents *bool
}

// beginChange begins a change in the organization of the caller in ctx. Errors: Forbidden without an organization.
func (c *Client) beginChange(ctx context.Context) (change, error) {
	ch, err := c.beginUnaudited(ctx)
	if err != nil {
		return change{}, err
	}
	ch.trail = audit.CallEntryFrom(ctx)
	ch.first = sync.OnceValue(ch.trail.Claim)
	ch.entry, _ = c.ref(auditCollection, cmp.Or(ch.trail.ID(), ch.id))
	if a := idempotency.From(ctx); a != nil && ch.rehearsal == nil && (!a.Used() || a.Amending()) {
		ch.amends = a.Used()
		err = ch.useAttempt(a)
	}
	return ch, err
}

// useAttempt makes the change use an idempotency key.
func (ch *change) useAttempt(a *idempotency.Attempt) error {
	ref, ok := ch.client.ref(idempotencyCollection, a.ID)
	if !ok {
		return fmt.Errorf("begin a change with an idempotency key: %w", errBadID)
	}
	ch.attempt, ch.answer = a, ref
	return nil
}

// beginUnaudited begins a change that has no audit entry. Errors: Forbidden without an organization.
func (c *Client) beginUnaudited(ctx context.Context) (change, error) {
	caller := identity.From(ctx)
	org, ok := c.ref(organizationCollection, caller.OrganizationID)
	if !ok {
		return change{}, fault.New(fault.Forbidden, "organization_required",
			"The caller has no active organization. Select one first.")
	}
	return change{
		client: c, id: uuid.NewString(), at: c.now(), caller: caller, request: audit.From(ctx), organization: org,
		rehearsal: rehearsal.From(ctx), hasEvents: new(bool),
	}, nil
}

// changeState is what a change read before it decides.
type changeState struct {
	org organizationState
	// target is nil when none was asked for.
	target *gcp.DocumentSnapshot
	answer answerState
	// committed is true when an earlier commit of this change was carried out, although its answer was an error or was
	// lost.
	committed bool
}

// readState reads the organization, the target (which may be nil) and the idempotent answer in one call. When again is
// true, it also reads whether the change has been committed. Errors: Invalid when the idempotency key was used for
// another request, Conflict when a call that replays the answer finds none, so that it changes nothing.
func (ch change) readState(ctx context.Context, again bool, target *gcp.DocumentRef) (changeState, error) {
	refs := []*gcp.DocumentRef{ch.organization}
	if target != nil {
		refs = append(refs, target)
	}
	if ch.answer != nil {
		refs = append(refs, ch.answer)
	}
	if again {
		refs = append(refs, ch.entry)
	}
	snaps, err := ch.client.read(ctx, refs...)
	if err != nil {
		return changeState{}, err
	}
	s := changeState{committed: again && ch.committedIn(snaps[len(snaps)-1])}
	rest := snaps[1:]
	if target != nil {
		s.target, rest = rest[0], rest[1:]
	}
	if ch.answer != nil {
		if s.answer, err = ch.answerOf(rest[0]); err != nil {
			return changeState{}, err
		}
		if ch.attempt.Replaying() && !s.answer.valid {
			return changeState{}, idempotency.InProgress()
		}
	}
	s.org, err = ch.organizationStateOf(snaps[0])
	if rehearsed, ok := ch.rehearsal.Present(); ok {
		s.org.Organization = rehearsed.Organization
	}
	return s, err
}

// present returns the agent that the change begins from: the stored one, or the outcome of the earlier changes of a
// rehearsed call. Errors: NotFound.
func (ch change) present(s changeState) (agent.Agent, error) {
	if rehearsed, ok := ch.rehearsal.Present(); ok {
		return owned(rehearsed.Agent, ch.caller)
	}
	return ownAgent(s.target, ch.caller)
}

// commit commits a batch that holds the call's audit entry.
func (ch change) commit(ctx context.Context, b *batch) (version string, err error) {
	version, err = ch.client.commit(ctx, b)
	if err == nil {
		ch.trail.MarkWritten()
	}
	return version, err
}

// writeEvents adds events to a commit of the change.
func (ch change) writeEvents(b *batch, agentID string, events []event.Draft) {
	ch.client.writeEvents(b, ch.organization.ID, agentID, events)
	*ch.hasEvents = *ch.hasEvents || len(events) > 0
}

// retryUntilDecided repeats a change until it is decided. A change that was carried out uses up its idempotency key,
// and its events are reported.
func (ch change) retryUntilDecided(ctx context.Context, try func(ctx context.Context, again bool) error) error {
	err := ch.client.retryUntilDecided(ctx, try)
	if err == nil {
		ch.attempt.Use()
	}
	if err == nil && *ch.hasEvents && ch.rehearsal == nil {
		ch.client.reportEvents(ctx, ch.organization.ID)
	}
	return err
}

// checkMayStart checks that the organization may start an agent. It does not check the control plane's own changes,
// which only restart what was allowed before.
func (ch change) checkMayStart(org organizationState) error {
	if ch.caller.Type == identity.System {
		return nil
	}
	return org.CheckMayStart()
}

// organizationState is the organization as a change read it.
type organizationState struct {
	organization.Organization
	snap *gcp.DocumentSnapshot
}

// organizationStateOf makes the state of the organization. An organization without a record gets a new one.
func (ch change) organizationStateOf(snap *gcp.DocumentSnapshot) (organizationState, error) {
	if !snap.Exists() {
		return organizationState{organization.New(ch.organization.ID, ch.at), snap}, nil
	}
	o, err := organizationOf(snap)
	return organizationState{o, snap}, err
}

// chargeUsage adds to the usage, or subtracts from it. Subtracting succeeds even on a plan that no longer exists.
func (o *organizationState) chargeUsage(moved organization.Usage) error {
	if moved.Agents <= 0 && moved.CPUMillis <= 0 && moved.MemoryBytes <= 0 && moved.StorageBytes <= 0 {
		o.Usage = o.Usage.Plus(moved)
		return nil
	}
	return o.AddUsage(moved)
}

// saveUsage writes the organization's usage. The commit fails when another one wrote the organization since it was
// read.
func (o organizationState) saveUsage(b *batch) { o.save(b, setUsage(o.Usage)) }

// saveCreation writes what a creation changes of the organization: its usage and the state of its rate limits. The
// commit fails as that of saveUsage does.
func (o organizationState) saveCreation(b *batch) {
	o.save(b, append(setUsage(o.Usage), setCreations(o.Organization), setSecretWrites(o.Organization)))
}

// save writes some fields of the organization, or the whole record if there is none.
func (o organizationState) save(b *batch, list []gcp.Update) {
	if o.snap.Exists() {
		b.Update(o.snap.Ref, list, gcp.LastUpdateTime(o.snap.UpdateTime))
		return
	}
	b.Create(o.snap.Ref, organizationFields(&o.Organization).encode())
}
