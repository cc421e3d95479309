package agent_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agent/agenttest"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/image"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/plan"
)

// fieldsOfAClone says of every field of an agent what a clone has there.
func fieldsOfAClone() map[string][]string {
	return map[string][]string{
		"what the source has": {
			"Cloud", "Region", "Config", "Sleep", "ImagePolicy", "MaintenanceWindow", "Sandbox", "Egress",
		},
		"what the source has, without what gives access and what makes the agent act": {
			"Env", "Files", "Schedules", "UnsetSecrets",
		},
		"what any new agent has": {
			"ID", "Name", "Slug", "Plan", "Cell", "Status", "Held", "Stages", "Generation", "WorkDueAt", "Awake",
			"CreatedAt", "UpdatedAt", "NameAtStart",
		},
		"what any clone has": {"Volume", "CloneOf", "ImageWish"},
		"nothing": {
			"OrganizationID", "Move", "PublicPaths", "Image", "Front", "WatchedBy", "LastReadyIsolation",
			"StatusReason",
			"Door", "WokenBy", "AwakeUntil", "WakeAt", "CallsDueAt", "CallsPausedUntil", "Failure", "RevertReason",
			"Warming",
			"RotationPending", "Routed", "CredentialVersion", "APIKeyHash", "FormerCredential", "RevealedAt", "Rollout",
			"Operations", "SecretsRevision", "StoringUntil", "Live", "SecretVersions", "ServingChanges", "PodRestarts",
			"FormerVolumes", "Imports", "Injected", "EgressWish", "Reader", "Snapshots", "StoppedFor",
			"DailySnapshotAt", "Deletion", "ObservedGeneration", "Attempts",
			"RetryAt", "Lease", "AppliedAt", "WaitingSince", "Deadline", "CreatedBy", "ChangeID", "Version", "Rest",
		},
	}
}

// source is an agent with every field set, and a snapshot of it that is ready.
func source(t *testing.T) (agent.Agent, agent.Snapshot) {
	t.Helper()
	a := agenttest.FullAgent(at(0))
	a.Snapshots, a.Volume.Unmade, a.Move = nil, false, agent.Move{}
	a.Files = append(a.Files, agent.File{Path: "/data/plain", Content: "text", Bytes: 4, Mode: 0o644})
	a, s := taken(t, a, 1)
	return a, s
}

// cloneOf is a clone of the agent's snapshot, as a request makes it that says nothing more.
func cloneOf(t *testing.T, a agent.Agent, snapshotID string) agent.Agent {
	t.Helper()
	d, err := a.CloneDraft(snapshotID)
	if err != nil {
		t.Fatal(err)
	}
	d.Name, d.Plan = "clone", plan.Business
	return agent.New(agenttest.ID(), "another-cell", d, at(100))
}

// TestClone_SharesNothingThatIdentifies holds every field of an agent. A new field fails the test until someone has
// decided what a clone has there.
func TestClone_SharesNothingThatIdentifies(t *testing.T) {
	t.Parallel()
	a, s := source(t)
	clone := cloneOf(t, a, s.ID)
	fresh := agent.New(clone.ID, clone.Cell, agent.Draft{Name: "clone", Plan: plan.Business}, at(100))
	kinds := map[string]string{}
	for kind, fields := range fieldsOfAClone() {
		for _, field := range fields {
			if kinds[field] != "" {
				t.Errorf("%s is listed twice", field)
			}
			kinds[field] = kind
		}
	}
	value := func(a agent.Agent, i int) any { return reflect.ValueOf(a).Field(i).Interface() }
	for i, field := range reflect.VisibleFields(reflect.TypeFor[agent.Agent]()) {
		got := value(clone, i)
		switch kind := kinds[field.Name]; kind {
		case "":
			t.Errorf("%s: say in fieldsOfAClone what a clone has there", field.Name)
		case "what the source has":
			if diff := cmp.Diff(value(a, i), got); diff != "" {
				t.Errorf("%s (-source +clone):\n%s", field.Name, diff)
			}
		case "what any new agent has":
			if diff := cmp.Diff(value(fresh, i), got); diff != "" || reflect.DeepEqual(got, value(a, i)) {
				t.Errorf("%s is %v, want %v as any new agent, and not as the source", field.Name, got, value(fresh, i))
			}
		case "nothing":
			if reflect.ValueOf(got).IsValid() && !reflect.ValueOf(got).IsZero() {
				t.Errorf("%s is %v, want nothing", field.Name, got)
			}
		}
		delete(kinds, field.Name)
	}
	for field := range kinds {
		t.Errorf("%s is no field of an agent", field)
	}
	equal(t, "the number of the volume", clone.Volume, agent.Volume{
		Source: agent.VolumeSource{SnapshotID: s.ID, Handle: s.Handle}, Unmade: true,
	})
	equal(t, "it is made from another agent's snapshot", clone.Volume.Foreign(clone.ID), true)
	equal(t, "what it is a clone of", clone.CloneOf, s.ID)
	equal(t, "whose clone it is", clone.ClonedAgent(), a.ID)
	equal(t, "the image", *clone.ImageWish,
		agent.ImageWish{Selection: a.Image.String(), Instead: a.Image.ID, At: at(100)})
}

