//go:build unix

package consoletest_test

import (
	"fmt"
	"testing"
	"time"

	"agents.example/controlplane/emulators/consoletest"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/plan"
)

// quickOnly stops the clock of a page, and all of its timers. The page sets those again that end within half a second,
// so it asks only for what it asks for often.
const quickOnly = `(() => {
	const wait = window.setTimeout, now = Date.now();
	window.setTimeout = (f, ms = 0, ...args) => ms > 500 ? 0 : wait(f, ms, ...args);
	Date.now = () => now;
	for (let timer = setTimeout(() => 0); timer > 0; timer--) { clearTimeout(timer); }
	document.dispatchEvent(new Event("visibilitychange"));
	return 0;
})()`

// TestStatusChange_IsVisibleSoon changes an agent's status while two pages ask only for what they ask for often: the
// list, and the agent's page.
func TestStatusChange_IsVisibleSoon(t *testing.T) {
	t.Parallel()
	admin := suite.Admin(t, plan.Startup)
	id := admin.UnreadyAgent("changes", nil)
	list, detail := admin.Page(t), admin.Page(t)
	badges := map[*consoletest.Page]string{list: `.rows [role="row"] .badge`, detail: ".agent-head .badge"}
	list.Open("/console#/agents")
	detail.Open("/console#/agents/" + id)
	shows := func(p *consoletest.Page, status string) {
		p.WaitTrue(fmt.Sprintf("document.querySelector(%q)?.textContent.trim() === %q", badges[p], status))
	}
	for p := range badges {
		shows(p, "Provisioning")
		consoletest.Eval[int](p, quickOnly)
	}
	suite.Break(t, id, "")
	for p := range badges {
		shows(p, "Running")
	}
}

// hour is how many polls a calm page sends in an hour. They stand for the hour: what a page keeps grows with what it
// receives, not with time. The first part ends before the rest, and the last part is the end of the rest.
const (
	hour     = 720
	rest     = hour * 3 / 4
	lastPart = hour * 3 / 8
)

// leaked is after how many polls a page that leaks has a node or a listener more, at the latest. The count also varies
// without a leak, by up to 60 nodes: the browser frees removed parts later.
const leaked = 2

// growth is how much more a page may use at the end: after the first part and after the second one. A page that leaks
// nothing grows by less than half of it.
type growth struct {
	what                  string
	of                    func(consoletest.Measurement) int64
	sinceFirst, sinceHalf int64
}

func allowedGrowth() []growth {
	return []growth{
		{
			what: "heap", of: func(m consoletest.Measurement) int64 { return m.HeapBytes }, sinceFirst: 900_000,
			sinceHalf: 500_000,
		},
		{
			what: "nodes", of: func(m consoletest.Measurement) int64 { return m.Nodes }, sinceFirst: rest / leaked,
			sinceHalf: lastPart / leaked,
		},
		{
			what: "listeners", of: func(m consoletest.Measurement) int64 { return m.Listeners },
			sinceFirst: rest / leaked, sinceHalf: lastPart / leaked,
		},
	}
}

// quicken makes the timers of a page run 500 times as fast, and counts its requests.
const quicken = `(() => {
	const wait = window.setTimeout, get = window.fetch, abort = AbortSignal.timeout;
	window.setTimeout = (f, ms = 0, ...args) => wait(f, ms / 500, ...args);
	AbortSignal.timeout = ms => abort.call(AbortSignal, ms / 3);
	window.sent = 0;
	window.fetch = (...args) => { window.sent++; return get(...args); };
	return 0;
})()`

// TestLivePages_DoNotGrow follows agents that change for as many polls as an hour has, on the list and on the page of
// an agent.
func TestLivePages_DoNotGrow(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, 60)
	for _, view := range []struct{ name, fragment, heading string }{
		{name: "list", fragment: "#/agents", heading: "Agents"},
		{name: "agent's page", fragment: "#/agents/" + c.at(0).ID, heading: c.at(0).Name},
	} {
		p := c.open(t, view.fragment, adminToken())
		p.WaitFor("heading", view.heading)
		consoletest.Eval[int](p, quicken)
		measured := []consoletest.Measurement{
			follow(p, c, hour-rest), follow(p, c, hour-lastPart), follow(p, c, hour),
		}
		for i, m := range measured {
			t.Logf("%s, part %d: heap %d kB, %d nodes, %d listeners, script %s",
				view.name, i, m.HeapBytes/1000, m.Nodes,
				m.Listeners, m.Script.Round(time.Millisecond))
		}
		first, half, end := measured[0], measured[1], measured[2]
		for _, g := range allowedGrowth() {
			if g.of(end)-g.of(first) > g.sinceFirst || g.of(end)-g.of(half) > g.sinceHalf {
				t.Errorf("%s: %s grow: %d, %d, %d; want at most %d since the first part, and %d since the second",
					view.name, g.what, g.of(first), g.of(half), g.of(end), g.sinceFirst, g.sinceHalf)
			}
		}
	}
}

// changed is how many agents change while a page follows them.
const changed = 3

// toggle changes the status of an agent.
func toggle(a *agent.Agent) {
	a.Status = map[bool]agent.Status{true: agent.Stopped, false: agent.Running}[a.Status == agent.Running]
	a.UpdatedAt = time.Now()
}

// follow changes agents until a page has sent a number of requests, and measures it. A stopped agent has other parts
// than a running one, so the page shows running ones when it is measured.
func follow(p *consoletest.Page, c *crowd, requests int) consoletest.Measurement {
	done := make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			case <-tick.C:
				c.change(c.at(i%changed).ID, toggle)
			}
		}
	}()
	p.WaitTrue(fmt.Sprintf("window.sent >= %d", requests))
	close(done)
	<-stopped
	for i := range changed {
		c.change(c.at(i).ID, func(a *agent.Agent) { a.Status = agent.Running })
	}
	p.WaitTrue(`!document.querySelector("main").innerText.includes("Stopped")`)
	return p.Measure()
}
