package agenttest

import (
	"encoding/json"
	"reflect"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/egress"
	"agents.example/controlplane/shared/image"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/secret"
)

func fullReader(at time.Time) agent.Reader {
	return agent.Reader{
		Number: 2, SnapshotID: "r", Holder: "h", Until: at.Add(18 * time.Second), LookAt: at.Add(19 * time.Second),
		Charged: true, GoneAt: at.Add(17 * time.Second), Problem: "p",
	}
}

func fullVolume(number int64) agent.Volume {
	return agent.Volume{
		Number: number, Source: agent.VolumeSource{SnapshotID: "s", Handle: "h"}, Unmade: true,
	}
}

func fullMove(at time.Time) agent.Move {
	return agent.Move{
		State: agent.MoveReturning, From: agent.Place{Cell: "f", Region: "g"}, To: agent.Place{Cell: "t", Region: "u"},
		SnapshotID:  "s",
		Volume:      fullVolume(1),
		RequestedAt: at, Since: at.Add(time.Second), Cleared: true, LookAt: at.Add(2 * time.Second),
		GoneAt: at.Add(3 * time.Second), Reason: "w",
	}
}

// FullAgent returns an agent with every field set, for tests that must notice a field that is forgotten. A new field of
// an agent is set here.
func FullAgent(at time.Time) agent.Agent {
	a := agent.Agent{
		ID: ID(), OrganizationID: "o", Name: "n", Slug: "s", Plan: plan.Pro, Cloud: "c", Region: "r", Cell: "l",
		Config:      json.RawMessage(`{"k":"v"}`),
		Env:         []agent.EnvVar{{Key: "A", Value: "1"}, {Key: "B", SecretVersion: 2, Bytes: 3, SetAt: at}},
		Files:       []agent.File{{Path: "/data/f", Content: "c", Bytes: 1, Secret: "B", Mode: 0o600}},
		NameAtStart: "m",
		PublicPaths: []string{"/q/"},
		Egress:      fullEgress(), Injected: fullInjected(at),
		Sleep: agent.SleepPolicy{AfterSeconds: 300, WakeOn: []agent.Waker{agent.RequestWakes}},
		Door:  "d", WokenBy: agent.WokenByUse, AwakeUntil: at.Add(13 * time.Second), APIKeyHash: "a",
		Schedules: fullSchedules(at), WakeAt: at.Add(14 * time.Second), CallsDueAt: at.Add(15 * time.Second),
		CallsPausedUntil: at.Add(16 * time.Second),
		Image:            fullSoftware("i", at), Front: fullSoftware("f", at), WatchedBy: "release-1",
		ImagePolicy:       image.Window,
		MaintenanceWindow: fullWindow(),
		Sandbox:           true, LastReadyIsolation: agent.Sandboxed, Status: agent.Paused, StatusReason: agent.Billing,
		Held: organization.Usage{
			Agents: 1, CPUMillis: 2, MemoryBytes: 3, StorageBytes: 4, APIKeys: 5, SnapshotBytes: 6,
		},
		Stages: []agent.Stage{{
			Name: agent.StageReady, Status: agent.StageFailed, Attempt: 3, StartedAt: at,
			FinishedAt: at.Add(time.Microsecond), ErrorCode: "e", Message: "m",
		}},
		Failure: &agent.Failure{
			Code: "f", Stage: agent.StageReady, Message: "m", Retryable: true, Outage: true,
			Observed: observation(at.Add(11 * time.Second)),
		},
		RevertReason: &agent.Failure{
			Code: "u", Stage: agent.StageRuntime, Message: "n", Retryable: true, Outage: true,
			Observed: observation(at.Add(12 * time.Second)),
		},
		Warming: true, RotationPending: true, Routed: true,
		CredentialVersion: 4, FormerCredential: 3, RevealedAt: at.Add(6 * time.Second),
		Rollout: 5, Generation: 6, ObservedGeneration: 7, Attempts: 8,
		Lease:     agent.Lease{Holder: "h", Until: at.Add(time.Second)},
		WorkDueAt: at.Add(2 * time.Second), Deadline: at.Add(3 * time.Second), RetryAt: at.Add(8 * time.Second),
		AppliedAt: at.Add(9 * time.Second), WaitingSince: at.Add(10 * time.Second),
		CreatedAt: at.Add(4 * time.Second), UpdatedAt: at.Add(5 * time.Second), CreatedBy: "b",
		SecretsRevision: 9, StoringUntil: at.Add(7 * time.Second),
		ServingChanges: []agent.ServingChange{{Since: at, Serving: agent.Idle}},
		Awake:          agent.AwakeLog{Since: at.Add(14 * time.Second), Last: 2, Seconds: []int{3}},
		PodRestarts:    agent.PodRestarts{Total: 3, Pod: "p", Seen: 2},
		Deletion:       fullDeletion(at),
		Volume:         fullVolume(2),
		FormerVolumes:  []agent.FormerVolume{{Number: 1, LookAt: at, GoneAt: at.Add(time.Second)}},
		Snapshots:      fullSnapshots(at), StoppedFor: "s", DailySnapshotAt: at.Add(17 * time.Second),
		Move:    fullMove(at),
		Imports: true,
		Reader:  fullReader(at),
		CloneOf: "s", UnsetSecrets: []string{"LACKED"},
		Live:           []agent.LiveVersion{{Key: "B", Version: 1}},
		SecretVersions: []agent.VersionRange{{Key: "B", Highest: 2, DestroyedBefore: 1}},
	}
	a.Operations = []secret.Operation{{
		ID: ID(), AgentID: a.ID, OrganizationID: a.OrganizationID, Key: "B", Action: secret.Rotate,
		Stage: secret.Bind, Status: secret.Failed, ErrorCode: "e", Attempts: 2, LatestBefore: 3, Version: 4, Bytes: 5,
		Target: egress.Target{Hosts: []string{"d.a.example"}}.Canonical().Encode(),
		Batch:  "x", StoringUntil: at, RequiredToStart: true, CreatedAt: at, UpdatedAt: at.Add(time.Second),
	}}
	return a
}

