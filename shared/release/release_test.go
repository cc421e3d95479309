package release

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/image"
	"agents.example/controlplane/shared/metrics"
	"agents.example/controlplane/shared/page"
)

var began = time.Date(2026, 3, 2, 9, 30, 0, 0, time.UTC)

func testImages() image.Set {
	return image.Set{Catalog: []image.Image{{
		ID: "assistant", DefaultVersion: "1", Versions: []image.Version{
			{Version: "1", Reference: "r/a@sha256:1", State: image.Available},
			{Version: "2", Reference: "r/a@sha256:2", State: image.Available},
			{Version: "3", Reference: "r/a@sha256:3", State: image.Withdrawn},
		},
	}}}
}

func testOrder() Order {
	return Order{Image: "assistant", Version: "2", Waves: DefaultWaves(), Soak: DefaultSoak, MaxFailed: 2, By: "ada"}
}

func TestNew_RefusesWhatCannotBeReleased(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		change func(*Order)
		want   string
	}{
		"unknown image":      {change: func(o *Order) { o.Image = "other" }, want: `no image "other"`},
		"unknown version":    {change: func(o *Order) { o.Version = "9" }, want: `no version "9"`},
		"withdrawn version":  {change: func(o *Order) { o.Version = "3" }, want: "withdrawn"},
		"no waves":           {change: func(o *Order) { o.Waves = nil }, want: "the last wave must be 100"},
		"waves that end":     {change: func(o *Order) { o.Waves = []int{1, 50} }, want: "the last wave must be 100"},
		"waves that shrink":  {change: func(o *Order) { o.Waves = []int{50, 10, 100} }, want: "growing percentages"},
		"too much":           {change: func(o *Order) { o.Waves = []int{50, 101} }, want: "growing percentages"},
		"an endless soak":    {change: func(o *Order) { o.Soak = 8 * 24 * time.Hour }, want: "at most"},
		"a negative soak":    {change: func(o *Order) { o.Soak = -1 }, want: "at most"},
		"more than all fail": {change: func(o *Order) { o.MaxFailed = 101 }, want: "0 to 100"},
		"unknown cell":       {change: func(o *Order) { o.Cell = "mars" }, want: `no cell "mars"`},
	} {
		o := testOrder()
		row.change(&o)
		if _, err := New(o, testImages(), []string{"cell-1"}, began); err == nil ||
			!strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want %q", name, err, row.want)
		}
	}
	r, err := New(testOrder(), testImages(), []string{"cell-1"}, began)
	if err != nil || r.State != Running || r.Target.Reference != "r/a@sha256:2" || r.Former.Version != "1" {
		t.Errorf("New = %+v, %v", r, err)
	}
}

// TestAct_FollowsTheTable tries every action in every state.
func TestAct_FollowsTheTable(t *testing.T) {
	t.Parallel()
	want := map[State]map[Action]State{
		Running:   {Pause: Paused, Revert: Reverting, stop: Stopped, finish: Done},
		Paused:    {Resume: Running, Revert: Reverting},
		Stopped:   {Resume: Running, Revert: Reverting},
		Done:      {Revert: Reverting, stop: Stopped},
		Reverting: {finish: Reverted},
		Reverted:  {},
	}
	for from, actions := range want {
		for _, action := range []Action{Pause, Resume, Revert, stop, finish} {
			r := Release{ID: "a-1", State: from}
			err := r.Act(action, began)
			to, allowed := actions[action]
			if allowed != (err == nil) || allowed && r.State != to || !allowed && !fault.Is(err, fault.Conflict) {
				t.Errorf("%s in %s: %s, %v, want %s", action, from, r.State, err, to)
			}
			if err == nil && (r.State == Running || r.State == Reverting) == r.DueAt.IsZero() {
				t.Errorf("%s in %s: due %v in state %s", action, from, r.DueAt, r.State)
			}
		}
		superseded := Release{ID: "a-1", State: from, Successor: "a-2"}
		if err := superseded.Act(Revert, began); !fault.Is(err, fault.Conflict) {
			t.Errorf("revert of a %s release with a successor: %v", from, err)
		}
	}
}

// soaking is an agent that has run the version for a time.
func soaking(r Release, restarts int64) agent.Agent {
	a := agent.Agent{
		ID: "a", Status: agent.Running, WatchedBy: r.ID, Image: agent.Software{Choice: r.Target, Update: agent.Update{
			Release: r.ID, Version: "2", State: agent.UpdateSoaking, MovedAt: began, ReadyAt: began,
		}},
	}
	a.PodRestarts.Total = restarts
	return a
}

