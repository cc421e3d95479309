package agents_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"agents.example/controlplane/functions/agents"
	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agentlog"
	"agents.example/controlplane/shared/agentlog/agentlogtest"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/ratelimit"
)

const org = "org-1"

// oneAgent is a store with one agent of one organization.
type oneAgent struct {
	agent.Store
	mu    sync.Mutex
	agent agent.Agent
}

// set changes the agent's status.
func (s *oneAgent) set(status agent.Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.agent.Status = status
}

// remove removes the agent.
func (s *oneAgent) remove() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.agent = agent.Agent{}
}

// Get implements agent.Store.
func (s *oneAgent) Get(ctx context.Context, id string) (agent.Agent, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if id != s.agent.ID || call.From(ctx).Caller.OrganizationID != s.agent.OrganizationID {
		return agent.Agent{}, agent.NotFound()
	}
	return s.agent, nil
}

// logFixture is the route over a simulated cell.
type logFixture struct {
	cell  *agentlogtest.Cell
	store *oneAgent
	agent agent.Agent
	route function.Route
	slots *ratelimit.Slots
}

func newLogFixture() logFixture {
	f := logFixture{
		cell:  agentlogtest.NewCell(),
		agent: agent.Agent{ID: uuid.NewString(), OrganizationID: org, Cell: "cell-1", Status: agent.Running},
	}
	f.store = &oneAgent{agent: f.agent}
	f.slots = ratelimit.NewSlots(ratelimit.StandardSlots(1, 40))
	f.route = agents.Log(f.store, f.cell, f.slots)
	return f
}

// get calls the route as an admin.
func (f logFixture) get(t *testing.T, query string, options ...functiontest.Option) functiontest.Response {
	t.Helper()
	values, err := url.ParseQuery(query)
	must(t, err)
	return functiontest.Call(t, f.route, append([]functiontest.Option{
		functiontest.AsAdmin(org), functiontest.Path("agent_id", f.agent.ID), functiontest.Query(values),
	}, options...)...)
}

// line is a line of an answer.
type line struct {
	Time      *time.Time `json:"time"`
	Message   string     `json:"message"`
	Stream    string     `json:"stream"`
	Cut       bool       `json:"cut"`
	Truncated bool       `json:"truncated"`
}

func decodeLines(t *testing.T, body []byte) []line {
	t.Helper()
	var lines []line
	for text := range strings.Lines(string(body)) {
		var l line
		if err := json.Unmarshal([]byte(text), &l); err != nil || !strings.HasSuffix(text, "\n") {
			t.Fatalf("line %d is %q: %v", len(lines), text, err)
		}
		lines = append(lines, l)
	}
	return lines
}

func messages(lines []line) string {
	var all []string
	for _, l := range lines {
		all = append(all, l.Message)
	}
	return strings.Join(all, " ")
}

func TestLog_WritesOneLineOfJSONPerLine(t *testing.T) {
	t.Parallel()
	f := newLogFixture()
	at := time.Date(2026, time.March, 2, 9, 30, 0, 5, time.UTC)
	p := f.cell.Start(f.agent.ID)
	p.Write(at, "<b> & \"quoted\"\u2028")
	p.Write(time.Time{}, "without a time")
	res := f.get(t, "").Want(t, http.StatusOK, "")
	want := `{"time":"2026-03-02T09:30:00.000000005Z","message":"<b> & \"quoted\"\u2028","stream":"combined"}` + "\n" +
		`{"time":null,"message":"without a time","stream":"combined"}` + "\n"
	if string(res.Body) != want {
		t.Errorf("body = %s, want %s", res.Body, want)
	}
	for name, value := range map[string]string{
		"Content-Type": "application/x-ndjson", "Cache-Control": "no-store", "Vary": "Accept",
	} {
		if got := res.Header.Get(name); got != value {
			t.Errorf("%s = %q, want %q", name, got, value)
		}
	}
}

func TestLog_ChoosesLines(t *testing.T) {
	t.Parallel()
	f := newLogFixture()
	p := f.cell.Start(f.agent.ID)
	p.Write(time.Now().Add(-time.Hour), "former")
	p.Restart()
	for i := range 300 {
		p.Write(time.Now().Add(time.Duration(i-300)*time.Minute), fmt.Sprint(i))
	}
	moment := url.QueryEscape(time.Now().Add(-150 * time.Second).Format(time.RFC3339Nano))
	for query, want := range map[string]struct {
		lines int
		first string
	}{
		"":                                     {200, "100"},
		"tail=1":                               {1, "299"},
		"tail=5000":                            {300, "0"},
		"since=90s":                            {1, "299"},
		"since=2m30s":                          {2, "298"},
		"since=" + moment:                      {2, "298"},
		"since=100h&tail=3":                    {3, "297"},
		"previous=true":                        {1, "former"},
		"previous=1&tail=5":                    {1, "former"},
		"ended=1":                              {1, "former"},
		"since=1ms":                            {0, ""},
		"since=1969-01-01T00:00:00Z&tail=5000": {300, "0"},
	} {
		lines := decodeLines(t, f.get(t, query).Want(t, http.StatusOK, "").Body)
		if len(lines) != want.lines || want.lines > 0 && lines[0].Message != want.first {
			t.Errorf("%s: %d lines, %q, want %d, the first %q", query, len(lines), messages(lines), want.lines,
				want.first)
		}
	}
}