func fullEgress() egress.Rules {
	return egress.Rules{Mode: egress.AllowList, Allow: []string{"*.a.example"}, Deny: []string{"b.a.example"}}
}

func fullInjected(at time.Time) []agent.InjectedSecret {
	return []agent.InjectedSecret{{
		Key: "C", Version: 4, Bytes: 5, SetAt: at,
		Target: egress.Target{Hosts: []string{"c.a.example"}}.Canonical().Encode(),
	}}
}

func fullSchedules(at time.Time) []agent.Schedule {
	return []agent.Schedule{{
		ScheduleTerms: agent.ScheduleTerms{
			ID: "s", Cron: "0 9 * * *", Timezone: "Europe/Berlin", Path: "/p", Body: "b", Missed: agent.RunMissedOnce,
			Disabled: true,
		},
		After: at, Skipped: 2,
		Call: agent.Call{
			DueAt: at.Add(time.Second), OrderedAt: at.Add(2 * time.Second), Front: "f", LookAt: at.Add(3 * time.Second),
		},
		Last: agent.CallResult{
			DueAt: at.Add(4 * time.Second), CalledAt: at.Add(5 * time.Second), Outcome: agent.CallAnswered, Status: 200,
			DurationMS: 3,
		},
	}}
}

func fullSnapshots(at time.Time) []agent.Snapshot {
	return []agent.Snapshot{{
		ID: "s", Name: "n", Cause: agent.SnapshotByRelease, Status: agent.SnapshotFailed,
		Consistency: agent.ConsistentByHook, Volume: 1, Image: "i@1", CreatedBy: "u", CreatedAt: at,
		RequestedAt: at.Add(time.Second), CutAt: at.Add(2 * time.Second), Handle: "h", ReadyAt: at.Add(3 * time.Second),
		SizeBytes: 4, ExpiresAt: at.Add(5 * time.Second), LookAt: at.Add(6 * time.Second),
		GoneAt:  at.Add(7 * time.Second),
		Problem: "p",
	}}
}

func fullWindow() *image.MaintenanceWindow {
	return &image.MaintenanceWindow{Days: []image.Day{"monday"}, Start: "02:30", Hours: 2, Timezone: "UTC"}
}

func fullSoftware(id string, at time.Time) agent.Software {
	choice := image.Choice{ID: id, Version: "2", Reference: "registry/" + id + "@sha256:2", Runtime: image.Runtime{
		Port: 1, APIPort: 2, HealthPath: "/h", BusyPath: "/b", Auth: "front", Command: []string{"c"},
		Args: []string{"a"}, Env: image.Env{{Name: "N", Value: "v"}}, DataPath: "/d", Home: "/d/h", GraceSeconds: 31,
		PublicPaths: []string{"/p/"}, Kernel: image.KernelLinux, Quiesce: "/quiesce", RestoreOnRevert: true,
	}}
	former := choice.Clone()
	former.Version = "1"
	return agent.Software{Choice: choice, Update: agent.Update{
		Release: "release-1", Version: "2", Former: former, State: agent.UpdateReverted, MovedAt: at,
		ReadyAt: at.Add(time.Second), Restarts: 1, PastRestarts: 2, PastErrors: 0.5, Reason: "r",
	}}
}

func observation(since time.Time) agent.Observation {
	return agent.Observation{Reason: "r", Exited: true, ExitCode: 1, Restarts: 2, Lacks: "cpu", Since: since}
}

// zeroFields names the fields of a struct that have their zero value.
func zeroFields(record any) (names []string) {
	v := reflect.ValueOf(record)
	for i := range v.NumField() {
		if v.Field(i).IsZero() {
			names = append(names, v.Type().Field(i).Name)
		}
	}
	return names
}

func fullDeletion(at time.Time) agent.Deletion {
	after := func(seconds int) time.Time { return at.Add(time.Duration(seconds) * time.Second) }
	return agent.Deletion{
		RequestedAt: after(1), RequestedBy: "x", ClusterRequestedAt: after(2), NamespaceGoneAt: after(3),
		VolumeGoneAt: after(4), SecretsRequestedAt: after(5), SecretsGoneAt: after(6),
	}
}
