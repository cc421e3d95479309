// Package agentlogtest provides a simulated cell for tests of logs, and the conformance suite that every source of logs
// passes.
package agentlogtest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agentlog"
)

// Cell simulates the pods of agents and their logs, as a kubelet keeps them: of each pod, the container that runs and
// the one before it. It implements agentlog.Source and agentlog.Pods.
type Cell struct {
	// Fail is returned by every call, if it returns an error.
	Fail func() error

	mu   sync.Mutex
	pods map[string]*Pod
	// kept maps the ids of agents to the containers whose logs are kept, in the order of their ends.
	kept map[string][]*container
	// started counts the pods that were started.
	started int
	// ended counts the containers that have ended.
	ended int
	// open counts the logs that are being read.
	open int
}

var (
	_ agentlog.Source = (*Cell)(nil)
	_ agentlog.Pods   = (*Cell)(nil)
)

// NewCell returns a cell without pods.
func NewCell() *Cell { return &Cell{pods: map[string]*Pod{}, kept: map[string][]*container{}} }

// Pod is the pod of one agent.
type Pod struct {
	cell *Cell
	// UID identifies the pod.
	UID string
	// containers are all runs of the container, the last one first.
	containers []*container
}

type container struct {
	id, pod string
	ended   agentlog.Ended
	lines   []line
	running bool
	// changed is closed and replaced at every change.
	changed chan struct{}
}

type line struct {
	at   time.Time
	text string
}

// Start starts a pod for an agent, with one container. It replaces the agent's former pod.
func (c *Cell) Start(agentID string) *Pod {
	c.Remove(agentID)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.started++
	p := &Pod{cell: c, UID: fmt.Sprint("pod-", c.started)}
	c.pods[agentID] = p
	p.restart()
	return p
}

// Remove ends the agent's container and removes its pod.
func (c *Cell) Remove(agentID string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.pods[agentID]; p != nil {
		p.end()
		delete(c.pods, agentID)
	}
}

// Readers counts the logs that are being read.
func (c *Cell) Readers() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open
}

// Restart ends the container and starts another one.
func (p *Pod) Restart() {
	p.cell.mu.Lock()
	defer p.cell.mu.Unlock()
	p.end()
	p.restart()
}

// End ends the container, and no other one starts.
func (p *Pod) End() {
	p.cell.mu.Lock()
	defer p.cell.mu.Unlock()
	p.end()
}

func (p *Pod) restart() {
	p.containers = slices.Insert(p.containers, 0, &container{
		id: fmt.Sprint("run-", len(p.containers)), pod: p.UID, running: true, changed: make(chan struct{}),
	})
}

func (p *Pod) end() {
	if c := p.containers[0]; c.running {
		c.running = false
		p.cell.ended++
		c.ended = agentlog.Ended{
			Container: agentlog.Container(p.UID, c.id), EndedAt: time.Now().Truncate(time.Second), ExitCode: 1,
			Reason: "Error", Run: p.cell.ended,
		}
		close(c.changed)
		c.changed = make(chan struct{})
	}
}

// Write writes lines to the log of the container, all at one time. The zero time is none.
func (p *Pod) Write(at time.Time, texts ...string) {
	p.cell.mu.Lock()
	defer p.cell.mu.Unlock()
	c := p.containers[0]
	for _, text := range texts {
		c.lines = append(c.lines, line{at, text})
	}
	close(c.changed)
	c.changed = make(chan struct{})
}

// Rotate drops the lines that the container has written so far.
func (p *Pod) Rotate() {
	p.cell.mu.Lock()
	defer p.cell.mu.Unlock()
	p.containers[0].lines = nil
}

// IDs returns the identifiers of the current and the previous container as Kubernetes would report them; empty for
// none. A container that has ended is both.
func (p *Pod) IDs() (current, previous string) {
	p.cell.mu.Lock()
	defer p.cell.mu.Unlock()
	return p.ids()
}

func (p *Pod) ids() (current, previous string) {
	switch {
	case !p.containers[0].running:
		return p.containers[0].id, p.containers[0].id
	case len(p.containers) > 1:
		return p.containers[0].id, p.containers[1].id
	default:
		return p.containers[0].id, ""
	}
}

// Pod returns the pod of an agent; nil for none.
func (c *Cell) Pod(agentID string) *Pod {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pods[agentID]
}

// Open implements agentlog.Source.
func (c *Cell) Open(ctx context.Context, a agent.Agent, o agentlog.Options) (agentlog.Stream, error) {
	return agentlog.Open(ctx, c, a, o)
}

// Containers implements agentlog.Pods.
func (c *Cell) Containers(_ context.Context, a agent.Agent) (agentlog.Containers, error) {
	p, err := c.find(a)
	if err != nil {
		return agentlog.Containers{}, err
	}
	current, previous := p.IDs()
	found := agentlog.Containers{Current: agentlog.Container(p.UID, current)}
	if previous != "" {
		found.Previous = agentlog.Container(p.UID, previous)
		found.Last = p.Last()
	}
	return found, nil
}

