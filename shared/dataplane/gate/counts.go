package gate

import (
	"sync"
	"time"

	"agents.example/controlplane/shared/egress"
)

// maxCounted bounds the hosts that are counted for all agents and days. It is enough for 5,000 agents with 40 hosts.
const maxCounted = 200_000

// countKey identifies the counts of an agent and a day.
type countKey struct{ agentID, day string }

// tally has the counts of an agent and a day.
type tally struct {
	hosts map[string]*egress.Count
	// changed is true if the counts were not reported, and urgent if those of another host were not.
	changed, urgent bool
}

// counts counts the hosts that agents reach, and those that they are refused.
type counts struct {
	now func() time.Time

	mu      sync.Mutex
	tallies map[countKey]*tally
	hosts   int // of all tallies
}

func (c *counts) init(now func() time.Time) { c.now, c.tallies = now, map[countKey]*tally{} }

func (c *counts) used(agentID, host string) {
	c.count(agentID, host, func(n *egress.Count, _ time.Time) bool {
		n.Used++
		return false
	})
}

func (c *counts) refused(agentID, host string, why egress.Reason) {
	c.count(agentID, host, func(n *egress.Count, now time.Time) bool {
		first := n.Refused == 0
		n.Refused++
		n.Reason, n.RefusedAt = why, now
		return first
	})
}

// count changes the count of a host. change reports whether the change must be reported soon.
func (c *counts) count(agentID, host string, change func(*egress.Count, time.Time) bool) {
	now := c.now().UTC().Truncate(time.Second)
	k := countKey{agentID: agentID, day: now.Format(egress.DayFormat)}
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.tallies[k]
	if t == nil {
		t = &tally{hosts: map[string]*egress.Count{}}
		c.tallies[k] = t
	}
	n := t.hosts[host]
	if n == nil && (len(t.hosts) >= egress.MaxCountedHosts || c.hosts >= maxCounted) {
		host = egress.OtherHosts
		n = t.hosts[host]
	}
	if n == nil {
		n = &egress.Count{Host: host, FirstAt: now}
		t.hosts[host] = n
		c.hosts++
		t.urgent = true
	}
	n.LastAt = now
	if change(n, now) {
		t.urgent = true
	}
	t.changed = true
}

// take returns which counts were not reported, and marks them as reported. With all false, these are the urgent ones.
func (c *counts) take(all bool) []countKey {
	c.mu.Lock()
	defer c.mu.Unlock()
	var taken []countKey
	for k, t := range c.tallies {
		if t.urgent || all && t.changed {
			t.changed, t.urgent = false, false
			taken = append(taken, k)
		}
	}
	return taken
}

// restore marks counts as not reported.
func (c *counts) restore(k countKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.tallies[k]; t != nil {
		t.changed, t.urgent = true, true
	}
}

// report returns the counts of an agent and a day.
func (c *counts) report(k countKey) egress.Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := egress.Report{AgentID: k.agentID, Day: k.day}
	if t := c.tallies[k]; t != nil {
		for _, n := range t.hosts {
			r.Hosts = append(r.Hosts, *n)
		}
	}
	return r
}

// sweep drops the counts of days that are over and were reported. Those that were not are kept for another day.
func (c *counts) sweep() {
	now := c.now().UTC()
	today, yesterday := now.Format(egress.DayFormat), now.AddDate(0, 0, -1).Format(egress.DayFormat)
	c.mu.Lock()
	defer c.mu.Unlock()
	for k, t := range c.tallies {
		if k.day < yesterday || k.day < today && !t.changed {
			c.hosts -= len(t.hosts)
			delete(c.tallies, k)
		}
	}
}
