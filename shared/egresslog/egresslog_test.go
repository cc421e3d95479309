package egresslog_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"agents.example/controlplane/shared/egress"
	"agents.example/controlplane/shared/egresslog"
	"agents.example/controlplane/shared/event"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/testtier"
)

func TestMain(m *testing.M) {
	testtier.SilenceLogs()
	m.Run()
}

func now() time.Time { return time.Date(2026, time.March, 2, 9, 30, 0, 0, time.UTC) }

func refused(host string, times int64, at time.Time) egress.Count {
	return egress.Count{
		Host: host, Refused: times, Reason: egress.NotListed, FirstAt: at, LastAt: at, RefusedAt: at,
	}
}

// log keeps what is recorded. It fails for one agent, and hangs for another.
type log struct {
	failing, hanging string

	mu       sync.Mutex
	recorded []string
}

func (l *log) Record(ctx context.Context, gate string, r egress.Report) error {
	if r.AgentID == l.hanging {
		<-ctx.Done()
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.AgentID == l.failing {
		return fault.New(fault.Unavailable, "store_unavailable", "No.")
	}
	l.recorded = append(l.recorded, gate+" "+r.AgentID)
	return nil
}

func (l *log) List(context.Context, string) ([]egress.Count, error) { return nil, nil }

func TestRecorder_DropsWhatNoGateSends(t *testing.T) {
	t.Parallel()
	valid := func() egress.Report {
		return egress.Report{AgentID: uuid.NewString(), Day: "2026-03-02", Hosts: []egress.Count{
			refused("a.example", 2, now()), {Host: egress.OtherHosts, Used: 1, FirstAt: now(), LastAt: now()},
		}}
	}
	tooMany := make([]egress.Count, egresslog.MaxHosts+1)
	for name, row := range map[string]struct {
		change func(*egress.Report)
		kept   bool
	}{
		"as it is":                   {change: func(*egress.Report) {}, kept: true},
		"no hosts":                   {change: func(r *egress.Report) { r.Hosts = nil }, kept: true},
		"yesterday":                  {change: func(r *egress.Report) { move(r, -1) }, kept: true},
		"a week ago":                 {change: func(r *egress.Report) { move(r, -7) }, kept: true},
		"longer ago than it is kept": {change: func(r *egress.Report) { move(r, -9) }},
		"tomorrow":                   {change: func(r *egress.Report) { move(r, 1) }},
		"no agent":                   {change: func(r *egress.Report) { r.AgentID = "" }},
		"an agent in upper case":     {change: func(r *egress.Report) { r.AgentID = strings.ToUpper(r.AgentID) }},
		"a path":                     {change: func(r *egress.Report) { r.AgentID = "../agents" }},
		"no day":                     {change: func(r *egress.Report) { r.Day = "today" }},
		"too many hosts":             {change: func(r *egress.Report) { r.Hosts = tooMany }},
		"no host":                    {change: func(r *egress.Report) { r.Hosts[0].Host = "" }},
		"a long host":                {change: func(r *egress.Report) { r.Hosts[0].Host = strings.Repeat("a", 254) }},
		"a host for terminals":       {change: func(r *egress.Report) { r.Hosts[0].Host = "a\x1b[2J.example" }},
		"a host in Unicode":          {change: func(r *egress.Report) { r.Hosts[0].Host = "ä.example" }},
		"fewer than none":            {change: func(r *egress.Report) { r.Hosts[0].Used = -1 }},
		"more than possible":         {change: func(r *egress.Report) { r.Hosts[0].Refused = 1 << 62 }},
		"no time":                    {change: func(r *egress.Report) { r.Hosts[1].FirstAt = time.Time{} }},
		"a time of another day":      {change: func(r *egress.Report) { r.Hosts[0].LastAt = now().AddDate(0, 0, -1) }},
		"a time in the future":       {change: func(r *egress.Report) { r.Hosts[0].LastAt = now().Add(time.Hour) }},
		"a later reason":             {change: func(r *egress.Report) { r.Hosts[0].Reason = "of_later" }, kept: true},
		"a reason that is none":      {change: func(r *egress.Report) { r.Hosts[0].Reason = "<script>" }},
		"a refusal without a reason": {change: func(r *egress.Report) { r.Hosts[0].Reason = "" }},
		"a long reason": {
			change: func(r *egress.Report) { r.Hosts[0].Reason = egress.Reason(strings.Repeat("a", 65)) },
		},
		"a refusal without a time":   {change: func(r *egress.Report) { r.Hosts[0].RefusedAt = time.Time{} }},
		"a time without a refusal":   {change: func(r *egress.Report) { r.Hosts[1].RefusedAt = now() }},
		"a reason without a refusal": {change: func(r *egress.Report) { r.Hosts[1].Reason = egress.Denied }},
	} {
		r, l := valid(), &log{}
		row.change(&r)
		other := valid()
		recorder := &egresslog.Recorder{Log: l, Now: now}
		err := recorder.Record(t.Context(), egress.Reports{Gate: "gate-1", Reports: []egress.Report{r, other}})
		if kept := slices.Contains(l.recorded, "gate-1 "+r.AgentID); err != nil || kept != row.kept {
			t.Errorf("%s: recorded %t, %v; want %t", name, kept, err, row.kept)
		}
		if !slices.Contains(l.recorded, "gate-1 "+other.AgentID) {
			t.Errorf("%s: the other report of the message is lost", name)
		}
	}
	for _, gate := range []string{"", "a/b", "a\nb", strings.Repeat("g", 101)} {
		l := &log{}
		recorder := &egresslog.Recorder{Log: l, Now: now}
		err := recorder.Record(t.Context(), egress.Reports{Gate: gate, Reports: []egress.Report{valid()}})
		if err != nil || len(l.recorded) != 0 {
			t.Errorf("the gate %q: recorded %v, %v; want nothing", gate, l.recorded, err)
		}
	}
}

// move moves a report to another day.
func move(r *egress.Report, days int) {
	r.Day = now().AddDate(0, 0, days).Format(egress.DayFormat)
	for i := range r.Hosts {
		c := &r.Hosts[i]
		c.FirstAt, c.LastAt = c.FirstAt.AddDate(0, 0, days), c.LastAt.AddDate(0, 0, days)
		if !c.RefusedAt.IsZero() {
			c.RefusedAt = c.RefusedAt.AddDate(0, 0, days)
		}
	}
}

// TestRecorder_FailsSoThatTheMessageComesAgain: an outage is reported, and not waited for once for each report.
func TestRecorder_FailsSoThatTheMessageComesAgain(t *testing.T) {
	t.Parallel()
	m := egress.Reports{Gate: "gate-1"}
	for range 100 {
		m.Reports = append(m.Reports, egress.Report{AgentID: uuid.NewString(), Day: "2026-03-02"})
	}
	l := &log{hanging: m.Reports[0].AgentID, failing: m.Reports[1].AgentID}
	recorder := &egresslog.Recorder{Log: l, Now: now}
	if err := recorder.Record(t.Context(), m); !fault.Is(err, fault.Unavailable) {
		t.Errorf("Record = %v, want Unavailable", err)
	}
	l.failing, l.hanging = "", ""
	if err := recorder.Record(t.Context(), m); err != nil {
		t.Errorf("Record of the message that comes again = %v", err)
	}
	for _, r := range m.Reports {
		if !slices.Contains(l.recorded, "gate-1 "+r.AgentID) {
			t.Errorf("the report about %s is lost", r.AgentID)
		}
	}
}

func TestAnnounce_NamesHostsOnly(t *testing.T) {
	t.Parallel()
	events, notices := egresslog.Announce(nil, nil, []egress.Count{
		refused(egress.OtherHosts, 9, now()), refused("(no name)", 9, now()), refused("10.0.0.1", 9, now()),
		refused("late.example", 9, now().Add(-egresslog.NoticeInterval)),
		{Host: "used.example", Used: 1, FirstAt: now(), LastAt: now()},
		refused("a.example", 3, now()),
	}, now())
	if len(events) != 1 || len(notices) != 1 || notices[0].Host != "a.example" {
		t.Fatalf("events %v, notices %v; want one about a.example", events, notices)
	}
	const want = `{"host":"a.example","reason":"not_listed","count":3,"refused_at":"2026-03-02T09:30:00Z"}`
	if events[0].Type != event.EgressRefused || string(events[0].Data) != want {
		t.Errorf("event %s %s, want egress.refused %s", events[0].Type, events[0].Data, want)
	}
}

func TestAnnounce_BoundsNotices(t *testing.T) {
	t.Parallel()
	var counts []egress.Count
	for n := range 1000 {
		counts = append(counts, refused(fmt.Sprintf("h%d.example", n), 1, now()))
	}
	events, notices := egresslog.Announce(nil, nil, counts, now())
	if len(events) != egresslog.MaxNotices || len(notices) != egresslog.MaxNotices {
		t.Errorf("%d events and %d notices, want %d", len(events), len(notices), egresslog.MaxNotices)
	}
	again, kept := egresslog.Announce(notices, nil, counts, now().Add(egresslog.NoticeInterval-time.Second))
	if len(again) != 0 || len(kept) != egresslog.MaxNotices {
		t.Errorf("%d events more within the hour, and %d notices", len(again), len(kept))
	}
	for i := range counts {
		counts[i].RefusedAt = now().Add(egresslog.NoticeInterval)
	}
	if later, _ := egresslog.Announce(notices, nil, counts, now().Add(egresslog.NoticeInterval)); len(later) !=
		egresslog.MaxNotices {
		t.Errorf("%d events an hour later, want %d", len(later), egresslog.MaxNotices)
	}
}

func TestShow_PutsTheLastRefusalFirst(t *testing.T) {
	t.Parallel()
	at := func(minutes int) time.Time { return now().Add(time.Duration(minutes) * time.Minute) }
	counts := []egress.Count{
		{Host: "used.example", Used: 2, FirstAt: at(0), LastAt: at(9)},
		refused("early.example", 1, at(1)),
		refused("late.example", 1, at(3)),
		{Host: "before.example", Used: 1, FirstAt: at(0), LastAt: at(8)},
		refused(egress.OtherHosts, 1, at(0)),
	}
	rules := egress.Rules{Mode: egress.AllowList, Allow: []string{"*.example"}, Deny: []string{"late.example"}}
	v := egresslog.Show(counts, rules, at(10))
	var got []string
	for _, item := range v.Items {
		got = append(got, fmt.Sprint(item.Host, " ", item.Allowed))
	}
	want := []string{
		"late.example false", "early.example true", "(others) false", "used.example true", "before.example true",
	}
	if !slices.Equal(got, want) {
		t.Errorf("items %q, want %q", got, want)
	}
	if open := egresslog.Show(counts, egress.Rules{}, at(10)); !open.Items[0].Allowed || !open.Items[2].Allowed {
		t.Error("an agent with open egress is shown as one that may not reach a host")
	}
	many := make([]egress.Count, egresslog.MaxShown+1)
	if n := len(egresslog.Show(many, rules, now()).Items); n != egresslog.MaxShown {
		t.Errorf("%d items, want %d", n, egresslog.MaxShown)
	}
	if text, err := json.Marshal(egresslog.Show(nil, rules, now())); err != nil ||
		!strings.Contains(string(text), `"items":[]`) {
		t.Errorf("an empty log is %s, %v", text, err)
	}
}

func TestLost_AreHostsInUse(t *testing.T) {
	t.Parallel()
	used := func(host string, minutes int) egress.Count {
		return egress.Count{Host: host, Used: 1, LastAt: now().Add(time.Duration(minutes) * time.Minute)}
	}
	counts := []egress.Count{
		used("a.example", 1), used("b.example", 2), used("kept.example", 3), used("other.org", 4),
		used(egress.OtherHosts, 5), refused("c.example", 1, now()),
	}
	before := egress.Rules{Mode: egress.AllowList, Allow: []string{"*.example"}}
	after := egress.Rules{Mode: egress.AllowList, Allow: []string{"kept.example"}}
	for name, row := range map[string]struct {
		before, after egress.Rules
		want          []string
	}{
		"another list": {before: before, after: after, want: []string{"b.example", "a.example"}},
		"a first list": {after: after, want: []string{"other.org", "b.example", "a.example"}},
		"no list":      {before: before},
		"the same":     {before: before, after: before},
	} {
		var got []string
		for _, c := range egresslog.Lost(counts, row.before, row.after) {
			got = append(got, c.Host)
		}
		if !slices.Equal(got, row.want) {
			t.Errorf("%s: lost %q, want %q", name, got, row.want)
		}
	}
}
