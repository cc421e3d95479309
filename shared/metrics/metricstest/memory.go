package metricstest

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/metrics"
	"agents.example/controlplane/shared/page"
)

// Memory stores agents and snapshots in memory. It implements metrics.Store and metrics.WorkerStore; its method Agents
// returns a metrics.Agents. The zero value is ready to use.
type Memory struct {
	// Now is the clock of MarkViewed; nil means time.Now.
	Now func() time.Time

	mu        sync.Mutex
	writes    int
	agents    map[string]agent.Agent
	snapshots map[string]metrics.Snapshot
	cells     map[string]metrics.Progress
	// unreadable has the ids of agents whose records ListByStatus leaves out.
	unreadable map[string]bool
	// loads and saves count snapshots read and written; agentLoads counts agents read.
	loads, saves, agentLoads int
}

var (
	_ metrics.Store       = (*Memory)(nil)
	_ metrics.WorkerStore = (*Memory)(nil)
)

// Put stores an agent. A new agent gets an empty snapshot.
func (m *Memory) Put(a agent.Agent) agent.Agent {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.agents == nil {
		m.agents, m.snapshots, m.cells = map[string]agent.Agent{}, map[string]metrics.Snapshot{},
			map[string]metrics.Progress{}
	}
	a.ID = cmp.Or(a.ID, uuid.NewString())
	a.Version = m.version()
	if _, ok := m.agents[a.ID]; !ok {
		m.write(metrics.New(a.ID, a.OrganizationID))
	}
	m.agents[a.ID] = a
	return a
}

// Delete deletes an agent and its snapshot.
func (m *Memory) Delete(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.agents, id)
	delete(m.snapshots, id)
}

// Forget deletes the snapshot of an agent.
func (m *Memory) Forget(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.snapshots, id)
}

// Counts returns how many snapshots were read and written, and how many agents were read, since its last call.
func (m *Memory) Counts() (loads, saves, agents int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	loads, saves, agents = m.loads, m.saves, m.agentLoads
	m.loads, m.saves, m.agentLoads = 0, 0, 0
	return loads, saves, agents
}

func (m *Memory) version() string {
	m.writes++
	return strconv.Itoa(m.writes)
}

func (m *Memory) write(s metrics.Snapshot) {
	s.Version = m.version()
	m.snapshots[s.AgentID] = clone(s)
}

// clone makes a deep copy.
func clone(s metrics.Snapshot) metrics.Snapshot {
	for _, ring := range []*metrics.Ring{
		&s.CPU.Hour, &s.CPU.Day, &s.Memory.Hour, &s.Memory.Day, &s.Requests.Hour, &s.Requests.Day, &s.Errors.Hour,
		&s.Errors.Day, &s.Up, &s.Due, &s.Restarted,
	} {
		b, _ := ring.MarshalBinary() // never fails
		var copied metrics.Ring
		if copied.UnmarshalBinary(b) == nil {
			*ring = copied
		}
	}
	return s
}

// Get implements metrics.Store.
func (m *Memory) Get(ctx context.Context, id string) (metrics.Snapshot, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, ok := m.snapshots[id]
	if organization := call.From(ctx).Caller.OrganizationID; !ok || organization == "" ||
		s.OrganizationID != organization {
		return metrics.Snapshot{}, metrics.NotFound()
	}
	return clone(s), nil
}

// ListCurrent implements metrics.Store.
func (m *Memory) ListCurrent(ctx context.Context) ([]metrics.Current, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	organization := call.From(ctx).Caller.OrganizationID
	var found []metrics.Current
	for _, id := range slices.Sorted(maps.Keys(m.agents)) {
		a := m.agents[id]
		if a.OrganizationID != organization || organization == "" || a.Status == agent.Deleting {
			continue
		}
		s := metrics.New(id, organization)
		if known, ok := m.snapshots[id]; ok {
			s.CollectedAt, s.Figures, s.Counted = known.CollectedAt, known.Figures, known.Counted
		}
		found = append(found, metrics.Current{Agent: a, Snapshot: s})
	}
	return found, nil
}

// MarkViewed implements metrics.Store.
func (m *Memory) MarkViewed(_ context.Context, s metrics.Snapshot) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now
	if m.Now != nil {
		now = m.Now
	}
	known, ok := m.snapshots[s.AgentID]
	if !ok || s.Version == "" || now().Sub(known.ViewedAt) < metrics.ViewInterval {
		return
	}
	known.ViewedAt = now()
	m.write(known)
}

// Load implements metrics.WorkerStore.
func (m *Memory) Load(_ context.Context, ids []string) (map[string]metrics.Snapshot, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := map[string]metrics.Snapshot{}
	for _, id := range ids {
		if s, ok := m.snapshots[id]; ok {
			found[id] = clone(s)
			m.loads++
		}
	}
	return found, nil
}

// ListViewedSince implements metrics.WorkerStore.
func (m *Memory) ListViewedSince(_ context.Context, since time.Time, limit int) ([]metrics.Snapshot, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var found []metrics.Snapshot
	for _, s := range m.snapshots {
		if !s.ViewedAt.IsZero() && !s.ViewedAt.Before(since) {
			found = append(found, clone(s))
		}
	}
	slices.SortFunc(found, func(a, b metrics.Snapshot) int { return a.ViewedAt.Compare(b.ViewedAt) })
	m.loads += min(limit, len(found))
	return found[:min(limit, len(found))], nil
}

// Save implements metrics.WorkerStore.
func (m *Memory) Save(_ context.Context, s metrics.Snapshot, agentVersion string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	a, exists := m.agents[s.AgentID]
	known, ok := m.snapshots[s.AgentID]
	switch {
	case !exists:
		return metrics.NotFound()
	case ok && known.Version != s.Version, !ok && (s.Version != "" || a.Version != agentVersion):
		return metrics.ErrChanged
	}
	s.ViewedAt = known.ViewedAt
	m.saves++
	m.write(s)
	return nil
}

// Progress implements metrics.WorkerStore.
func (m *Memory) Progress(context.Context) (map[string]metrics.Progress, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.cells), nil
}

// SetProgress implements metrics.WorkerStore.
func (m *Memory) SetProgress(_ context.Context, cells map[string]metrics.Progress) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cells == nil {
		m.cells = map[string]metrics.Progress{}
	}
	maps.Copy(m.cells, cells)
	return nil
}

// MakeUnreadable makes ListByStatus leave out an agent, as a store does with a record that it cannot decode.
func (m *Memory) MakeUnreadable(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.unreadable == nil {
		m.unreadable = map[string]bool{}
	}
	m.unreadable[id] = true
}

// Agents returns the port through which the collector finds agents.
func (m *Memory) Agents() metrics.Agents { return memoryAgents{m} }

type memoryAgents struct{ *Memory }

// Load implements metrics.Agents.
func (m memoryAgents) Load(_ context.Context, id string) (agent.Agent, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a, ok := m.agents[id]
	if !ok {
		return agent.Agent{}, agent.NotFound()
	}
	m.agentLoads++
	return a, nil
}

// ListByStatus implements metrics.Agents.
func (m memoryAgents) ListByStatus(
	_ context.Context, status agent.Status, after string, limit int,
) (page.Page[agent.Agent], error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var p page.Page[agent.Agent]
	read := 0
	for _, id := range slices.Sorted(maps.Keys(m.agents)) {
		a := m.agents[id]
		if a.Status != status || id <= after {
			continue
		}
		if !m.unreadable[id] {
			p.Items = append(p.Items, a)
		}
		if read++; read == limit {
			p.Next = id
			break
		}
	}
	m.agentLoads += read
	return p, nil
}
