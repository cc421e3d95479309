//go:build unix

package consoletest_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/emulators/consoletest"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/plan"
)

const (
	// visibleWithin is how soon a page shows a change of an agent's status while agents change, on a machine that does
	// nothing else.
	visibleWithin = 500 * time.Millisecond
	// slack and leastSlack are how many times slower the median and the fastest change may be on a busy machine.
	slack, leastSlack = 10, 3
	// changes is how often the test measures.
	changes = 4
)

// statusInList and statusOnPage are the shown status of the agent NAME, as JavaScript.
const (
	statusInList = `[...document.querySelectorAll('.rows [role="row"]')].find(r => r.textContent.includes(NAME))
		?.querySelector(".badge")?.textContent.trim()`
	statusOnPage = `document.querySelector(".agent-head .badge")?.textContent.trim()`
)

// recordStatus keeps when a page first shows each status of an agent, in milliseconds since 1970.
func recordStatus(p *consoletest.Page, status, name string) {
	status = strings.ReplaceAll(status, "NAME", fmt.Sprintf("%q", name))
	consoletest.Eval[int](p, fmt.Sprintf(`(() => {
		window.shown = {};
		const look = () => { window.shown[%s] ??= Date.now(); };
		window.observer?.disconnect();
		window.observer = new MutationObserver(look);
		window.observer.observe(document.body, { subtree: true, childList: true, characterData: true });
		look();
		return 0;
	})()`, status))
}

// shownAt waits until a page has shown a status and returns when that was.
func shownAt(p *consoletest.Page, status string) time.Time {
	p.WaitTrue("window.shown." + status)
	return time.UnixMilli(consoletest.Eval[int64](p, "window.shown."+status))
}

// TestStatusChange_IsVisibleSoon measures the time from the record of a change to what two pages show: the list, and
// the agent's page.
func TestStatusChange_IsVisibleSoon(t *testing.T) {
	t.Parallel()
	admin := suite.Admin(t, plan.Startup)
	list, detail := admin.Page(t), admin.Page(t)
	list.Open("/console#/agents")
	delays := map[string][]time.Duration{}
	for i := range changes {
		name := fmt.Sprintf("agent %d", i)
		id := admin.UnreadyAgent(name, nil)
		detail.Open("/console#/agents/" + id)
		detail.WaitFor("heading", name)
		recordStatus(list, statusInList, name)
		recordStatus(detail, statusOnPage, name)
		shownAt(list, "Provisioning")
		shownAt(detail, "Provisioning")
		suite.Break(t, id, "")
		// The record of the status has the end of the last stage. Later records change the agent again.
		text, _ := consoletest.LastStage(admin.AwaitAgent(id, "running"))["finished_at"].(string)
		recorded, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			t.Fatal(err)
		}
		recorded = recorded.Truncate(time.Millisecond) // as the browser's clock
		delays["list"] = append(delays["list"], shownAt(list, "Running").Sub(recorded))
		delays["agent's page"] = append(delays["agent's page"], shownAt(detail, "Running").Sub(recorded))
		admin.Call(http.MethodDelete, "/api/v1/agents/"+id, "", http.StatusAccepted)
	}
	for where, all := range delays {
		slices.Sort(all)
		t.Logf("%s: visible after %v, want %s", where, all, visibleWithin)
		if median := all[len(all)/2]; median > slack*visibleWithin {
			t.Errorf("%s: changes are visible after %s (median), want %s on an idle machine",
				where, median, visibleWithin)
		}
		if all[0] < 0 || all[0] > leastSlack*visibleWithin {
			t.Errorf("%s: the fastest change is visible after %s, want %s on an idle machine",
				where, all[0], visibleWithin)
		}
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
		{"heap", func(m consoletest.Measurement) int64 { return m.HeapBytes }, 900_000, 500_000},
		{"nodes", func(m consoletest.Measurement) int64 { return m.Nodes }, rest / leaked, lastPart / leaked},
		{"listeners", func(m consoletest.Measurement) int64 { return m.Listeners }, rest / leaked, lastPart / leaked},
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