// Last describes the last container of the pod that has ended.
func (p *Pod) Last() agentlog.Ended {
	p.cell.mu.Lock()
	defer p.cell.mu.Unlock()
	for _, c := range p.containers {
		if !c.running {
			return c.ended
		}
	}
	return agentlog.Ended{}
}

// Keep keeps the log of the container of an agent's pod that ended last, as a worker does.
func (c *Cell) Keep(agentID string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, run := range c.pods[agentID].containers {
		if run.running {
			continue
		}
		kept := c.kept[agentID]
		if !slices.Contains(kept, run) {
			kept = append(kept, run)
		}
		c.kept[agentID] = kept[max(0, len(kept)-agentlog.MaxKept):]
		return
	}
}

// Kept implements agentlog.Pods.
func (c *Cell) Kept(_ context.Context, a agent.Agent) (all []agentlog.Ended, err error) {
	if c.Fail != nil {
		err = c.Fail()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, run := range c.kept[a.ID] {
		all = append(all, run.ended)
	}
	return all, err
}

// KeptLog returns the kept log of a container as a worker stores it.
func (c *Cell) KeptLog(agentID, id string) (io.Reader, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, run := range c.kept[agentID] {
		if run.ended.Container == id {
			l := &log{ctx: context.Background(), cell: c, container: run}
			l.fill()
			return &l.buffer, nil
		}
	}
	return nil, agentlog.NoPrevious()
}

func (c *Cell) find(a agent.Agent) (*Pod, error) {
	if c.Fail != nil {
		if err := c.Fail(); err != nil {
			return nil, err
		}
	}
	if p := c.Pod(a.ID); p != nil {
		return p, nil
	}
	return nil, agentlog.NotRunning()
}

// Read implements agentlog.Pods.
func (c *Cell) Read(ctx context.Context, a agent.Agent, part agentlog.Part) (io.ReadCloser, error) {
	if part.Kept {
		return c.openKept(ctx, a, part)
	}
	p, err := c.find(a)
	if err != nil {
		return nil, err
	}
	return p.Log(ctx, part)
}

func (c *Cell) openKept(ctx context.Context, a agent.Agent, part agentlog.Part) (io.ReadCloser, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, run := range c.kept[a.ID] {
		if run.ended.Container == part.Container {
			c.open++
			next := 0
			if part.Tail > 0 {
				next = max(0, len(run.lines)-part.Tail)
			}
			return &log{ctx: ctx, cell: c, container: run, part: part, next: next}, nil
		}
	}
	return nil, agentlog.NoPrevious()
}

// Log opens the log of a container as a kubelet does.
func (p *Pod) Log(ctx context.Context, part agentlog.Part) (io.ReadCloser, error) {
	p.cell.mu.Lock()
	defer p.cell.mu.Unlock()
	chosen := p.containers[0]
	if part.Previous {
		_, id := p.ids()
		i := slices.IndexFunc(p.containers, func(c *container) bool { return c.id == id })
		if i < 0 {
			return nil, agentlog.NoPrevious()
		}
		chosen = p.containers[i]
	}
	l := &log{ctx: ctx, cell: p.cell, container: chosen, part: part}
	if part.Tail > 0 {
		l.next = max(0, len(chosen.lines)-part.Tail)
	}
	p.cell.open++
	return l, nil
}

// log is an open log.
type log struct {
	ctx       context.Context
	cell      *Cell
	container *container
	part      agentlog.Part
	next      int
	buffer    bytes.Buffer
	closed    bool
}

// Read implements io.Reader.
func (l *log) Read(b []byte) (int, error) {
	for {
		if l.buffer.Len() > 0 {
			return l.buffer.Read(b)
		}
		if err := l.ctx.Err(); err != nil {
			return 0, err
		}
		l.cell.mu.Lock()
		l.fill()
		more, wait := l.part.Follow && l.container.running, l.container.changed
		l.cell.mu.Unlock()
		if l.buffer.Len() > 0 {
			continue
		}
		if !more {
			return 0, io.EOF
		}
		select {
		case <-wait:
		case <-l.ctx.Done():
		}
	}
}

func (l *log) fill() {
	l.next = min(l.next, len(l.container.lines)) // the log may have been rotated
	for _, line := range l.container.lines[l.next:] {
		l.next++
		switch {
		case line.at.IsZero():
			fmt.Fprintf(&l.buffer, "%s\n", line.text)
		case !line.at.Before(l.part.From):
			fmt.Fprintf(&l.buffer, "%s %s\n", line.at.Format("2006-01-02T15:04:05.000000000Z07:00"), line.text)
		}
	}
}

// Close implements io.Closer.
func (l *log) Close() error {
	l.cell.mu.Lock()
	defer l.cell.mu.Unlock()
	if !l.closed {
		l.closed = true
		l.cell.open--
	}
	return nil
}