// served is a snapshot with a rate of requests and of errors, in one day before the move and since.
func served(t *testing.T, requests, errorsBefore, errorsSince float64, restarts float64) *metrics.Snapshot {
	t.Helper()
	m := metrics.New("a", "o")
	for at := began.Add(-20 * time.Hour); at.Before(began.Add(30 * time.Minute)); at = at.Add(5 * time.Minute) {
		rate := errorsBefore
		if !at.Before(began) {
			rate = errorsSince
		}
		m.Requests.Day.Set(at.Add(5*time.Minute), requests)
		m.Errors.Day.Set(at.Add(5*time.Minute), rate)
	}
	m.Restarted.Set(began.Add(-time.Hour), restarts)
	m.CollectedAt = began.Add(40 * time.Minute)
	return &m
}

func TestJudge_ComparesAnAgentWithItsPast(t *testing.T) {
	t.Parallel()
	r := Release{
		ID:     "assistant-1",
		Image:  "assistant",
		Soak:   10 * time.Minute,
		Target: image.Choice{ID: "assistant", Version: "2"},
	}
	late := began.Add(10 * time.Minute)
	old := served(t, 1, 0, 0, 0)
	old.CollectedAt = began.Add(time.Minute)
	for name, row := range map[string]struct {
		restarts int64
		metrics  *metrics.Snapshot
		at       time.Time
		want     kind
	}{
		"before the end of the soak":       {at: late.Add(-time.Second), metrics: served(t, 1, 0, 0, 0)},
		"at the end":                       {at: late, metrics: served(t, 1, 0, 0, 0), want: countUpdated},
		"without metrics":                  {at: late, want: countUpdated},
		"before the metrics of the soak":   {at: late, metrics: old},
		"long without metrics of the soak": {at: late.Add(metricsPatience), metrics: old, want: countUpdated},
		"one restart":                      {at: late, restarts: 1, want: countUpdated},
		"two restarts":                     {at: began.Add(time.Minute), restarts: 2, want: goBack},
		"as many restarts as before": {
			at: late, restarts: 2, metrics: served(t, 1, 0, 0, 24*6), want: countUpdated,
		},
		"as many restarts as before, after a pause": {
			at: began.Add(48 * time.Hour), restarts: 48, metrics: served(t, 1, 0, 0, 24), want: countUpdated,
		},
		"more restarts than before, after a pause": {
			at: began.Add(48 * time.Hour), restarts: 50, metrics: served(t, 1, 0, 0, 24), want: goBack,
		},
		"every request fails":               {at: late, metrics: served(t, 1, 0, 1, 0), want: goBack},
		"every request failed before, too":  {at: late, metrics: served(t, 1, 1, 1, 0), want: countUpdated},
		"a tenth fails":                     {at: late, metrics: served(t, 1, 0, 0.1, 0), want: goBack},
		"a tenth fails, and a tenth before": {at: late, metrics: served(t, 1, 0.1, 0.1, 0), want: countUpdated},
		"few requests fail":                 {at: late, metrics: served(t, 0.01, 0, 0.01, 0), want: countUpdated},
	} {
		a := soaking(r, row.restarts)
		if row.metrics != nil {
			recordPast(&a.Image.Update, *row.metrics)
		}
		if got := r.judge(a, row.metrics, row.at); got.kind != row.want {
			t.Errorf("%s: %+v, want %q", name, got, row.want)
		}
	}
	broken := soaking(r, 0)
	broken.Status = agent.Error
	if got := r.judge(broken, nil, late); got.kind != "" {
		t.Errorf("an agent in error: %+v, want that the release waits", got)
	}
}

