package main

import (
	"context"
	"testing"
	"time"

	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/image"
	"agents.example/controlplane/shared/image/imagetest"
	"agents.example/controlplane/shared/release"
)

// assistant puts an image with two versions into the catalog.
func (f fixture) assistant() {
	f.t.Helper()
	i := image.Image{ID: "assistant", Name: "Assistant", DefaultVersion: "1.0"}
	for n, version := range []string{"1.0", "1.1", "1.2"} {
		i.Versions = append(i.Versions, image.Version{
			Version: version, Reference: imagetest.Reference("assistant", string(rune('1'+n))), State: image.Available,
		})
	}
	i.Versions[2].State = image.Withdrawn
	if _, err := f.client.Images().Put(f.t.Context(), i); err != nil {
		f.t.Fatal(err)
	}
}

// save writes a release as the worker does.
func (f fixture) save(id string, change func(*release.Release)) {
	f.t.Helper()
	r, err := f.client.Releases().Get(f.t.Context(), id)
	if err == nil {
		change(&r)
		_, err = f.client.Releases().Save(f.t.Context(), r, nil)
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

func TestReleaseStart_RefusesBadOrders(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.assistant()
	for command, words := range map[string][]string{
		"release start":                                      {"IMAGE@VERSION is missing"},
		"release start assistant":                            {"names no version"},
		"release start other@1.0":                            {`no image "other"`},
		"release start assistant@2.0":                        {`no version "2.0"`, "operator images show -image assistant"},
		"release start assistant@1.2":                        {"withdrawn"},
		"release start -waves 10,5,100 assistant@1.1":        {"growing percentages"},
		"release start -waves 10,50 assistant@1.1":           {"the last wave must be 100"},
		"release start -waves ten assistant@1.1":             {`"ten" is no whole number of percent`},
		"release start -soak soon assistant@1.1":             {`"soon" is no duration`},
		"release start -max-failed some assistant@1.1":       {`"some" is no whole number of percent`},
		"release start -max-failed 101 assistant@1.1":        {"0 to 100"},
		"release start -only-cell ne assistant@1.1":          {`no cell "ne"`},
		"release start assistant@1.1 and-more":               {`"and-more" is not a flag`},
		"release show assistant-1":                           {"no such release"},
		"release pause assistant-1":                          {"no such release"},
		"release show":                                       {"RELEASE is missing"},
		"release start -waves 1,x -soak y -max-failed z a@1": {`"x"`, `"y"`, `"z"`},
	} {
		f.fail(command, words...)
	}
	f.run("release list", "There are no releases.")
}

func TestReleaseCommands_FollowARelease(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.assistant()
	f.run("release start -waves 10%,100 -soak 30s -max-failed 5% -only-cell old assistant@1.1",
		"Release assistant-1 has begun", "release show -watch assistant-1")
	f.fail("release start assistant@1.1", "release_open", "assistant-1", "Wait for it, or revert it")
	f.run("release show assistant-1", "Release assistant-1 of assistant to 1.1 from 1.0: running",
		"counting the agents", "by grace", "You can: pause, revert.")
	f.save("assistant-1", func(r *release.Release) {
		if r.Soak != 30*time.Second || r.MaxFailed != 5 || r.Cell != "old" || len(r.Waves) != 2 {
			t.Errorf("the order became %+v", *r)
		}
		r.Surveyed, r.Total, r.Wave = true, 40, 1
		r.Counts = release.Counts{Moved: 20, Updated: 12, Reverted: 2, Interrupted: 1}
		r.Failures = []release.Failure{{AgentID: "agent-7", Reason: "pod_crash_loop: it exits", At: time.Now()}}
	})
	f.run("release show assistant-1", "wave 2 of 2, up to 100 % of 40 agents",
		"[####################....................] 20 moved", "12 updated, 2 reverted, 1 interrupted, 5 watched",
		"10.0 % of the moved agents failed; above 5 % the release stops",
		"agent agent-7 went back: pod_crash_loop: it exits")
	f.run("release pause assistant-1", "assistant-1 is paused")
	f.run("release show assistant-1", "paused by grace", "You can: resume, revert.")
	f.fail("release pause assistant-1", "release_state_conflict", "paused", "resume, revert")
	f.run("release resume assistant-1", "assistant-1 is running")
	f.run("release revert assistant-1", "assistant-1 is reverting")
	f.save("assistant-1", func(r *release.Release) { r.State, r.DueAt = release.Reverted, time.Time{} })
	f.run("release start assistant@1.1", "Release assistant-2 has begun")
	f.fail("release revert assistant-1", "release_superseded", "assistant-2")
	f.run("release list", "assistant-2", "running", "assistant-1", "reverted", "grace")
}

// TestReleaseShow_WatchesUntilTheReleaseIsOver advances the release each time that the command waits.
func TestReleaseShow_WatchesUntilTheReleaseIsOver(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.assistant()
	waits := 0
	f.operator.After = func(time.Duration) <-chan time.Time {
		waits++
		f.save("assistant-1", func(r *release.Release) {
			r.Surveyed, r.Total, r.Counts.Moved = true, 4, int64(waits)
			if waits == 3 {
				r.State, r.DueAt = release.Done, time.Time{}
			}
		})
		now := make(chan time.Time, 1)
		now <- time.Now()
		return now
	}
	f.run("release start -watch assistant@1.1", "counting the agents", "1 moved", "2 moved", "3 moved", ": done")
}

// flakyReleases fails to read a release each second time.
type flakyReleases struct {
	releaseStore
	reads *int
}

func (s flakyReleases) Get(ctx context.Context, id string) (release.Release, error) {
	if *s.reads++; *s.reads%2 == 1 {
		return release.Release{}, fault.New(fault.Unavailable, "store_unavailable", "The store is unavailable.")
	}
	return s.releaseStore.Get(ctx, id)
}

// TestReleaseShow_WatchesThroughAnOutage holds that a release which goes on is not reported as failed.
func TestReleaseShow_WatchesThroughAnOutage(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.assistant()
	f.run("release start assistant@1.1")
	f.operator.Releases = flakyReleases{releaseStore: f.operator.Releases, reads: new(int)}
	waits := 0
	f.operator.After = func(time.Duration) <-chan time.Time {
		if waits++; waits == 3 {
			f.save("assistant-1", func(r *release.Release) { r.State, r.DueAt = release.Done, time.Time{} })
		}
		now := make(chan time.Time, 1)
		now <- time.Now()
		return now
	}
	f.run("release show -watch assistant-1", ": running", ": done")
}

// TestReleaseShow_FailsWhenTheReleaseStops holds that a script which follows a release does not take it for done.
func TestReleaseShow_FailsWhenTheReleaseStops(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.assistant()
	f.run("release start assistant@1.1")
	for _, row := range []struct {
		state release.State
		fails bool
	}{{release.Stopped, true}, {release.Paused, false}, {release.Done, false}, {release.Reverted, false}} {
		f.save("assistant-1", func(r *release.Release) { r.State, r.Reason = row.state, "too many agents failed" })
		if row.fails {
			f.fail("release show -watch assistant-1", "assistant-1 has stopped")
			f.wantWords("release show", f.out.String(), []string{"too many agents failed"})
		} else {
			f.run("release show -watch assistant-1", string(row.state))
		}
	}
}

// TestImagesRemove_RefusesWhileAReleaseIsOpen holds that a release does not lose its version.
func TestImagesRemove_RefusesWhileAReleaseIsOpen(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.assistant()
	f.run("release start assistant@1.1")
	f.fail("images remove -image assistant -force", "assistant-1")
}

// TestReleaseRevert_RefusesAVersionThatIsGone drops the version that agents ran before a release that is over. They
// would go down, and new agents would take it.
func TestReleaseRevert_RefusesAVersionThatIsGone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.assistant()
	f.run("release start assistant@1.1")
	f.save("assistant-1", func(r *release.Release) { r.State, r.DueAt = release.Done, time.Time{} })
	whole := f.stored("assistant")
	without := whole
	without.DefaultVersion, without.Versions = "1.1", whole.Versions[1:]
	f.run("images put " + f.file(without))
	f.fail("release revert assistant-1", "version 1.0", "not in the catalog", "images put")
	f.run("release show assistant-1", "done", "You can: revert.")
	f.run("images put " + f.file(whole))
	f.run("release revert assistant-1", "assistant-1 is reverting")
}

// TestReleaseRevert_RefusesAVersionThatWasWithdrawn holds that a withdrawn version does not become the default one: new
// agents would be refused.
func TestReleaseRevert_RefusesAVersionThatWasWithdrawn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.assistant()
	whole := f.stored("assistant")
	f.run("release start assistant@1.1")
	withdrawn := f.stored("assistant")
	withdrawn.DefaultVersion, withdrawn.Versions[0].State = "1.1", image.Withdrawn
	f.run("images put " + f.file(withdrawn))
	f.fail("release revert assistant-1", "version 1.0", "was withdrawn", "images put")
	f.run("release show assistant-1", "running")
	f.run("images put " + f.file(whole))
	f.run("release revert assistant-1", "assistant-1 is reverting")
	f.fail("images put "+f.file(withdrawn), "is reverting")
}
