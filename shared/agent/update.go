package agent

import (
	"fmt"
	"slices"
	"time"

	"agents.example/controlplane/shared/image"
)

// Update is what the last release that reached an agent did to one of its images.
type Update struct {
	Release string
	// Version is the version to which the release moved the agent, and Former is what the agent ran before.
	Version string
	Former  image.Choice
	State   UpdateState
	// ReadyAt is when the agent first ran the version, and Restarts its PodRestarts at that time.
	MovedAt  time.Time
	ReadyAt  time.Time
	Restarts int64
	// PastRestarts is how often the container was started again in the day before the move, and PastErrors which share
	// of its requests failed.
	PastRestarts int64
	PastErrors   float64
	// Reason is why the agent went back.
	Reason string
}

// UpdateState is how far an update of an agent is.
type UpdateState string

// The states.
const (
	// UpdateMoving: the pod of the version is not ready yet.
	UpdateMoving UpdateState = "moving"
	// UpdateSoaking: the agent runs the version and is watched.
	UpdateSoaking UpdateState = "soaking"
	// UpdateDone: the agent ran the version as well as the former one.
	UpdateDone UpdateState = "updated"
	// UpdateReverted: the agent went back to what it ran before.
	UpdateReverted UpdateState = "reverted"
	// UpdateInterrupted: the agent was stopped, or took another version, before the release was through with it.
	UpdateInterrupted UpdateState = "interrupted"
)

// Open reports whether the release watches the agent.
func (u Update) Open() bool { return u.State == UpdateMoving || u.State == UpdateSoaking }

func (u *Update) interrupt() {
	if u.Open() {
		u.State = UpdateInterrupted
	}
}

// Updatable reports whether a release may move the agent now: it runs, has no work, and no release watches it.
func (a Agent) Updatable() bool {
	return a.Status == Running && a.Converged() && a.WatchedBy == "" && !a.keepsSnapshots()
}

// Returnable reports whether a release may take the agent back now: no other one watches it, and its data can go back,
// too.
func (a Agent) Returnable(release string) bool {
	return (a.WatchedBy == "" || a.WatchedBy == release) && !a.keepsSnapshots()
}

// ImageOpen reports whether the agent's policy lets a release of an image move it at a time.
func (a Agent) ImageOpen(imageID string, now time.Time) bool {
	return a.ImagePolicy == "" || a.imageOpen(now) || imageID == image.FrontID && a.ImagePolicy == image.Pinned
}

// MoveTo makes a release's version the agent's desired state. The caller has checked that the agent is Updatable.
func (a *Agent) MoveTo(release string, to image.Choice, now time.Time) {
	s := a.Software(to.ID)
	if s == nil {
		return
	}
	a.snapshotBeforeUpdate(s, to, now)
	s.Update = Update{Release: release, Version: to.Version, Former: s.Choice, State: UpdateMoving, MovedAt: now}
	s.Choice, a.WatchedBy = to, release
	a.RevertReason = nil
	a.replacePod(now)
}

// RevertUpdate makes the agent go back to what it ran before a release, with the data from before it if the version
// says that a former one cannot read its data. It does nothing if the agent runs something else by now.
func (a *Agent) RevertUpdate(imageID, reason string, now time.Time) {
	s := a.Software(imageID)
	if s == nil || s.Version != s.Update.Version || s.Update.State == UpdateReverted || a.Status == Deleting {
		return
	}
	former := s.Choice
	s.Choice, s.Update.State, s.Update.Reason = s.Update.Former, UpdateReverted, reason
	a.Lease = Lease{}
	if point := a.restorePoint(s.Choice); point != nil && s == &a.Image && former.RestoreOnRevert {
		a.replaceVolume(*point, now)
	}
	a.replacePod(now)
}

// Return makes the agent go back because its release is reverted. An agent that took the version at a start goes back
// to former. The release watches it until it runs.
func (a *Agent) Return(release, imageID string, former image.Choice, now time.Time) {
	s := a.Software(imageID)
	if s == nil {
		return
	}
	if s.Update.Release != release || s.Update.Version != s.Version {
		s.Update = Update{Release: release, Version: s.Version, Former: former, State: UpdateDone, MovedAt: now}
	}
	a.RevertUpdate(imageID, "the release was reverted", now)
	a.WatchedBy = release
}

// PassUpdate records that the agent runs the release's version as well as the former one.
func (a *Agent) PassUpdate(imageID string) {
	if s := a.Software(imageID); s != nil && s.Update.State == UpdateSoaking {
		s.Update.State = UpdateDone
	}
}

// updating returns the id of the image that a release is moving and watches; "" if there is none.
func (a Agent) updating() string {
	switch {
	case a.Front.Update.Open():
		return image.FrontID
	case a.Image.Update.Open():
		return a.imageID()
	default:
		return ""
	}
}

// blamesVersion reports whether a failure is a reason to go back to the former version: it says something about what
// the pod runs, and not about the cluster.
func (a Agent) blamesVersion(f Failure) bool {
	return a.updating() != "" && !f.Outage && !slices.Contains([]string{
		CodeUnschedulable, CodeSandboxUnschedulable, CodeValueUnavailable, codeNoVolume, codeFixedVolume,
		codeNoNamespace,
	}, f.Code)
}

// Codes of failures that say nothing about what the pod runs.
const (
	codeNoVolume    = "volume_unavailable"
	codeFixedVolume = "volume_cannot_grow"
	codeNoNamespace = "namespace_missing"
)

// revertUpdate returns the agent to the version that it ran before a release. The status stays.
func (a *Agent) revertUpdate(f Failure, now time.Time) {
	a.RevertUpdate(a.updating(), fmt.Sprintf("%s: %s", f.Code, f.Message), now)
	a.Failure = nil
}

// watchUpdates records that the agent runs: a release that moved it watches it from now on.
func (a *Agent) watchUpdates(now time.Time) {
	for _, s := range []*Software{&a.Image, &a.Front} {
		if s.Update.State == UpdateMoving {
			s.Update.State, s.Update.ReadyAt, s.Update.Restarts = UpdateSoaking, now, a.PodRestarts.Total
		}
	}
}

// interruptUpdates records that the agent has no pod any more by which a release could judge its version.
func (a *Agent) interruptUpdates() {
	a.Image.Update.interrupt()
	a.Front.Update.interrupt()
}
