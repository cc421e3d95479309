package firestore

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agent/agenttest"
	"agents.example/controlplane/shared/egress"
	"agents.example/controlplane/shared/egresslog"
	"agents.example/controlplane/shared/event"
	"agents.example/controlplane/shared/image/imagetest"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/plan"
)

func refusedCount(host string, times int64, at time.Time) egress.Count {
	return egress.Count{
		Host: host, Refused: times, Reason: egress.NotListed, FirstAt: at, LastAt: at, RefusedAt: at,
	}
}

func usedCount(host string, times int64, at time.Time) egress.Count {
	return egress.Count{Host: host, Used: times, FirstAt: at, LastAt: at}
}

// TestCreate_DecidesAgainAfterALostRace changes the organization's rules before the first commit of a creation, which
// therefore fails.
func TestCreate_DecidesAgainAfterALostRace(t *testing.T) {
	t.Parallel()
	x := newEgressFixture(t)
	must(t, errorOf(x.Images().Put(t.Context(), imagetest.Full("assistant"))))
	late := open(t, x.project(), Options{DialOptions: beforeFirstCommit(func() {
		must(t, x.Directory().Choose(t.Context(), x.org.ID, func(c *organization.Choices) error {
			c.Egress = egress.Rules{Mode: egress.AllowList}
			return nil
		}))
	})})
	draft := agent.New(agenttest.ID(), "cell-1",
		agent.Draft{Name: "a", Plan: plan.Pro, Image: "assistant@1.1"}, x.at)
	created, err := late.Agents(nil).Create(x.org.Ctx, draft)
	must(t, err)
	if created.Egress.Mode != egress.AllowList {
		t.Errorf("the new agent may reach %+v, want what the organization allows", created.Egress)
	}
	if got := created.Image.String(); got != "assistant@1.1" {
		t.Errorf("the new agent runs %q, want the image that its client chose", got)
	}
}

// egressFixture is an agent whose gates report.
type egressFixture struct {
	*Client
	org   agenttest.Tenant
	agent agent.Agent
	at    time.Time
}

func newEgressFixture(t *testing.T) *egressFixture {
	t.Helper()
	x := &egressFixture{at: agenttest.Now()}
	x.Client = open(t, "", Options{Now: func() time.Time { return x.at }})
	x.org = agentFixture(x.Client).Tenant(t, plan.Enterprise)
	x.agent = x.org.Create(plan.Hobby)
	return x
}

func (x *egressFixture) report(hosts ...egress.Count) egress.Report {
	return egress.Report{AgentID: x.agent.ID, Day: x.at.UTC().Format(egress.DayFormat), Hosts: hosts}
}

func (x *egressFixture) record(t *testing.T, gate string, r egress.Report) {
	t.Helper()
	must(t, x.EgressLog().Record(t.Context(), gate, r))
}

func (x *egressFixture) list(t *testing.T) map[string]egress.Count {
	t.Helper()
	counts, err := x.EgressLog().List(t.Context(), x.agent.ID)
	must(t, err)
	hosts := map[string]egress.Count{}
	for _, c := range counts {
		hosts[c.Host] = c
	}
	return hosts
}

func (x *egressFixture) refusals(t *testing.T) []string {
	t.Helper()
	return x.Client.refusals(t, x.org.ID)
}

// refusals lists the hosts of the events about refusals.
func (c *Client) refusals(t *testing.T, organizationID string) []string {
	t.Helper()
	about := event.Filter{Type: event.EgressRefused}
	found, err := c.EventLog().List(t.Context(), organizationID, about, event.Start, 1000)
	must(t, err)
	var hosts []string
	for _, e := range found.Events {
		var data struct{ Host string }
		must(t, json.Unmarshal(e.Data, &data))
		hosts = append(hosts, data.Host)
	}
	slices.Sort(hosts)
	return hosts
}