// TestJudge_CountsNothingOfTheSoakAsThePast judges an agent whose container ends once an hour, or that fails a tenth of
// its requests, after a soak of a day. Its metrics have forgotten what was before. It goes back unless that was so
// before.
func TestJudge_CountsNothingOfTheSoakAsThePast(t *testing.T) {
	t.Parallel()
	const soak = 24 * time.Hour
	r := Release{ID: "assistant-1", Image: "assistant", Soak: soak, Target: image.Choice{ID: "assistant", Version: "2"}}
	for name, row := range map[string]struct {
		before, since day
		want          kind
	}{
		"restarts with the new version":       {since: day{restarts: 1}, want: goBack},
		"restarts with both":                  {before: day{restarts: 1}, since: day{restarts: 1}, want: countUpdated},
		"fails with the new version":          {since: day{failed: 0.1}, want: goBack},
		"fails with both":                     {before: day{failed: 0.1}, since: day{failed: 0.1}, want: countUpdated},
		"restarted and failed with the first": {before: day{restarts: 1, failed: 0.1}, want: countUpdated},
	} {
		m := metrics.New("a", "o")
		row.before.add(&m, began.Add(-soak))
		a := soaking(r, int64(24*row.since.restarts))
		recordPast(&a.Image.Update, m)
		row.since.add(&m, began)
		if got := r.judge(a, &m, began.Add(soak)); got.kind != row.want {
			t.Errorf("an agent that %s: %+v, want %q", name, got, row.want)
		}
	}
}

// TestJudge_SeesFailuresAfterAPause judges an agent, two days after a soak of ten minutes, that fails its requests.
func TestJudge_SeesFailuresAfterAPause(t *testing.T) {
	t.Parallel()
	r := Release{
		ID: "assistant-1", Image: "assistant", Soak: 10 * time.Minute,
		Target: image.Choice{ID: "assistant", Version: "2"},
	}
	m := metrics.New("a", "o")
	for _, from := range []time.Duration{0, 24 * time.Hour} {
		day{failed: 1}.add(&m, began.Add(from))
	}
	if got := r.judge(soaking(r, 0), &m, began.Add(48*time.Hour)); got.kind != goBack {
		t.Errorf("%+v, want that it goes back", got)
	}
}

// day is how an agent serves for a day: how often its container ends in an hour, and which share of its requests fails.
type day struct{ restarts, failed float64 }

func (d day) add(m *metrics.Snapshot, from time.Time) {
	for at := from.Add(5 * time.Minute); !at.After(from.Add(24 * time.Hour)); at = at.Add(5 * time.Minute) {
		m.Requests.Day.Set(at, 1)
		m.Errors.Day.Set(at, d.failed)
		if at.Minute() == 0 {
			m.Restarted.Set(at, d.restarts)
		}
	}
}

// world has agents and their metrics, and keeps the last commit of a release.
type world struct {
	Store
	Agents

	due     []Release
	agents  []agent.Agent
	metrics map[string]metrics.Snapshot
	saved   []Change
}

func (w *world) ListAll(context.Context, string, int) (page.Page[agent.Agent], error) {
	return page.Page[agent.Agent]{Items: w.agents}, nil
}

func (w *world) ListDue(context.Context, time.Time) ([]Release, error) { return w.due, nil }

func (w *world) ListWatched(context.Context, string, int) ([]agent.Agent, error) { return nil, nil }

func (w *world) Load(context.Context, []string) (map[string]metrics.Snapshot, error) {
	return w.metrics, nil
}

func (w *world) Save(_ context.Context, r Release, changes []Change) (Release, error) {
	w.saved = changes
	return r, nil
}

func (w *world) Nudge(context.Context, string) error { return nil }

// TestMove_RecordsThePast: an agent that always restarted, or failed requests, is compared with that also after its
// metrics have forgotten it.
func TestMove_RecordsThePast(t *testing.T) {
	t.Parallel()
	r := Release{
		ID: "assistant-1", Image: "assistant", Waves: []int{100}, Total: 2, Surveyed: true, DefaultSet: true,
		Target: image.Choice{ID: "assistant", Version: "2", Reference: "r/a@sha256:2"},
	}
	known := agent.Agent{
		ID: "known", Status: agent.Running,
		Image: agent.Software{Choice: image.Choice{ID: "assistant", Version: "1", Reference: "r/a@sha256:1"}},
	}
	unknown := known
	unknown.ID = "unknown"
	m := metrics.New("a", "o")
	day{restarts: 1, failed: 0.5}.add(&m, began.Add(-24*time.Hour))
	w := &world{agents: []agent.Agent{known, unknown}, metrics: map[string]metrics.Snapshot{known.ID: m}}
	o := &Roller{Releases: w, Agents: w, Metrics: w, Nudger: w, Now: func() time.Time { return began }}
	if _, err := o.move(t.Context(), r, &watch{}); err != nil || len(w.saved) != 2 {
		t.Fatalf("%d agents were moved, %v; want 2", len(w.saved), err)
	}
	for i, want := range []agent.Update{{PastRestarts: 24, PastErrors: 0.5}, {}} {
		got := w.saved[i].After.Image.Update
		if got.PastRestarts != want.PastRestarts || got.PastErrors != want.PastErrors {
			t.Errorf("the past of agent %s: %d restarts, errors %g; want %d and %g", w.saved[i].After.ID,
				got.PastRestarts, got.PastErrors, want.PastRestarts, want.PastErrors)
		}
	}
}