// TestClone_HasNoSecretOfItsSource looks for each secret text of a source in its clone.
func TestClone_HasNoSecretOfItsSource(t *testing.T) {
	t.Parallel()
	a, _ := source(t)
	a.Env = []agent.EnvVar{
		{Key: "AGENT_CLONE_OF", Value: "no clone"}, // an agent of a former release, when the name was not reserved
		{Key: "LEVEL", Value: "info"},
		{Key: "OLD_PASSWORD", Value: "plain-password"}, // one when it was not taken for a secret
		{Key: "OPENAI_API_KEY", SecretVersion: 3, Bytes: 9, SetAt: at(0)},
	}
	a.Files = []agent.File{
		{Path: "/config/key", Secret: "FILE_KEY", Mode: 0o600},
		{Path: "/data/plain", Content: "text", Bytes: 4, Mode: 0o644},
	}
	a.UnsetSecrets = []string{"LACKED_KEY"}
	a.Schedules[0].Disabled = false
	a, s := taken(t, a, 2)
	clone := cloneOf(t, a, s.ID)
	if diff := cmp.Diff([]agent.EnvVar{{Key: "LEVEL", Value: "info"}}, clone.Env); diff != "" {
		t.Errorf("the variables (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]agent.File{a.Files[1]}, clone.Files); diff != "" {
		t.Errorf("the files (-want +got):\n%s", diff)
	}
	want := []string{"C", "FILE_KEY", "LACKED_KEY", "OLD_PASSWORD", "OPENAI_API_KEY"}
	if !slices.Equal(clone.UnsetSecrets, want) {
		t.Errorf("it lacks %q, want %q", clone.UnsetSecrets, want)
	}
	if len(clone.Schedules) != 1 || !clone.Schedules[0].Disabled || clone.Schedules[0].Cron != a.Schedules[0].Cron ||
		clone.Schedules[0].Call.Open() || clone.Schedules[0].Skipped != 0 {
		t.Errorf("the schedules are %+v, want the terms of the source, disabled", clone.Schedules)
	}
	clone.CloneOf, clone.Volume.Source = "", agent.VolumeSource{}
	text, err := json.Marshal(clone)
	if err != nil {
		t.Fatal(err)
	}
	host, _, _ := strings.Cut(s.ID, "-") // the source's part in its hostname
	for _, word := range []string{a.ID, host, s.ID, s.Handle, "plain-password", "no clone", a.Operations[0].ID} {
		if strings.Contains(string(text), word) {
			t.Errorf("the clone has %q of its source", word)
		}
	}
}

// TestClone_LacksNoMoreSecretsThanAnAgentCanHave: otherwise, a chain of clones, each with secrets of other names, makes
// a record that no store takes.
func TestClone_LacksNoMoreSecretsThanAnAgentCanHave(t *testing.T) {
	t.Parallel()
	a := agent.Agent{ID: agenttest.ID(), Plan: plan.Starter, Env: []agent.EnvVar{{Key: "OWN_KEY", SecretVersion: 1}}}
	a.Snapshots = []agent.Snapshot{{ID: "s", Status: agent.SnapshotReady}}
	for i := range agent.MaxSecretKeys {
		a.UnsetSecrets = append(a.UnsetSecrets, fmt.Sprintf("A_%d_KEY", i))
	}
	d, err := a.CloneDraft("s")
	if n := len(d.Origin.Secrets); err != nil || n != agent.MaxSecretKeys || d.Origin.Secrets[n-1] != "OWN_KEY" {
		t.Errorf("the clone lacks %d secrets, %v; want %d, with the agent's own", n, err, agent.MaxSecretKeys)
	}
}

func TestClone_SharesNoMemory(t *testing.T) {
	t.Parallel()
	a, s := source(t)
	clone := cloneOf(t, a, s.ID)
	before := clone.Clone()
	a.Config[1], a.Sleep.WakeOn[0], a.MaintenanceWindow.Days[0] = 'X', "x", "x"
	a.Env[0].Value, a.Files[1].Content, a.UnsetSecrets[0] = "x", "x", "x"
	if diff := cmp.Diff(before, clone, cmp.AllowUnexported(agent.Agent{})); diff != "" {
		t.Errorf("a change of the source changes the clone (-before +after):\n%s", diff)
	}
}

func TestClone_TakesTheSleepOfItsPlanIfTheSourceHasThat(t *testing.T) {
	t.Parallel()
	a, _ := source(t)
	a.Plan = plan.Hobby
	hobby, err := plan.Get(plan.Hobby)
	if err != nil {
		t.Fatal(err)
	}
	a.Sleep = agent.DefaultSleep(hobby)
	a, s := taken(t, withoutSnapshots(a), 2)
	equal(t, "a clone of a larger plan never sleeps", cloneOf(t, a, s.ID).Sleep.AfterSeconds, 0)
}

func withoutSnapshots(a agent.Agent) agent.Agent {
	a.Snapshots = nil
	return a
}

func TestClone_IsRefused(t *testing.T) {
	t.Parallel()
	is := func(status agent.SnapshotStatus) func(*agent.Agent, *agent.Snapshot) {
		return func(_ *agent.Agent, s *agent.Snapshot) { s.Status = status }
	}
	for name, c := range map[string]struct {
		change func(a *agent.Agent, s *agent.Snapshot)
		want   string
	}{
		"not ready":     {change: is(agent.SnapshotPending), want: "snapshot_not_ready"},
		"failed":        {change: is(agent.SnapshotFailed), want: "snapshot_not_ready"},
		"being deleted": {change: is(agent.SnapshotDeleting), want: "snapshot_not_ready"},
		"gone": {
			change: func(_ *agent.Agent, s *agent.Snapshot) { s.GoneAt = at(0) }, want: "validation_error",
		},
		"another": {
			change: func(_ *agent.Agent, s *agent.Snapshot) { s.ID = "-" + s.ID[1:] }, want: "validation_error",
		},
		"agent deleting": {
			change: func(a *agent.Agent, _ *agent.Snapshot) { a.Status = agent.Deleting }, want: "agent_deleting",
		},
	} {
		a, s := source(t)
		c.change(&a, &a.Snapshots[0])
		if _, err := a.CloneDraft(s.ID); fault.Code(err) != c.want {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	d := agent.Draft{Plan: plan.Hobby, Origin: agent.Origin{SizeBytes: 5<<30 + 1}}
	if err := d.CheckOrigin(); fault.Code(err) != "snapshot_too_large" {
		t.Errorf("a snapshot that is larger than the volume: %v, want snapshot_too_large", err)
	}
	d.Origin.SizeBytes--
	if err := d.CheckOrigin(); err != nil {
		t.Errorf("a snapshot as large as the volume: %v", err)
	}
}

func TestDraft_AddsVariables(t *testing.T) {
	t.Parallel()
	d := agent.Draft{Env: []agent.EnvVar{{Key: "A", Value: "1"}, {Key: "B", Value: "2"}, {Key: "TOKEN", Value: "3"}}}
	err := d.SetEnv([]agent.EnvVar{{Key: "B", Value: "4"}, {Key: "C", Value: "5"}},
		map[string]string{"TOKEN": "secret"})
	if err != nil {
		t.Fatal(err)
	}
	want := []agent.EnvVar{{Key: "A", Value: "1"}, {Key: "B", Value: "4"}, {Key: "C", Value: "5"}}
	if diff := cmp.Diff(want, d.Env); diff != "" {
		t.Errorf("the variables (-want +got):\n%s", diff)
	}
	large := agent.EnvVar{Value: strings.Repeat("x", agent.MaxEnvValueBytes)}
	for _, key := range strings.Split("DEFGHIJK", "") {
		large.Key = key
		if err = d.SetEnv([]agent.EnvVar{large}, nil); err != nil {
			break
		}
	}
	if fault.Code(err) != "validation_error" || len(d.Env) > 3+8 {
		t.Errorf("too many bytes: %v, want a refusal", err)
	}
}

// TestUnsetSecrets_LeaveTheListOnceTheyAreSet commits changes of a clone.
func TestUnsetSecrets_LeaveTheListOnceTheyAreSet(t *testing.T) {
	t.Parallel()
	a := agent.Agent{ID: agenttest.ID(), UnsetSecrets: []string{"A_KEY", "B_KEY", "C_KEY"}}
	after, _, err := a.Edit(func(a *agent.Agent) error {
		a.Env = []agent.EnvVar{{Key: "A_KEY", SecretVersion: 1}, {Key: "C_KEY", Value: "plain"}}
		return nil
	}, nil)
	if err != nil || !slices.Equal(after.UnsetSecrets, []string{"B_KEY"}) {
		t.Errorf("it lacks %q (%v), want B_KEY", after.UnsetSecrets, err)
	}
	if !slices.Equal(a.UnsetSecrets, []string{"A_KEY", "B_KEY", "C_KEY"}) {
		t.Errorf("the commit changed the former record: %q", a.UnsetSecrets)
	}
}

// TestClone_InASandboxTakesNoImageThatNeedsLinux chooses the image of a clone.
func TestClone_InASandboxTakesNoImageThatNeedsLinux(t *testing.T) {
	t.Parallel()
	set := image.Set{BuiltIn: image.BuiltIn{Agent: "registry.example/i@sha256:" + strings.Repeat("a", 64)}}
	set.BuiltIn.Runtime.Kernel = image.KernelLinux
	a := agent.New(agenttest.ID(), "cell-1", agent.Draft{
		Name: "n", Plan: plan.Hobby, Image: image.DefaultID, Sandbox: true,
	}, at(0))
	if err := a.ChooseImages(agent.Agent{}, set); fault.Code(err) != "image_needs_linux_kernel" {
		t.Errorf("ChooseImages = %v, want image_needs_linux_kernel", err)
	}
}

// TestUsage_CountsSnapshotsThatAreReady follows what an agent holds.
func TestUsage_CountsSnapshotsThatAreReady(t *testing.T) {
	t.Parallel()
	var s agent.Snapshot
	a := edit(t, runningOn(t), func(a *agent.Agent) { *a, s = taken(t, *a, 2) })
	equal(t, "with a snapshot", a.HeldUsage().SnapshotBytes, s.SizeBytes)
	deleted := edit(t, a, func(a *agent.Agent) { equal(t, "error", a.DeleteSnapshot(s.ID, at(3)), nil) })
	equal(t, "while it is deleted", deleted.HeldUsage().SnapshotBytes, 0)
	leaving := edit(t, a, func(a *agent.Agent) { equal(t, "error", a.Act(agent.Delete, agent.Manual, at(3)), nil) })
	equal(t, "with the agent", leaving.HeldUsage(), organization.Usage{})
}
