package agent_test

import (
	"testing"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/image"
	"agents.example/controlplane/shared/plan"
)

// twoVersions is a catalog with two versions of the default image and of the front. Agents take the given one.
func twoVersions(current string) image.Set {
	entry := func(id string) image.Image {
		return image.Image{ID: id, DefaultVersion: current, Versions: []image.Version{
			{Version: "1", Reference: id + "@sha256:1", State: image.Available},
			{Version: "2", Reference: id + "@sha256:2", State: image.Available},
		}}
	}
	return image.Set{Catalog: []image.Image{entry(image.DefaultID), entry(image.FrontID)}}
}

// runningOn is a running agent with the first versions.
func runningOn(t *testing.T) agent.Agent {
	t.Helper()
	a := agent.New("3fa85f64-5717-4562-b3fc-2c963f66afa6", "cell-1", agent.Draft{Name: "a", Plan: plan.Pro}, at(0))
	if err := a.ChooseImages(agent.Agent{}, twoVersions("1")); err != nil {
		t.Fatal(err)
	}
	a.BecameReady(at(1))
	return committed(a)
}

// to is the second version of an image.
func to(id string) image.Choice {
	current, _ := twoVersions("2").Current(id, "cell-1")
	return current
}

// acted is an agent after an action, with the catalog.
func acted(t *testing.T, a agent.Agent, trigger agent.Trigger, images image.Set) agent.Agent {
	t.Helper()
	after, _, err := a.Edit(func(a *agent.Agent) error { return a.Act(trigger, agent.Manual, at(60)) },
		func([]string) (image.Set, error) { return images, nil })
	if err != nil {
		t.Fatal(err)
	}
	return after
}

func TestMoveTo_IsWatchedUntilTheAgentRuns(t *testing.T) {
	t.Parallel()
	for _, id := range []string{image.DefaultID, image.FrontID} {
		a := runningOn(t)
		equal(t, id+" may move", a.Updatable(), true)
		a.MoveTo("release-1", to(id), at(2))
		s := a.Software(id)
		equal(t, id+" version", s.Version, "2")
		equal(t, id+" former", s.Update.Former.Version, "1")
		equal(t, id+" watched by", a.WatchedBy, "release-1")
		equal(t, id+" may move again", a.Updatable(), false)
		equal(t, id+" warms up", a.Warming, true)
		equal(t, id+" has work", a.Converged(), false)
		a.BecameReady(at(3))
		equal(t, id+" state", a.Software(id).Update.State, agent.UpdateSoaking)
		equal(t, id+" ready at", a.Software(id).Update.ReadyAt, at(3))
		a.PassUpdate(id)
		equal(t, id+" state after the soak", a.Software(id).Update.State, agent.UpdateDone)
	}
}

// TestGiveUp_GoesBackToTheFormerVersion: failures of the pod's programs do, those of the cluster and of the client's
// secrets do not.
func TestGiveUp_GoesBackToTheFormerVersion(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		failure agent.Failure
		back    bool
	}{
		{failure: agent.Failure{Code: "pod_crash_loop"}, back: true},
		{failure: agent.Failure{Code: "readiness_timeout"}, back: true},
		{failure: agent.Failure{Code: "image_pull_failed"}, back: true},
		{failure: agent.Failure{Code: agent.CodeUnschedulable}},
		{failure: agent.Failure{Code: agent.CodeSandboxUnschedulable}},
		{failure: agent.Failure{Code: "volume_unavailable"}},
		{failure: agent.Failure{Code: "namespace_missing"}},
		{failure: agent.Failure{Code: agent.CodeValueUnavailable}},
	} {
		for _, soaks := range []bool{false, true} {
			a := runningOn(t)
			a.MoveTo("release-1", to(image.DefaultID), at(2))
			if soaks {
				a.BecameReady(at(3))
				a.Break(row.failure, at(4))
			} else {
				a.GiveUp(row.failure, at(4))
			}
			version, status := "2", agent.Error
			if row.back {
				version, status = "1", agent.Running
			}
			equal(t, row.failure.Code+" version", a.Image.Version, version)
			equal(t, row.failure.Code+" status", a.Status, status)
			equal(t, row.failure.Code+" watched", a.WatchedBy, "release-1")
			equal(t, row.failure.Code+" has work", !a.Converged(), row.back)
		}
	}
}

// TestGiveUp_GoesBackOnce: an agent whose former version fails, too, goes to error.
func TestGiveUp_GoesBackOnce(t *testing.T) {
	t.Parallel()
	a := runningOn(t)
	a.MoveTo("release-1", to(image.DefaultID), at(2))
	a.GiveUp(agent.Failure{Code: "pod_crash_loop", Message: "it crashes"}, at(3))
	equal(t, "state", a.Image.Update.State, agent.UpdateReverted)
	equal(t, "reason", a.Image.Update.Reason, "pod_crash_loop: it crashes")
	a.GiveUp(agent.Failure{Code: "pod_crash_loop", Message: "it crashes"}, at(4))
	equal(t, "status", a.Status, agent.Error)
	equal(t, "version", a.Image.Version, "1")
}

func TestChooseImages_TakesNoVersionThatItWentBackFrom(t *testing.T) {
	t.Parallel()
	a := runningOn(t)
	a.MoveTo("release-1", to(image.DefaultID), at(2))
	a.GiveUp(agent.Failure{Code: "pod_crash_loop"}, at(3))
	a.BecameReady(at(4))
	a = acted(t, a, agent.Restart, twoVersions("2"))
	equal(t, "version after a restart", a.Image.Version, "1")
	equal(t, "front after a restart", a.Front.Version, "2")
}

func TestChooseImages_KeepsWhatAReleaseBrought(t *testing.T) {
	t.Parallel()
	a := runningOn(t)
	a.MoveTo("release-1", to(image.DefaultID), at(2))
	a.BecameReady(at(3))
	restarted := acted(t, a, agent.Restart, twoVersions("1"))
	equal(t, "version after a restart", restarted.Image.Version, "2")
	equal(t, "state after a restart", restarted.Image.Update.State, agent.UpdateSoaking)
	stopped := acted(t, a, agent.Stop, twoVersions("1"))
	equal(t, "state after a stop", stopped.Image.Update.State, agent.UpdateInterrupted)
	equal(t, "watched after a stop", stopped.WatchedBy, "release-1")
}

// TestReturn_AlsoOfAgentsThatStartedWithTheVersion holds for a release that is reverted.
func TestReturn_AlsoOfAgentsThatStartedWithTheVersion(t *testing.T) {
	t.Parallel()
	former, _ := twoVersions("1").Current(image.DefaultID, "cell-1")
	a := acted(t, runningOn(t), agent.Stop, twoVersions("2"))
	a = acted(t, a, agent.Start, twoVersions("2"))
	equal(t, "version after the start", a.Image.Version, "2")
	a.Return("release-1", image.DefaultID, former, at(90))
	equal(t, "version", a.Image.Version, "1")
	equal(t, "watched by", a.WatchedBy, "release-1")
	equal(t, "state", a.Image.Update.State, agent.UpdateReverted)
}