func TestLog_RefusesInvalidParameters(t *testing.T) {
	t.Parallel()
	f := newLogFixture()
	f.cell.Start(f.agent.ID)
	for query, where := range map[string]string{
		"tail=0": "tail", "tail=5001": "tail", "tail=-1": "tail", "tail=x": "tail", "since=yesterday": "since",
		"since=10": "since", "since=0s": "since", "since=-5m": "since", "since=": "since",
		"since=2026-02-30T00:00:00Z": "since",
		"follow=maybe":               "follow", "previous=2": "previous", "previous=true&follow=true": "follow",
		"ended=0": "ended", "ended=6": "ended", "ended=true": "ended", "ended=1&follow=true": "follow",
		"ended=1&previous=true": "ended",
	} {
		res := f.get(t, query)
		if res.Status != http.StatusUnprocessableEntity ||
			!strings.Contains(string(res.Body), `"loc":["query","`+where+`"]`) {
			t.Errorf("%s: answer %d %s, want 422 for %s", query, res.Status, res.Body, where)
		}
	}
	res := f.get(t, "follow=true", functiontest.Header("Last-Event-ID", "1"))
	if res.Status != http.StatusUnprocessableEntity ||
		!strings.Contains(string(res.Body), `["header","Last-Event-ID"]`) {
		t.Errorf("a bad Last-Event-ID: answer %d %s, want 422 for it", res.Status, res.Body)
	}
}

func TestLog_ExplainsWhyThereIsNoLog(t *testing.T) {
	t.Parallel()
	down := fault.New(fault.Unavailable, "cluster_unavailable", "Retry.")
	for name, c := range map[string]struct {
		prepare    func(f logFixture)
		query      string
		as         functiontest.Option
		wantStatus int
		wantCode   string
		wantRetry  bool
	}{
		"no pod": {wantStatus: 409, wantCode: "agent_not_running"},
		"no pod to follow": {
			query: "follow=true", wantStatus: 409, wantCode: "agent_not_running",
		},
		"no previous container": {
			prepare: func(f logFixture) { f.cell.Start(f.agent.ID) },
			query:   "previous=true", wantStatus: 409, wantCode: "agent_not_restarted",
		},
		"the cluster does not answer": {
			prepare: func(f logFixture) { f.cell.Fail = func() error { return down } }, wantStatus: 503,
			wantCode: "cluster_unavailable", wantRetry: true,
		},
		"another organization": {
			prepare: func(f logFixture) { f.cell.Start(f.agent.ID) },
			as:      functiontest.AsAdmin("org-2"), wantStatus: 404, wantCode: "agent_not_found",
		},
		"a member": {as: functiontest.AsMember(org), wantStatus: 403, wantCode: "role_required"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newLogFixture()
			if c.prepare != nil {
				c.prepare(f)
			}
			var options []functiontest.Option
			if c.as != nil {
				options = append(options, c.as)
			}
			res := f.get(t, c.query, options...).Want(t, c.wantStatus, c.wantCode)
			if got := res.Header.Get("Retry-After") != ""; got != c.wantRetry {
				t.Errorf("Retry-After = %q, want one: %t", res.Header.Get("Retry-After"), c.wantRetry)
			}
			meta, _ := res.JSON["meta"].(map[string]any)
			if c.wantStatus == http.StatusConflict && (meta["status"] != "running" || meta["allowed_actions"] == nil) {
				t.Errorf("meta = %v, want the agent's status and what it allows", meta)
			}
		})
	}
}

func TestLog_TellsHowAContainerEnded(t *testing.T) {
	t.Parallel()
	f := newLogFixture()
	p := f.cell.Start(f.agent.ID)
	p.Write(time.Now(), "one", "two")
	p.Restart()
	f.cell.Keep(f.agent.ID)
	f.cell.Remove(f.agent.ID) // as a stop does
	lines := strings.Split(strings.TrimSpace(string(f.get(t, "ended=1").Want(t, http.StatusOK, "").Body)), "\n")
	if len(lines) != 2 || strings.Contains(lines[1], "ended") {
		t.Fatalf("answer %q, want two lines of which only the first says how the container ended", lines)
	}
	var first struct{ Ended agentlog.EndedView }
	must(t, json.Unmarshal([]byte(lines[0]), &first))
	e := first.Ended
	if e.StartedAt != nil || time.Since(e.EndedAt) > time.Minute || e.ExitCode != 1 || e.Reason != "Error" {
		t.Errorf("the first line says %+v, want an end just now with exit code 1", e)
	}
	f.get(t, "ended=2").Want(t, http.StatusConflict, "agent_not_restarted")
}

