package simulationtest

import (
	"testing"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/release"
)

// TestRoller_CountsNoFailureAgainAfterAResume: a release stops while the agent that failed is on its way back, and the
// operator, who has seen the failure, lets it go on. It stops again for another one.
func TestRoller_CountsNoFailureAgainAfterAResume(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 10)
	f.sound = true
	step := func(change func(r *release.Release) error) release.Release {
		t.Helper()
		r, err := f.store.Get(t.Context(), "default-1")
		if err == nil {
			err = change(&r)
		}
		if err == nil {
			_, err = f.store.Save(t.Context(), r, nil)
		}
		worker := &release.Roller{
			Releases: f.store, Agents: f.store, Images: imageReleases{f.store}, Metrics: noMetrics{}, Prober: f,
			Nudger: f, Now: f.Now,
		}
		if err == nil {
			err = worker.Run(t.Context())
		}
		if err == nil {
			r, err = f.store.Get(t.Context(), r.ID)
		}
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	restart := func() {
		t.Helper()
		for _, a := range f.store.Database.Agents() {
			if a.WatchedBy != "" && a.Image.Version == "2" {
				f.change(t, a.ID, func(a *agent.Agent) error { a.PodRestarts.Total += 5; return nil })
				return
			}
		}
		t.Fatal("the release watches no agent")
	}
	nothing := func(*release.Release) error { return nil }
	resume := func(r *release.Release) error { return r.Act(release.Resume, f.clock) }

	step(func(r *release.Release) error { r.MaxFailed = 0; return nil })
	restart()
	if r := step(nothing); r.State != release.Stopped || r.Counts.Reverted != 0 || len(r.Failures) != 1 {
		t.Fatalf("the release is %s (%s) with %+v, want it stopped for an agent on its way back", r.State, r.Reason,
			r.Counts)
	}
	if r := step(resume); r.State != release.Running || r.Counts.Reverted != 1 || len(r.Failures) != 1 {
		t.Errorf("after the resume the release is %s (%s) with %+v, want it running", r.State, r.Reason, r.Counts)
	}
	restart()
	if r := step(nothing); r.State != release.Stopped || len(r.Failures) != 2 {
		t.Errorf("after another failure the release is %s with %+v, want it stopped", r.State, r.Counts)
	}
}