// TestEgressLog_AddsUpGatesAndDays: the counts of one gate replace each other, and those of others are added.
func TestEgressLog_AddsUpGatesAndDays(t *testing.T) {
	t.Parallel()
	x := newEgressFixture(t)
	early := x.report(usedCount("a.example", 2, x.at))
	late := x.report(usedCount("a.example", 5, x.at), usedCount("b.example", 1, x.at))
	for _, r := range []egress.Report{late, early, late} { // late, and twice
		x.record(t, "one", r)
	}
	x.record(t, "two", early)
	other := x.org.Create(plan.Hobby)
	x.record(t, "one", egress.Report{AgentID: other.ID, Day: early.Day, Hosts: early.Hosts})
	x.at = x.at.AddDate(0, 0, 1)
	x.record(t, "one", x.report(usedCount("a.example", 10, x.at)))
	if got := x.list(t); len(got) != 2 || got["a.example"].Used != 17 || got["b.example"].Used != 1 {
		t.Errorf("the log has %+v, want 17 uses of a.example and 1 of b.example", got)
	}
	x.at = x.at.Add(egress.LogTime - time.Minute)
	if got := x.list(t); len(got) != 1 || got["a.example"].Used != 10 {
		t.Errorf("a week later, the log has %+v, want the second day", got)
	}
	x.at = x.at.Add(2 * time.Minute)
	if got := x.list(t); len(got) != 0 {
		t.Errorf("after a week, the log has %+v, want nothing", got)
	}
}

// TestEgressLog_HasTheDaysOfAllGates: a cell with many agents has twenty gates, and each a document a day.
func TestEgressLog_HasTheDaysOfAllGates(t *testing.T) {
	t.Parallel()
	x := newEgressFixture(t)
	const gates, days = 20, 7
	for range days {
		x.at = x.at.AddDate(0, 0, 1)
		for gate := range gates {
			x.record(t, fmt.Sprint("gate-", gate), x.report(usedCount("a.example", 1, x.at)))
		}
	}
	if got := x.list(t)["a.example"].Used; got != gates*days {
		t.Errorf("the log has %d uses, want %d", got, gates*days)
	}
}