func TestLog_CutsLinesAndTruncatesAnswers(t *testing.T) {
	t.Parallel()
	f := newLogFixture()
	p := f.cell.Start(f.agent.ID)
	long := strings.Repeat("\x01", 2*agentlog.MaxMessage) // six bytes each in JSON
	for range 60 {
		p.Write(time.Now(), long)
	}
	res := f.get(t, "")
	lines := decodeLines(t, res.Body)
	if len(res.Body) > agentlog.MaxAnswer || len(res.Body) < agentlog.MaxAnswer*9/10 {
		t.Errorf("the answer has %d bytes, want a little less than %d", len(res.Body), agentlog.MaxAnswer)
	}
	for i, l := range lines {
		if last := i == len(lines)-1; l.Truncated != last {
			t.Errorf("line %d of %d: truncated = %t, want %t", i, len(lines), l.Truncated, last)
		}
		if !l.Cut || len(l.Message) != agentlog.MaxMessage {
			t.Errorf("line %d: cut = %t with %d bytes, want true with %d", i, l.Cut, len(l.Message),
				agentlog.MaxMessage)
		}
	}
	lines = decodeLines(t, f.get(t, "tail=3").Body)
	if len(lines) != 3 || lines[2].Truncated {
		t.Errorf("three lines: got %d, truncated = %t", len(lines), lines[len(lines)-1].Truncated)
	}
}

func TestLog_AnswersHeadWithoutReadingTheLog(t *testing.T) {
	t.Parallel()
	f := newLogFixture()
	f.cell.Start(f.agent.ID).Write(time.Now(), "a")
	f.route.Method = http.MethodHead
	for _, query := range []string{"", "follow=true"} {
		if res := f.get(t, query); res.Status != http.StatusOK || len(res.Body) > 0 {
			t.Errorf("HEAD with %q: %d with %d bytes, want 200 without a body", query, res.Status, len(res.Body))
		}
	}
}

// TestLog_KeepsLinesOutOfOurLog checks the log lines of calls that succeed, that fail and that are broken off.
func TestLog_KeepsLinesOutOfOurLog(t *testing.T) { //nolint:paralleltest // captures the process's logger
	var logged bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewJSONHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug})))
	defer slog.SetDefault(before)
	f := newLogFixture()
	p := f.cell.Start(f.agent.ID)
	p.Write(time.Now(), strings.Repeat("CANARY", 10_000), "CANARY")
	f.get(t, "").Want(t, http.StatusOK, "")
	ended, end := context.WithCancel(t.Context())
	end()
	f.get(t, "follow=true", functiontest.WithContext(ended))
	failing := agents.Log(f.store, brokenSource{}, f.slots)
	functiontest.Call(t, failing, functiontest.AsAdmin(org), functiontest.Path("agent_id", f.agent.ID)).
		Want(t, http.StatusServiceUnavailable, "cluster_unavailable")
	if n := strings.Count(logged.String(), "GetAgentLogs"); n != 3 || strings.Contains(logged.String(), "CANARY") {
		t.Errorf("%d lines, want 3 without the agent's: %.2000s", n, logged.String())
	}
}

// brokenSource opens logs that break off after a line.
type brokenSource struct{}

// Open implements agentlog.Source.
func (brokenSource) Open(context.Context, agent.Agent, agentlog.Options) (agentlog.Stream, error) {
	return &brokenStream{}, nil
}

type brokenStream struct{ lines int }

// Next implements agentlog.Stream.
func (s *brokenStream) Next() (agentlog.Line, error) {
	if s.lines++; s.lines > 2 {
		return agentlog.Line{}, fault.New(fault.Unavailable, "cluster_unavailable", "Retry.")
	}
	return agentlog.Line{Message: "CANARY", Output: agentlog.Combined}, nil
}

// Position implements agentlog.Stream.
func (*brokenStream) Position() agentlog.Position { return agentlog.Position{} }

// Close implements agentlog.Stream.
func (*brokenStream) Close() error { return nil }

// TestLog_OfAnAgentThatSleepsSaysWhatWakesIt names requests only for an agent that they wake.
func TestLog_OfAnAgentThatSleepsSaysWhatWakesIt(t *testing.T) {
	t.Parallel()
	for _, wakers := range [][]agent.Waker{{agent.RequestWakes}, {agent.ScheduleWakes}} {
		f := newLogFixture()
		f.store.agent.Status, f.store.agent.StatusReason = agent.Paused, agent.ReasonIdle
		f.store.agent.Sleep = agent.SleepPolicy{AfterSeconds: 300, WakeOn: wakers}
		detail, _ := f.get(t, "").Want(t, http.StatusConflict, "agent_not_running").JSON["detail"].(string)
		if !strings.Contains(detail, "asleep") || !strings.Contains(detail, "Resume it") ||
			strings.Contains(detail, "A request") != (wakers[0] == agent.RequestWakes) {
			t.Errorf("woken by %v: %q", wakers, detail)
		}
	}
}