// noImages is the catalog of a deployment whose settings name the images.
type noImages struct{ Images }

func (noImages) Get(context.Context, string) (image.Image, error) {
	return image.Image{}, fault.New(fault.NotFound, "image_not_found", "No image.")
}

// TestRun_CarriesOnWhatItKnows: after a roll-back, a release may be in a state of the later release, such as one that
// waits for an approval.
func TestRun_CarriesOnWhatItKnows(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		state State
		want  int
	}{
		"running":                 {state: Running, want: 1},
		"in a later one's state":  {state: "awaiting_approval"},
		"paused and due by error": {state: Paused},
	} {
		w := &world{
			agents: []agent.Agent{{
				ID: "a", Status: agent.Running,
				Image: agent.Software{Choice: image.Choice{ID: "assistant", Version: "1", Reference: "r/a@sha256:1"}},
			}},
			due: []Release{{
				ID: "assistant-1", Image: "assistant", Waves: []int{100}, Total: 1, Surveyed: true, DefaultSet: true,
				Target: image.Choice{ID: "assistant", Version: "2", Reference: "r/a@sha256:2"}, State: row.state,
			}},
		}
		o := &Roller{
			Releases: &lastStep{w}, Agents: w, Images: noImages{}, Metrics: w, Nudger: w,
			Now: func() time.Time { return began },
		}
		if err := o.Run(t.Context()); err != nil && row.want == 0 {
			t.Errorf("%s: %v", name, err)
		}
		if len(w.saved) != row.want {
			t.Errorf("%s: %d agents were moved, want %d", name, len(w.saved), row.want)
		}
	}
}

// TestRun_WaitsForWindowsAfterALongLastWave: the release was paused for ten days in its last wave, or soaked for long.
func TestRun_WaitsForWindowsAfterALongLastWave(t *testing.T) {
	t.Parallel()
	now := began.Add(10 * 24 * time.Hour)
	r := Release{
		ID: "assistant-1", Image: "assistant", Waves: []int{100}, WaveAt: began, Surveyed: true, DefaultSet: true,
		State: Running, Target: image.Choice{ID: "assistant", Version: "2"}, Lap: Lap{Ended: true, Deferred: 1},
	}
	s := &silent{world: &world{}, last: r}
	o := &Roller{
		Releases: s, Agents: s, Images: noImages{}, Metrics: s, Prober: s, Nudger: s,
		Now: func() time.Time { return now },
	}
	for _, step := range []struct {
		after time.Duration
		waits bool
	}{{waits: true}, {after: tailPause, waits: true}, {after: tailTime - tailPause}} {
		now = now.Add(step.after)
		s.due = []Release{s.last}
		s.due[0].Lap = r.Lap
		if err := o.Run(t.Context()); err != nil || s.last.State != Done || s.last.DueAt.IsZero() == step.waits {
			t.Errorf("%v later: the release is %s and due at %v, %v; want that it waits for windows: %v", step.after,
				s.last.State, s.last.DueAt, err, step.waits)
		}
	}
}

// silent is a fleet whose watched agents do not answer. It keeps the release that was saved last.
type silent struct {
	*world

	last Release
}

func (s *silent) ListWatched(context.Context, string, int) ([]agent.Agent, error) {
	return s.agents, nil
}

func (*silent) Probe(context.Context, agent.Agent) error {
	return fault.New(fault.Unavailable, "gateway_unhealthy", "No answer.")
}

func (s *silent) Save(_ context.Context, r Release, _ []Change) (Release, error) {
	s.last = r
	return r, nil
}

