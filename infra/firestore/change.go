package firestore

import (
	"cmp"
	"context"
	"sync"
	"time"

	gcp "cloud.google.com/go/firestore"
	"github.com/google/uuid"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/event"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/idempotency"
	"agents.example/controlplane/shared/organization"
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

// change is one change that a call makes in its caller's organization.
type change struct {
	client       *Client
	id           string
	at           time.Time
	call         *call.Call
	organization *gcp.DocumentRef
	// entry is the document of the call's audit entry.
	entry *gcp.DocumentRef
	// answer is the document of the idempotent answer; nil for a change that its call's key does not cover.
	answer *gcp.DocumentRef
	// first reports whether the change is the first of the call that sends a commit, which creates the entry.
	first func() bool
	// free is true once the change was counted among the free agents.
	free bool
	// hasEvents is true once a commit with events was sent.
	hasEvents bool
}

// beginChange begins a change in the organization of the caller in ctx. Errors: Forbidden without an organization.
func (c *Client) beginChange(ctx context.Context) (*change, error) {
	ch, err := c.beginUnaudited(ctx)
	if err != nil {
		return nil, err
	}
	ch.first = sync.OnceValue(ch.call.Entry.Claim)
	ch.entry, _ = c.ref(auditCollection, cmp.Or(ch.call.Entry.ID(), ch.id))
	if ch.call.Rehearsal == nil && ch.call.Attempt.Covers() {
		ch.answer = c.answerRef(ch.call.Attempt)
	}
	return ch, nil
}

// beginUnaudited begins a change that has no audit entry. Errors: Forbidden without an organization.
func (c *Client) beginUnaudited(ctx context.Context) (*change, error) {
	made := call.From(ctx)
	org, ok := c.ref(organizationCollection, made.Caller.OrganizationID)
	if !ok {
		return nil, fault.New(fault.Forbidden, "organization_required",
			"The caller has no active organization. Select one first.")
	}
	return &change{client: c, id: uuid.NewString(), at: c.now(), call: made, organization: org}, nil
}

// changeState is what a change read before it decides.
type changeState struct {
	org organizationState
	// target is nil when none was asked for.
	target *gcp.DocumentSnapshot
	also   []*gcp.DocumentSnapshot
	answer answerState
	// committed is the version of what an earlier commit of this change wrote, although its answer was an error or was
	// lost. It is empty when there was none.
	committed string
}

// readState reads the organization, the target (which may be nil), other documents and the idempotent answer in one
// call. When again is true, it also reads whether the change has been committed. Errors: Invalid when the idempotency
// key was used for another request, Conflict when a call that replays the answer finds none, so that it changes
// nothing.
func (ch *change) readState(ctx context.Context, again bool, target *gcp.DocumentRef,
	also ...*gcp.DocumentRef,
) (changeState, error) {
	refs := append([]*gcp.DocumentRef{ch.organization}, also...)
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
	s := changeState{}
	if again {
		s.committed = ch.committedIn(snaps[len(snaps)-1])
	}
	s.also = snaps[1 : 1+len(also)]
	rest := snaps[1+len(also):]
	if target != nil {
		s.target, rest = rest[0], rest[1:]
	}
	if ch.answer != nil {
		if s.answer, err = ch.readAnswer(rest[0]); err != nil {
			return changeState{}, err
		}
		if ch.call.Attempt.Replaying() && !s.answer.valid {
			return changeState{}, idempotency.InProgress()
		}
	}
	s.org, err = organizationStateOf(snaps[0], ch.at)
	if rehearsed, ok := ch.call.Rehearsal.Present(); ok {
		s.org.Organization = rehearsed.Organization
	}
	return s, err
}

// present returns the agent that the change begins from: the stored one, or the outcome of the earlier changes of a
// rehearsed call. Errors: NotFound.
func (ch *change) present(s changeState) (agent.Agent, error) {
	if rehearsed, ok := ch.call.Rehearsal.Present(); ok {
		return owned(rehearsed.Agent, ch.call.Caller)
	}
	return ownAgent(s.target, ch.call.Caller)
}

// commit commits a batch that holds the call's audit entry.
func (ch *change) commit(ctx context.Context, b *batch) (version string, err error) {
	version, err = ch.client.commit(ctx, b)
	if err == nil {
		ch.call.Entry.MarkWritten()
	}
	return version, err
}

// writeEvents adds events to a commit of the change.
func (ch *change) writeEvents(b *batch, agentID string, events []event.Draft) {
	ch.client.writeEvents(b, ch.organization.ID, agentID, events)
	ch.hasEvents = ch.hasEvents || len(events) > 0
}

// retryUntilDecided repeats a change until it is decided. A change that was carried out uses up its idempotency key,
// and its events are reported.
func (ch *change) retryUntilDecided(ctx context.Context, try func(ctx context.Context, again bool) error) error {
	if err := ch.client.retryUntilDecided(ctx, try); err != nil || ch.call.Rehearsal != nil {
		return err
	}
	ch.call.Attempt.Use()
	if ch.hasEvents {
		ch.client.reportEvents(ctx, ch.organization.ID)
	}
	return nil
}

// organizationState is the organization as a change read it.
type organizationState struct {
	organization.Organization
	snap *gcp.DocumentSnapshot
}

// organizationStateOf makes the state of the organization. An organization without a record gets a new one.
func organizationStateOf(snap *gcp.DocumentSnapshot, at time.Time) (organizationState, error) {
	if !snap.Exists() {
		return organizationState{organization.New(snap.Ref.ID, at), snap}, nil
	}
	o, err := organizationOf(snap)
	return organizationState{o, snap}, err
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
