package simulationtest

import (
	"slices"
	"strings"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/image"
	"agents.example/controlplane/shared/release"
)

// rolled is what the oracle knows of releases.
type rolled struct {
	// moved counts the moves of agents by release.
	moved map[string]int64
}

// longEnough is an age at which a pod of a broken version is broken.
const longEnough = time.Hour

// checkStep checks a commit of a release.
func (w *World) checkStep(before, after release.Release, changes []release.Change) {
	for _, c := range changes {
		was, is := c.Before.Software(after.Image), c.After.Software(after.Image)
		if is == nil || was == nil {
			continue
		}
		begins := is.Update.State == agent.UpdateMoving && was.Update.MovedAt != is.Update.MovedAt
		switch {
		case begins && (before.State == release.Paused || before.State == release.Stopped || before.Successor != ""):
			w.violate("halted", "release %s, which is %s, moved agent %s", after.ID, before.State, short(c.After.ID))
		case begins && c.Before.ImagePolicy == image.Pinned && after.Image != image.FrontID:
			w.violate("policy", "release %s moved agent %s, which is pinned", after.ID, short(c.After.ID))
		case begins && !c.Before.ImageOpen(after.Image, w.Now()) &&
			!c.Before.ImageOpen(after.Image, w.Now().Add(time.Minute)): // clocks differ
			w.violate("policy", "release %s moved agent %s outside its window", after.ID, short(c.After.ID))
		}
		if begins {
			w.rolled.moved[after.ID]++
		}
		returned := is.Update.State == agent.UpdateReverted && was.Update.State != agent.UpdateReverted
		if returned && after.State == release.Running && w.flawOf(c.After.ID, was.Reference, longEnough) == healthy {
			w.violate("judgement", "release %s returned agent %s, whose version is sound", after.ID, short(c.After.ID))
		}
		if is.Update.State == agent.UpdateDone && was.Update.State != agent.UpdateDone && w.runsBroken(&c.After) {
			w.violate("judgement", "release %s counted agent %s as updated, and its version is broken", after.ID,
				short(c.After.ID))
		}
	}
	if after.Counts.Moved != w.rolled.moved[after.ID] {
		w.violate("counts", "release %s counts %d moved agents, and has moved %d", after.ID, after.Counts.Moved,
			w.rolled.moved[after.ID])
	}
}

// runsBroken reports whether an agent's record names a version that is broken, or the agent is on its way back from
// one.
func (w *World) runsBroken(a *agent.Agent) bool {
	back := !a.Converged() &&
		(a.Image.Update.State == agent.UpdateReverted || a.Front.Update.State == agent.UpdateReverted)
	return back || w.flawOf(a.ID, a.Image.Reference, longEnough) != healthy ||
		w.flawOf(a.ID, a.Front.Reference, longEnough) != healthy
}

// checkReleases checks what must hold of releases at any time.
func (w *World) checkReleases() {
	for _, d := range w.Database.releases {
		r, down := d.release, int64(0)
		for _, each := range w.Database.agents {
			a := &each.agent
			s := a.Software(r.Image)
			if a.WatchedBy != r.ID || s == nil || a.Status == agent.Running && a.Converged() {
				continue
			}
			if s.Update.State == agent.UpdateMoving || s.Update.State == agent.UpdateReverted {
				down++
			}
		}
		if down > r.Limit() {
			w.violate("wave", "%d agents are down because of release %s, whose wave %d has %d", down, r.ID, r.Wave+1,
				r.Limit())
		}
	}
}

// checkReleasesAtRest checks what must hold of releases once nothing is left to do.
func (w *World) checkReleasesAtRest() {
	for _, d := range w.Database.releases {
		r := d.release
		switch {
		case r.State == release.Running, r.State == release.Reverting, !r.DueAt.IsZero():
			w.violate("rest", "release %s stays %s: %+v", r.ID, r.State, r)
		case r.State == release.Stopped && len(r.Failures) == 0 && !strings.Contains(r.Reason, "have been in error"):
			w.violate("stop", "release %s stopped although no agent failed: %q", r.ID, r.Reason)
		case r.State == release.Stopped && r.FormerDefault == "" && r.Former.Version != "2":
			if current, _ := w.Database.Catalog.Current(r.Image, cell); current.Version == "2" {
				w.violate("default", "release %s stopped, and agents start with its version", r.ID)
			}
		case r.State == release.Done && r.Successor == "":
			w.checkDone(r)
		case r.State == release.Reverted && r.Successor == "":
			w.checkReverted(r)
		}
	}
}

// checkDone checks a release that is over: every agent that may move has the version, unless it went back.
func (w *World) checkDone(r release.Release) {
	for _, a := range w.Database.Agents() {
		s := a.Software(r.Image)
		switch {
		case a.WatchedBy == r.ID:
			w.violate("rest", "release %s is done, and watches agent %s", r.ID, short(a.ID))
		case s == nil || a.Status != agent.Running || a.ImagePolicy == image.Pinned && r.Image != image.FrontID:
		case s.Version != "2" && s.Update.State != agent.UpdateReverted && !w.chose(a, "take former"):
			w.violate("reach", "release %s is done, and agent %s runs version %s: %+v", r.ID, short(a.ID), s.Version,
				s.Update)
		}
	}
	if current, _ := w.Database.Catalog.Current(r.Image, cell); current.Version != "2" {
		w.violate("default", "release %s is done, and agents start with version %s", r.ID, current.Version)
	}
	if failed := r.Counts.Reverted - r.Forgiven; failed*100 > int64(r.MaxFailed)*r.Counts.Moved {
		w.violate("budget", "release %s is done with %d of %d failed agents, more than %d %%", r.ID, failed,
			r.Counts.Moved, r.MaxFailed)
	}
}

// checkReverted checks a release that was reverted: no agent runs what the release brought, unless its client chose it.
func (w *World) checkReverted(r release.Release) {
	for _, a := range w.Database.Agents() {
		s := a.Software(r.Image)
		pinned := a.ImagePolicy == image.Pinned && s.Update.Release != r.ID
		switch {
		case a.WatchedBy == r.ID:
			w.violate("way back", "release %s is reverted, and watches agent %s", r.ID, short(a.ID))
		case r.Former.Version == "2": // it released what agents started with
		case a.Status == agent.Running && s.Version == "2" && !pinned && !w.chose(a, "take latest"):
			w.violate("way back", "release %s is reverted, and agent %s has %+v", r.ID, short(a.ID), *s)
		}
	}
	if current, _ := w.Database.Catalog.Current(r.Image, cell); current.Version != r.Former.Version {
		w.violate("default", "release %s is reverted, and agents start with version %s", r.ID, current.Version)
	}
}

// chose reports whether a client asked for a version.
func (w *World) chose(a agent.Agent, action string) bool {
	return slices.ContainsFunc(w.calls, func(c *call) bool { return c.agentID == a.ID && c.action == action })
}