// TestRun_SaysWhichAgentItWaitsFor has an agent that is ready and does not answer: it is waited for without an end.
func TestRun_SaysWhichAgentItWaitsFor(t *testing.T) {
	t.Parallel()
	r := Release{
		ID: "assistant-1", Image: "assistant", Waves: []int{100}, Total: 1, Surveyed: true, DefaultSet: true,
		Soak: DefaultSoak, State: Running, Target: image.Choice{ID: "assistant", Version: "2"}, Lap: Lap{Ended: true},
	}
	const silence = "agents that do not answer on their hostnames: 1, such as a"
	for name, row := range map[string]struct {
		after time.Duration
		given string
		moves bool
		want  string
	}{
		"at the end of the soak":        {after: DefaultSoak, given: "an outage: cluster_unavailable"},
		"later":                         {after: DefaultSoak + metricsPatience, want: silence},
		"later, before the others move": {after: DefaultSoak + metricsPatience, moves: true, want: silence},
	} {
		r.Reason, r.Lap.Ended = row.given, !row.moves
		s := &silent{world: &world{due: []Release{r}, agents: []agent.Agent{soaking(r, 0)}}, last: r}
		o := &Roller{
			Releases: s, Agents: s, Images: noImages{}, Metrics: s, Prober: s, Nudger: s,
			Now: func() time.Time { return began.Add(row.after) },
		}
		if err := o.Run(t.Context()); err != nil || s.last.Reason != row.want {
			t.Errorf("%s: the release waits for %q, %v; want %q", name, s.last.Reason, err, row.want)
		}
	}
}

// lastStep ends a run after the step that moves agents.
type lastStep struct{ *world }

func (l *lastStep) Save(ctx context.Context, r Release, changes []Change) (Release, error) {
	_, err := l.world.Save(ctx, r, changes)
	return r, cmp.Or(err, error(ErrSuperseded))
}

func (l *lastStep) Get(context.Context, string) (Release, error) { return Release{}, nil }

// TestStart_DrawsAFairSample: the beginning of a lap is another part of the fleet for each release.
func TestStart_DrawsAFairSample(t *testing.T) {
	t.Parallel()
	const agents, releases = 500, 400
	ids := make([]string, agents)
	for i := range ids {
		ids[i] = uuid.NewString()
	}
	slices.Sort(ids)
	first := map[string]int{}
	for n := range releases {
		at, _ := slices.BinarySearch(ids, Release{ID: ID("assistant", int64(n))}.start())
		for i := range agents / 10 {
			first[ids[(at+i)%agents]]++
		}
	}
	// Each agent is in the first tenth of about 40 releases; the deviation is about 6.
	for id, n := range first {
		if math.Abs(float64(n)-releases/10) > 40 {
			t.Errorf("agent %s is in the first wave of %d releases of %d, want about %d", id, n, releases, releases/10)
		}
	}
	if len(first) != agents {
		t.Errorf("%d agents of %d are in a first wave", len(first), agents)
	}
}

func TestQuota_RoundsUpAndLimitsTheWave(t *testing.T) {
	t.Parallel()
	r := Release{Waves: []int{1, 10, 50, 100}, Total: 250, State: Running}
	var sizes []int64
	for r.Wave = range r.Waves {
		sizes = append(sizes, r.Limit())
	}
	if want := []int64{3, 22, 100, 125}; !slices.Equal(sizes, want) {
		t.Errorf("waves of 250 agents: %v, want %v", sizes, want)
	}
	small := Release{Waves: []int{1, 100}, Total: 1, State: Running}
	if small.Limit() != 1 {
		t.Errorf("the first wave of one agent has %d", small.Limit())
	}
}

func TestOver_CountsWhatTheOperatorDoesNotKnow(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		counts              Counts
		forgiven, reverting int64
		percent             int
		want                bool
	}{
		{counts: Counts{Moved: 100, Reverted: 2}, percent: 2},
		{counts: Counts{Moved: 100, Reverted: 3}, percent: 2, want: true},
		{counts: Counts{Moved: 100, Reverted: 2}, reverting: 1, percent: 2, want: true},
		{counts: Counts{Moved: 100, Reverted: 5}, forgiven: 5, percent: 2},
		{counts: Counts{Moved: 1, Reverted: 1}, percent: 2, want: true},
		{counts: Counts{Moved: 1, Reverted: 1}, percent: 100},
		{counts: Counts{}, percent: 0},
	} {
		r := Release{Counts: row.counts, Forgiven: row.forgiven, MaxFailed: row.percent}
		if got := r.over(row.reverting); got != row.want {
			t.Errorf("%+v: %t, want %t", row, got, row.want)
		}
	}
}
