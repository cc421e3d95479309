package firestore

import (
	"context"
	"fmt"
	"sync"
	"time"

	gcp "cloud.google.com/go/firestore"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/page"
)

// Agents implements agent.Store.
type Agents struct {
	client *Client
	nudger agent.Nudger
}

var _ agent.Store = (*Agents)(nil)

// Agents is the store of agents for routes. It nudges workers through n.
func (c *Client) Agents(n agent.Nudger) *Agents { return &Agents{client: c, nudger: n} }

// agentRecord is a place to encode and decode agents, one after the other: the list of its fields takes more memory
// than an agent.
type agentRecord struct {
	agent   agent.Agent
	writeID string
	fields  fields
}

//nolint:gochecknoglobals // a pool is of the process
var agentRecords = sync.Pool{New: func() any {
	r := &agentRecord{}
	r.fields = agentFields(&r.agent, &r.writeID)
	return r
}}

func newAgentRecord() *agentRecord {
	r, _ := agentRecords.Get().(*agentRecord)
	return r
}

// release keeps the record for another agent, without this one.
func (r *agentRecord) release() {
	r.agent, r.writeID = agent.Agent{}, ""
	agentRecords.Put(r)
}

// encodeAgent makes the document of an agent. Of its operations it stores those that are open.
func encodeAgent(a agent.Agent, writeID string) map[string]any {
	r := newAgentRecord()
	defer r.release()
	r.agent, r.writeID = a, writeID
	r.agent.Operations = a.OpenOperations()
	return r.fields.encodeWith(a.Rest)
}

// decodeAgent makes the agent of a document. The two share no memory.
func decodeAgent(id string, doc lookup) (a agent.Agent, writeID string, err error) {
	r := newAgentRecord()
	defer r.release()
	rest, err := r.fields.decode(doc)
	if err != nil {
		return agent.Agent{}, "", fmt.Errorf("decode the agent %s: %w", id, err)
	}
	a, writeID = r.agent, r.writeID
	a.ID, a.Rest = id, rest
	for i := range a.Operations {
		a.Operations[i].AgentID, a.Operations[i].OrganizationID = id, a.OrganizationID
	}
	return a, writeID, nil
}

// agentOf makes the agent of a document that exists.
func agentOf(snap *gcp.DocumentSnapshot) (agent.Agent, error) {
	return agentFrom(snap.Ref.ID, inSnapshot(snap), snap.UpdateTime)
}

// agentFrom makes the agent of a document that was last written at updated.
func agentFrom(id string, doc lookup, updated time.Time) (agent.Agent, error) {
	a, _, err := decodeAgent(id, doc)
	if err != nil {
		return agent.Agent{}, err
	}
	a.Version = versionOf(updated)
	return a, nil
}

// ownAgent makes the agent of a document, if it exists and belongs to the caller's organization. Errors: NotFound.
func ownAgent(snap *gcp.DocumentSnapshot, caller identity.Caller) (agent.Agent, error) {
	if !snap.Exists() {
		return agent.Agent{}, agent.NotFound()
	}
	a, err := agentOf(snap)
	if err != nil {
		return agent.Agent{}, err
	}
	return owned(a, caller)
}

// owned returns the agent if it belongs to the caller's organization. Errors: NotFound.
func owned(a agent.Agent, caller identity.Caller) (agent.Agent, error) {
	if a.OrganizationID != caller.OrganizationID || caller.OrganizationID == "" {
		return agent.Agent{}, agent.NotFound()
	}
	return a, nil
}

func agentTarget(a agent.Agent) audit.Target {
	return audit.Target{Type: "agent", ID: a.ID, Name: a.Name}
}

// Get implements agent.Store. It makes no call when the agent was read together with the caller's API key.
func (s *Agents) Get(ctx context.Context, id string) (agent.Agent, error) {
	ref, ok := s.client.agent(id)
	if !ok {
		return agent.Agent{}, agent.NotFound()
	}
	c := call.From(ctx)
	if c.Attempt.Replaying() {
		if a, ok, err := s.keptAgent(ctx, c.Attempt, ref.ID); ok || err != nil {
			return a, err
		}
	}
	snap, err := s.client.readUnlessFetched(ctx, ref, c.Fetched.Snapshot(agent.Document(id)))
	if err != nil {
		return agent.Agent{}, err
	}
	return ownAgent(snap, c.Caller)
}

// List implements agent.Store.
func (s *Agents) List(ctx context.Context, f agent.Filter, p page.Request) (page.Page[agent.Agent], error) {
	return listPage(ctx, s.client, listing[agent.Agent]{
		query:      agentQuery(call.From(ctx).Caller.OrganizationID, f),
		tieBreaker: gcp.DocumentID,
		decode:     agentOf,
		position:   func(a agent.Agent) position { return position{a.CreatedAt, a.ID} },
	}, p)
}

func agentQuery(organizationID string, f agent.Filter) query {
	q := query{collection: agentCollection, equal: []equality{{"organization_id", organizationID}}}
	for _, e := range []equality{
		{"status", string(f.Status)},
		{"plan", f.Plan},
		{"region", f.Region},
		{"name", f.Name},
		{"image.id", f.Image},
		{"image.version", f.Version},
	} {
		if e.value != "" {
			q.equal = append(q.equal, e)
		}
	}
	return q
}
