// Package releasetest tests that an adapter keeps the promises of release.Store and release.Agents. It does not depend
// on the adapter: the adapter's test hands in a Fixture.
package releasetest

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/image"
	"agents.example/controlplane/shared/release"
)

// Fixture is an empty store, and what a test needs in addition to it.
type Fixture struct {
	// Processes are the clients of two processes.
	Processes [2]release.Store
	Agents    release.Agents
	Records   agent.WorkerStore
	// CreateAgent creates an agent of some organization.
	CreateAgent func(ctx context.Context, t *testing.T) agent.Agent
}

// Test runs the suite.
func Test(t *testing.T, open func(*testing.T) Fixture) {
	for name, test := range map[string]func(*testing.T, Fixture){
		"every field is kept":                           everyField,
		"one open release of an image":                  oneOpen,
		"two images side by side":                       sideBySide,
		"a successor ends the former release":           successor,
		"two starts":                                    twoStarts,
		"a start and a revert":                          startAndRevert,
		"due releases":                                  due,
		"a release and its agents in one commit":        oneCommit,
		"a commit about an agent that changed":          changedAgent,
		"a commit about a release that changed":         changedRelease,
		"a commit about an agent that is gone":          goneAgent,
		"watched agents":                                watched,
		"agents in the order of their ids":              inOrder,
		"unknown releases":                              unknown,
		"a release without agents is a commit, as well": noAgents,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

// Now is the present time in microseconds, the precision that a store must keep.
func Now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

// Full is a release with every field set that a client of the store sets.
func Full(imageID string) release.Release {
	at := Now()
	choice := image.Choice{ID: imageID, Version: "2", Reference: "r/i@sha256:2", Runtime: image.Runtime{Port: 8000}}
	return release.Release{
		Image: imageID, Target: choice, Former: image.Choice{ID: imageID, Version: "1", Reference: "r/i@sha256:1"},
		Cells: []release.CellReference{{Cell: "c", Reference: "m/i@sha256:2"}}, Catalogued: true, Waves: []int{1, 100},
		Soak: time.Minute, MaxFailed: 2, Cell: "c", State: release.Running, Reason: "why", StartedBy: "ada",
		CreatedAt: at, UpdatedAt: at.Add(time.Second), DueAt: at, Total: 5, Surveyed: true, Wave: 1,
		WaveAt: at.Add(2 * time.Second),
		Lap: release.Lap{
			Cursor: "id", Wrapped: true, Ended: true, Moved: 1, Busy: 2, Pinned: 3, Deferred: 4, Waiting: 5, Failing: 6,
		},
		Laps: 2, Counts: release.Counts{Moved: 4, Updated: 3, Reverted: 2, Interrupted: 1}, Forgiven: 1,
		FormerDefault: "1", DefaultSet: true, Failures: []release.Failure{{AgentID: "a", Reason: "b", At: at}},
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (f Fixture) create(t *testing.T, imageID string) release.Release {
	t.Helper()
	r, err := f.Processes[0].Create(t.Context(), Full(imageID))
	must(t, err)
	return r
}

func wantSame(t *testing.T, what string, got, want release.Release) {
	t.Helper()
	got.Rest, want.Rest = nil, nil
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s (-want +got):\n%s", what, cmp.Diff(want, got))
	}
}

func everyField(t *testing.T, f Fixture) {
	full := Full("assistant")
	v := reflect.ValueOf(full)
	for i := range v.NumField() {
		// The store sets these, or a successor does.
		if name := v.Type().Field(i).Name; v.Field(i).IsZero() &&
			!slices.Contains([]string{"ID", "Number", "Successor", "Revision", "Rest"}, name) {
			t.Errorf("Full does not set %s: add it there", name)
		}
	}
	created, err := f.Processes[0].Create(t.Context(), full)
	must(t, err)
	if created.ID != "assistant-1" || created.Number != 1 || created.Revision == "" {
		t.Errorf("the first release is %s, number %d, revision %q", created.ID, created.Number, created.Revision)
	}
	full.ID, full.Number, full.Revision = created.ID, created.Number, created.Revision
	wantSame(t, "the created release", created, full)
	got, err := f.Processes[1].Get(t.Context(), created.ID)
	must(t, err)
	wantSame(t, "the release of another process", got, full)
	least := release.Release{ID: created.ID, Image: "assistant", Number: 1, State: release.Done, Revision: got.Revision}
	saved, err := f.Processes[0].Save(t.Context(), least, nil)
	must(t, err)
	got, err = f.Processes[1].Get(t.Context(), created.ID)
	must(t, err)
	least.Revision = saved.Revision
	wantSame(t, "the release with fewer fields", got, least)
	listed, err := f.Processes[1].List(t.Context(), 10)
	must(t, err)
	if len(listed) != 1 {
		t.Fatalf("%d releases are listed, want one", len(listed))
	}
}

func oneOpen(t *testing.T, f Fixture) {
	r := f.create(t, "assistant")
	for _, state := range []release.State{release.Running, release.Paused, release.Stopped, release.Reverting} {
		r.State = state
		var err error
		r, err = f.Processes[0].Save(t.Context(), r, nil)
		must(t, err)
		if _, err := f.Processes[1].Create(t.Context(), Full("assistant")); !fault.Is(err, fault.Conflict) {
			t.Errorf("a release next to one that is %s: %v, want Conflict", state, err)
		}
	}
}

func sideBySide(t *testing.T, f Fixture) {
	f.create(t, "assistant")
	if r := f.create(t, "other"); r.ID != "other-1" {
		t.Errorf("the release of another image is %s", r.ID)
	}
}

func (f Fixture) done(t *testing.T, imageID string) release.Release {
	t.Helper()
	r := f.create(t, imageID)
	r.State = release.Done
	r, err := f.Processes[0].Save(t.Context(), r, nil)
	must(t, err)
	return r
}

func successor(t *testing.T, f Fixture) {
	former := f.done(t, "assistant")
	r := f.create(t, "assistant")
	if r.ID != "assistant-2" {
		t.Errorf("the second release is %s", r.ID)
	}
	former, err := f.Processes[1].Get(t.Context(), former.ID)
	must(t, err)
	if former.Successor != r.ID || !former.DueAt.IsZero() {
		t.Errorf("the former release has the successor %q, and is due %v", former.Successor, former.DueAt)
	}
	listed, err := f.Processes[1].List(t.Context(), 1)
	must(t, err)
	if len(listed) != 1 {
		t.Errorf("%d releases are listed, want at most one", len(listed))
	}
}

func twoStarts(t *testing.T, f Fixture) {
	f.done(t, "assistant")
	errs := make(chan error, len(f.Processes))
	for _, p := range f.Processes {
		go func() {
			_, err := p.Create(context.WithoutCancel(t.Context()), Full("assistant"))
			errs <- err
		}()
	}
	started := 0
	for range f.Processes {
		switch err := <-errs; {
		case err == nil:
			started++
		case !fault.Is(err, fault.Conflict):
			t.Errorf("a second start: %v, want Conflict", err)
		}
	}
	if started != 1 {
		t.Errorf("%d of two starts succeeded", started)
	}
}

// startAndRevert reverts a release that has been followed by another one since it was read.
func startAndRevert(t *testing.T, f Fixture) {
	former := f.done(t, "assistant")
	f.create(t, "assistant")
	must(t, former.Act(release.Revert, Now()))
	if _, err := f.Processes[1].Save(t.Context(), former, nil); !errors.Is(err, release.ErrSuperseded) {
		t.Errorf("the revert of a release that was followed by another one: %v, want ErrSuperseded", err)
	}
}

func due(t *testing.T, f Fixture) {
	r := f.create(t, "assistant")
	later := f.create(t, "later")
	later.DueAt = Now().Add(time.Hour)
	_, err := f.Processes[0].Save(t.Context(), later, nil)
	must(t, err)
	never := f.create(t, "never")
	never.DueAt = time.Time{}
	_, err = f.Processes[0].Save(t.Context(), never, nil)
	must(t, err)
	found, err := f.Processes[1].ListDue(t.Context(), Now().Add(time.Minute))
	must(t, err)
	if len(found) != 1 || found[0].ID != r.ID {
		t.Errorf("due releases: %+v, want %s alone", found, r.ID)
	}
}

// moved is a change that a release makes.
func moved(t *testing.T, a agent.Agent, r release.Release) release.Change {
	t.Helper()
	after, changed, err := a.Edit(func(a *agent.Agent) error {
		a.Image.ID = r.Image
		a.MoveTo(r.ID, r.Target, Now())
		return nil
	}, nil)
	if err != nil || !changed {
		t.Fatalf("the agent was not moved: %v", err)
	}
	return release.Change{Before: a, After: after}
}

func oneCommit(t *testing.T, f Fixture) {
	r := f.create(t, "assistant")
	a, b := f.CreateAgent(t.Context(), t), f.CreateAgent(t.Context(), t)
	r.Counts.Moved = 9
	saved, err := f.Processes[0].Save(t.Context(), r, []release.Change{moved(t, a, r), moved(t, b, r)})
	must(t, err)
	if saved.Revision == r.Revision {
		t.Error("the revision stays")
	}
	for _, id := range []string{a.ID, b.ID} {
		got, err := f.Records.Load(t.Context(), id)
		must(t, err)
		if got.Image.Version != "2" || got.WatchedBy != r.ID || got.Converged() {
			t.Errorf("agent after the commit: %+v, watched by %q", got.Image, got.WatchedBy)
		}
	}
}

func changedAgent(t *testing.T, f Fixture) {
	r := f.create(t, "assistant")
	a, b := f.CreateAgent(t.Context(), t), f.CreateAgent(t.Context(), t)
	changes := []release.Change{moved(t, a, r), moved(t, b, r)}
	_, err := f.Records.Update(t.Context(), b, func(b *agent.Agent) { b.Attempts++ })
	must(t, err)
	if _, err := f.Processes[0].Save(t.Context(), r, changes); !errors.Is(err, release.ErrSuperseded) {
		t.Errorf("a commit about an agent that changed: %v, want ErrSuperseded", err)
	}
	got, err := f.Records.Load(t.Context(), a.ID)
	must(t, err)
	if got.WatchedBy != "" {
		t.Error("a commit that failed has moved another agent")
	}
}

func changedRelease(t *testing.T, f Fixture) {
	r := f.create(t, "assistant")
	a := f.CreateAgent(t.Context(), t)
	paused := r
	must(t, paused.Act(release.Pause, Now()))
	_, err := f.Processes[1].Save(t.Context(), paused, nil)
	must(t, err)
	_, err = f.Processes[0].Save(t.Context(), r, []release.Change{moved(t, a, r)})
	if !errors.Is(err, release.ErrSuperseded) {
		t.Errorf("a step of a release that was paused: %v, want ErrSuperseded", err)
	}
	got, err := f.Records.Load(t.Context(), a.ID)
	must(t, err)
	if got.WatchedBy != "" {
		t.Error("a release that was paused has moved an agent")
	}
}

func goneAgent(t *testing.T, f Fixture) {
	r := f.create(t, "assistant")
	a := f.CreateAgent(t.Context(), t)
	must(t, f.Records.Remove(t.Context(), a, agent.Deletion{}))
	_, err := f.Processes[0].Save(t.Context(), r, []release.Change{moved(t, a, r)})
	if !errors.Is(err, release.ErrSuperseded) {
		t.Errorf("a commit about an agent that is gone: %v, want ErrSuperseded", err)
	}
}

func watched(t *testing.T, f Fixture) {
	r := f.create(t, "assistant")
	a := f.CreateAgent(t.Context(), t)
	f.CreateAgent(t.Context(), t)
	_, err := f.Processes[0].Save(t.Context(), r, []release.Change{moved(t, a, r)})
	must(t, err)
	found, err := f.Agents.ListWatched(t.Context(), r.ID, 10)
	must(t, err)
	if len(found) != 1 || found[0].ID != a.ID {
		t.Errorf("watched agents: %d, want the one that was moved", len(found))
	}
	if found, err = f.Agents.ListWatched(t.Context(), "another-1", 10); err != nil || len(found) > 0 {
		t.Errorf("agents that another release watches: %d, %v", len(found), err)
	}
}

func inOrder(t *testing.T, f Fixture) {
	var ids []string
	for range 5 {
		ids = append(ids, f.CreateAgent(t.Context(), t).ID)
	}
	slices.Sort(ids)
	var got []string
	for after := ""; ; {
		p, err := f.Agents.ListAll(t.Context(), after, 2)
		must(t, err)
		for _, a := range p.Items {
			got = append(got, a.ID)
		}
		if after = p.Next; after == "" {
			break
		}
	}
	if !slices.Equal(got, ids) {
		t.Errorf("listed agents %v, want %v", got, ids)
	}
}

func unknown(t *testing.T, f Fixture) {
	for _, id := range []string{"assistant-1", "", "a/b", "__x__"} {
		if _, err := f.Processes[0].Get(t.Context(), id); !fault.Is(err, fault.NotFound) {
			t.Errorf("Get(%q): %v, want NotFound", id, err)
		}
	}
}

func noAgents(t *testing.T, f Fixture) {
	r := f.create(t, "assistant")
	r.Reason = "another"
	saved, err := f.Processes[0].Save(t.Context(), r, nil)
	must(t, err)
	if _, err := f.Processes[0].Save(t.Context(), r, nil); !errors.Is(err, release.ErrSuperseded) {
		t.Errorf("a second commit of the same revision: %v, want ErrSuperseded", err)
	}
	got, err := f.Processes[0].Get(t.Context(), r.ID)
	must(t, err)
	wantSame(t, "the release", got, saved)
}
