package simulationtest

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/billing"
	"agents.example/controlplane/shared/event"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/image"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/release"
	"agents.example/controlplane/shared/secret"
	"agents.example/controlplane/shared/webhook"
)

// Database is the simulated database. Its documents change in atomic commits with preconditions, like Firestore's.
type Database struct {
	// agents are the records by id, which never change, and ids their ids in order.
	agents        map[string]*document
	ids           []string
	organizations map[string]organizationDocument
	answers       map[string]answer
	// Operations is the history of secret operations, and Entries the audit log, by id.
	Operations map[string]secret.Operation
	Entries    map[string]Entry
	// Rules are what the database and its adapter guarantee.
	Rules DatabaseRules
	// Removed is told of each agent whose record is removed, with what is stored of its deletion.
	Removed func(id string, d agent.Deletion)
	// Started is told of each agent whose provisioning a change starts.
	Started func(id string)
	// Changed is told of each commit of a change of an agent, with the organization at that time.
	Changed func(o organizationDocument, before, after agent.Agent)
	// Moved is told of each commit of a worker that makes another cell the agent's.
	Moved func(before, after agent.Agent)
	// Updated is told of each commit of a worker; nil for none.
	Updated func(before, after agent.Agent)
	// Catalog has the images that agents can run.
	Catalog image.Set
	// events holds the payment provider's events that were applied.
	events map[string]bool
	// gone holds the agents whose record was removed.
	gone map[string]bool
	// Calls maps operations to the client's call that requested them.
	Calls map[string]string
	// Order lists the operations as they were recorded.
	Order []string
	// log has the events in the order of their commits, and now is the clock of commits; nil if no event is logged.
	log []event.Event
	now func() time.Time
	// webhooks and deliveries are the records of webhooks, and writes has the ids of clients' changes of them.
	webhooks   map[string]webhookDocument
	deliveries map[string]webhook.Delivery
	writes     map[string]bool
	// releases are the records of releases. Released is told of each commit of one, with the changes of agents.
	releases map[string]releaseDocument
	Released func(before, after release.Release, changes []release.Change)
	// reported is what the events say of each agent.
	reported map[string]*reported
	// Commits counts the commits that wrote.
	Commits int64
}

// DatabaseRules undo guards of the database's adapter. The zero value has all guards.
type DatabaseRules struct {
	// NoPreconditions commits whatever was written in between.
	NoPreconditions bool
	// TornHistory leaves ended operations out of the history.
	TornHistory bool
	// FirstOutcome keeps the outcome that the first commit of a call wrote.
	FirstOutcome bool
	// LoseUsage does not count what an agent frees.
	LoseUsage bool
	// FreeSizes charges for a new size of an agent in no commit.
	FreeSizes bool
	// AnySize checks no limit of the organization's plan.
	AnySize bool
	// LoseEvents loses the events of some commits.
	LoseEvents bool
}

// document is an agent's record and the id of its last write. A commit replaces it.
type document struct {
	agent   agent.Agent
	writeID string
	version int64
}

type organizationDocument struct {
	organization.Organization
	account billing.Account
	version int64
}

// Entry is an audit entry and the ids of the changes that wrote it.
type Entry struct {
	audit.Entry
	Commits []string
	// Creations counts how often it was created.
	Creations int
}

// answer is the stored answer to a request with an idempotency key.
type answer struct {
	fingerprint, changeID string
	expiresAt             time.Time
	record                *agent.Agent
	version               int64
}

// NewDatabase returns an empty database.
func NewDatabase() *Database {
	return &Database{
		agents: map[string]*document{}, organizations: map[string]organizationDocument{}, answers: map[string]answer{},
		Operations: map[string]secret.Operation{}, Entries: map[string]Entry{}, Calls: map[string]string{},
		gone: map[string]bool{}, events: map[string]bool{}, reported: map[string]*reported{},
		webhooks: map[string]webhookDocument{}, deliveries: map[string]webhook.Delivery{}, writes: map[string]bool{},
		releases: map[string]releaseDocument{},
	}
}

// Agent returns an agent's present record.
func (d *Database) Agent(id string) (agent.Agent, bool) {
	found, ok := d.agents[id]
	if !ok {
		return agent.Agent{}, false
	}
	return found.read(), true
}

// Agents returns all records, in the order of their ids.
func (d *Database) Agents() []agent.Agent { return d.filter(func(*agent.Agent) bool { return true }) }

// filter returns the records that match, in the order of their ids.
func (d *Database) filter(matches func(*agent.Agent) bool) (found []agent.Agent) {
	for _, id := range d.ids {
		if each := d.agents[id]; matches(&each.agent) {
			found = append(found, each.read())
		}
	}
	return found
}

// Organization returns an organization's present record.
func (d *Database) Organization(id string) organization.Organization {
	return d.organizations[id].Organization
}

// SetPlan puts an organization on a plan.
func (d *Database) SetPlan(id string, p plan.ID) {
	o, ok := d.organizations[id]
	if !ok {
		o.Organization = organization.New(id, time.Now())
	}
	d.Commits++
	o.Plan, o.version = p, d.Commits
	d.organizations[id] = o
}

// read returns the agent as a client of the database reads it: without memory in common.
func (d *document) read() agent.Agent { return d.agent.Clone() }

// put stores an agent's record, with its open operations. The agent must not change any more.
func (d *Database) put(a agent.Agent, writeID string) *document {
	a.Operations, a.Version = a.OpenOperations(), strconv.FormatInt(d.Commits, 36)
	if i, known := slices.BinarySearch(d.ids, a.ID); !known {
		d.ids = slices.Insert(d.ids, i, a.ID)
	}
	saved := &document{agent: a, writeID: writeID, version: d.Commits}
	d.agents[a.ID] = saved
	return saved
}

// remove removes an agent's record.
func (d *Database) remove(id string) {
	delete(d.agents, id)
	d.ids = slices.DeleteFunc(d.ids, func(each string) bool { return each == id })
	d.gone[id] = true
}

// Arrange changes an agent's record before a schedule begins, or as another release does: it derives nothing.
func (d *Database) Arrange(id string, change func(*agent.Agent)) {
	arranged := *d.agents[id]
	change(&arranged.agent)
	d.agents[id] = &arranged
}

func unavailable() error {
	return fault.New(fault.Unavailable, "store_unavailable", "The database is temporarily unavailable. Retry.")
}

// Clone returns a copy.
func (d *Database) Clone() *Database {
	next := NewDatabase()
	maps.Copy(next.agents, d.agents)
	next.ids = slices.Clone(d.ids)
	maps.Copy(next.organizations, d.organizations)
	maps.Copy(next.answers, d.answers)
	maps.Copy(next.Operations, d.Operations)
	maps.Copy(next.Entries, d.Entries)
	maps.Copy(next.Calls, d.Calls)
	for id, r := range d.reported {
		copied := *r
		copied.stages, copied.operations = maps.Clone(r.stages), maps.Clone(r.operations)
		next.reported[id] = &copied
	}
	next.Catalog = d.Catalog
	next.Order, next.Commits = slices.Clone(d.Order), d.Commits
	return next
}
