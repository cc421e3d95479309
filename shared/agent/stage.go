package agent

import "time"

// StageName names a step of provisioning.
type StageName string

// The stages, in order.
const (
	StageNamespace StageName = "namespace" // the isolated namespace
	StagePolicy    StageName = "policy"    // quota, limits, network
	StageIdentity  StageName = "identity"  // credentials, and the environment of an agent without secrets
	StageSecrets   StageName = "secrets"   // the user's secrets
	StageStorage   StageName = "storage"   // the volume
	StageRuntime   StageName = "runtime"   // the workload
	StageRoute     StageName = "route"     // the hostname
	StageReady     StageName = "ready"     // Ready, and the gateway answers
)

// StageNames lists the stages in order.
func StageNames() []StageName {
	return []StageName{
		StageNamespace, StagePolicy, StageIdentity, StageSecrets, StageStorage, StageRuntime, StageRoute, StageReady,
	}
}

// Values lists the names in order.
func (StageName) Values() []string {
	names := StageNames()
	values := make([]string, len(names))
	for i, n := range names {
		values[i] = string(n)
	}
	return values
}

// StageStatus is the progress of a stage.
type StageStatus string

// The stage statuses.
const (
	StagePending   StageStatus = "pending"
	StageRunning   StageStatus = "running"
	StageSucceeded StageStatus = "succeeded"
	StageFailed    StageStatus = "failed"
	// StageSkipped: the stage had nothing to do.
	StageSkipped StageStatus = "skipped"
)

// Values lists the stage statuses.
func (StageStatus) Values() []string {
	return []string{
		string(StagePending), string(StageRunning), string(StageSucceeded), string(StageFailed), string(StageSkipped),
	}
}

// Stage is the progress of one step of provisioning.
type Stage struct {
	Name   StageName
	Status StageStatus
	// Attempt counts how often the stage was begun since the agent was started, or since its pod had to be replaced.
	Attempt int
	// StartedAt and FinishedAt are those of the last attempt.
	StartedAt  time.Time
	FinishedAt time.Time
	ErrorCode  string
	Message    string
}

// NewStages returns the stages of an agent whose provisioning begins, all pending.
func NewStages() []Stage {
	names := StageNames()
	stages := make([]Stage, len(names))
	for i, n := range names {
		stages[i] = Stage{Name: n, Status: StagePending}
	}
	return stages
}

func (a *Agent) stage(name StageName) *Stage {
	for i := range a.Stages {
		if a.Stages[i].Name == name {
			return &a.Stages[i]
		}
	}
	return nil
}

// BeginStage records that a worker began a stage.
func (a *Agent) BeginStage(name StageName, now time.Time) {
	if s := a.stage(name); s != nil {
		*s = Stage{Name: name, Status: StageRunning, Attempt: s.Attempt + 1, StartedAt: now}
	}
}

// RepeatStage records that a worker ran a stage once more, from the given time on, without showing it as running: the
// stage was done before, or the agent has a pod that a change replaces. It does nothing for a stage that BeginStage
// recorded. Each change of an agent with a pod counts its attempts from one.
func (a *Agent) RepeatStage(name StageName, since time.Time) {
	s := a.stage(name)
	if s == nil || a.BeingProvisioned() && s.Status == StageRunning {
		return
	}
	if !a.BeingProvisioned() && a.AppliedAt.IsZero() {
		s.Attempt = min(s.Attempt, max(a.Attempts-1, 0))
	}
	s.Attempt++
	s.StartedAt = since
}

// repeatReady records since when a worker has waited for the present pod, unless BeginStage recorded it. It does
// nothing if the stage that ends is another one.
func (a *Agent) repeatReady(ends StageName) {
	s, since := a.stage(StageReady), a.WaitingSince
	if since.IsZero() {
		since = a.AppliedAt
	}
	switch {
	case ends != StageReady || s == nil || since.IsZero():
	case !a.BeingProvisioned():
		s.Attempt, s.StartedAt = 1, since
	case s.StartedAt.IsZero():
		a.BeginStage(StageReady, since)
	}
}

// BeingProvisioned reports whether the agent is on its way to running, so that clients see its stages.
func (a Agent) BeingProvisioned() bool { return a.Status == Provisioning || a.Status == Pending }

// Unfinished lists the stages that are not done yet, in order. It leaves out a stage that only a later release knows.
// One that the record of an agent lacks, because a former release made the agent, is not done until it runs.
func (a *Agent) Unfinished() []StageName {
	var names []StageName
	for _, name := range StageNames() {
		s := a.stage(name)
		if s == nil && a.BeingProvisioned() || s != nil && s.Status != StageSucceeded && s.Status != StageSkipped {
			names = append(names, name)
		}
	}
	return names
}

// ForgetStages makes provisioning begin at the first stage again, because objects of finished stages are gone.
func (a *Agent) ForgetStages() {
	a.AppliedAt = time.Time{}
	for i := range a.Stages {
		a.Stages[i] = Stage{Name: a.Stages[i].Name, Status: StagePending, Attempt: a.Stages[i].Attempt}
	}
}

// forgetStages makes some stages begin again.
func (a *Agent) forgetStages(names ...StageName) {
	for _, name := range names {
		if s := a.stage(name); s != nil {
			*s = Stage{Name: name, Status: StagePending, Attempt: s.Attempt}
		}
	}
}

// EndStage records that a stage is done: succeeded or skipped.
func (a *Agent) EndStage(name StageName, status StageStatus, now time.Time) {
	if s := a.stage(name); s != nil {
		s.Status, s.FinishedAt, s.ErrorCode, s.Message = status, now, "", ""
	}
	if name == StageRoute {
		a.Routed = true
	}
}