// TestEgressLog_LosesNothingToRaces: reports of two gates, and of one gate twice, at the same time.
func TestEgressLog_LosesNothingToRaces(t *testing.T) {
	t.Parallel()
	x := newEgressFixture(t)
	var calls sync.WaitGroup
	for n := range 8 {
		calls.Go(func() {
			host := refusedCount(fmt.Sprintf("h%d.example", n/2), 1, x.at)
			for _, gate := range []string{"one", "two"} {
				if err := x.EgressLog().Record(t.Context(), gate, x.report(host)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	calls.Wait()
	got := x.list(t)
	for n := range 4 {
		if host := fmt.Sprintf("h%d.example", n); got[host].Refused != 2 {
			t.Errorf("%s was refused %d times, want 2", host, got[host].Refused)
		}
	}
	if got, want := x.refusals(t), []string{
		"h0.example", "h1.example", "h2.example", "h3.example",
	}; !slices.Equal(got, want) {
		t.Errorf("events about %q, want one about each of %q", got, want)
	}
}

func TestEgressLog_HasOneEventAnHourAndHost(t *testing.T) {
	t.Parallel()
	x := newEgressFixture(t)
	x.record(t, "one", x.report(refusedCount("a.example", 1, x.at)))
	x.record(t, "one", x.report(refusedCount("a.example", 1, x.at))) // again
	x.record(t, "two", x.report(refusedCount("a.example", 3, x.at)))
	first := x.at
	x.at = first.Add(egresslog.NoticeInterval - time.Second)
	x.record(t, "one", x.report(refusedCount("a.example", 2, x.at)))
	if got := x.refusals(t); len(got) != 1 {
		t.Errorf("within an hour there are events about %q, want one", got)
	}
	x.at = first.Add(egresslog.NoticeInterval)
	again := refusedCount("a.example", 2, x.at.Add(-time.Second))
	again.Used = 1
	x.record(t, "one", x.report(again)) // it was used since, and not refused
	if got := x.refusals(t); len(got) != 1 {
		t.Errorf("without a refusal there are events about %q, want one", got)
	}
	x.record(t, "two", x.report(refusedCount("a.example", 4, x.at)))
	if got := x.refusals(t); len(got) != 2 {
		t.Errorf("an hour later there are events about %q, want two", got)
	}
}

// TestEgressLog_BoundsEvents is about an agent that tries one host after the other.
func TestEgressLog_BoundsEvents(t *testing.T) {
	t.Parallel()
	x := newEgressFixture(t)
	var announced int
	x.OnEvents(func(_ context.Context, organizationID string) {
		if organizationID == x.org.ID {
			announced++
		}
	})
	var hosts []egress.Count
	for n := range egress.MaxCountedHosts {
		hosts = append(hosts, refusedCount(fmt.Sprintf("h%d.example", n), 1, x.at))
		if n%20 == 19 {
			x.record(t, "one", x.report(hosts...))
			x.record(t, "two", x.report(hosts...))
			x.Flush()
		}
	}
	if got := x.refusals(t); len(got) != egresslog.MaxNotices {
		t.Errorf("%d events, want %d", len(got), egresslog.MaxNotices)
	}
	if announced != 1 {
		t.Errorf("webhooks were nudged %d times, want once", announced)
	}
	x.at = x.at.Add(egresslog.NoticeInterval)
	hosts[0] = refusedCount("h0.example", 2, x.at)
	x.record(t, "one", x.report(hosts...))
	if got := x.refusals(t); len(got) != egresslog.MaxNotices+1 {
		t.Errorf("an hour later there are %d events, want one more", len(got))
	}
}

func TestEgressLog_DropsReportsAboutAgentsThatAreGone(t *testing.T) {
	t.Parallel()
	x := newEgressFixture(t)
	r := x.report(refusedCount("a.example", 1, x.at))
	_, err := x.Agents(nil).Change(x.org.Ctx, x.agent.ID, func(a *agent.Agent) error {
		return a.RequestDeletion("", x.at)
	})
	must(t, err)
	x.record(t, "one", r)
	a, err := x.WorkerStore().Load(t.Context(), x.agent.ID)
	must(t, err)
	must(t, x.WorkerStore().Remove(t.Context(), a, a.Deletion))
	x.record(t, "one", r)
	if got, events := x.list(t), x.refusals(t); len(got) != 0 || len(events) != 0 {
		t.Errorf("the log has %v, and events about %q, want nothing", got, events)
	}
}

func TestEgressLog_BoundsTheHostsOfADay(t *testing.T) {
	t.Parallel()
	x := newEgressFixture(t)
	x.record(t, "one", x.report(usedCount("first.example", 1, x.at)))
	for part := range 3 {
		var hosts []egress.Count
		for n := range egress.MaxCountedHosts {
			hosts = append(hosts, usedCount(fmt.Sprintf("h%d-%d.example", part, n), 1, x.at))
		}
		x.record(t, "one", x.report(hosts...))
	}
	x.record(t, "one", x.report(usedCount("first.example", 2, x.at)))
	if got := x.list(t); len(got) != egresslog.MaxHosts || got["first.example"].Used != 2 {
		t.Errorf("%d hosts, and %+v, want %d and 2 uses", len(got), got["first.example"], egresslog.MaxHosts)
	}
}

func TestEgressLog_CallsPerOperation(t *testing.T) {
	t.Parallel()
	recorder := &callRecorder{}
	c := open(t, "", Options{Observe: recorder.observe})
	a := agentFixture(c).Tenant(t, plan.Enterprise).Create(plan.Hobby)
	now := time.Now()
	record := func(times int64) func() {
		return func() {
			must(t, c.EgressLog().Record(t.Context(), "one", egress.Report{
				AgentID: a.ID, Day: now.UTC().Format(egress.DayFormat),
				Hosts: []egress.Count{refusedCount("a.example", times, now)},
			}))
		}
	}
	recorder.wantCalls(t, []callStep{
		{name: "record", do: record(1), want: "read commit"},
		{name: "record more", do: record(2), want: "read commit"},
		{name: "record again", do: record(2), want: "read"},
		{name: "list", do: func() { must(t, errorOf(c.EgressLog().List(t.Context(), a.ID))) }, want: "query"},
	})
}
