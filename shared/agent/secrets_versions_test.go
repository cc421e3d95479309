package agent_test

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/secret"
)

func TestHighestVersion_IsTheHighestThatTheRecordNames(t *testing.T) {
	t.Parallel()
	for name, given := range map[string]agent.Agent{
		"variable": {Env: []agent.EnvVar{{Key: "A", SecretVersion: 7}, {Key: "B", SecretVersion: 9}}},
		"stored by an operation": {Operations: []secret.Operation{
			{Key: "A", Version: 7}, {Key: "A", Version: 3}, {Key: "B", Version: 9},
		}},
		"seen by an operation": {Operations: []secret.Operation{{Key: "A", LatestBefore: 7}}},
		"in the pod":           {Live: []agent.LiveVersion{{Key: "A", Version: 7}, {Key: "B", Version: 9}}},
		"known from before": {
			SecretVersions: []agent.VersionRange{{Key: "A", Highest: 7}, {Key: "B", Highest: 9}},
			Env:            []agent.EnvVar{{Key: "A", SecretVersion: 6}},
		},
	} {
		equal(t, name, given.HighestVersion("A"), 7)
		equal(t, name+", unknown key", given.HighestVersion("C"), 0)
	}
	a := agent.Agent{CredentialVersion: 3, FormerCredential: 2}
	equal(t, "credentials", a.HighestVersion(secret.CredentialsKey), 3)
}

// A secret is deleted, set again and deleted again. The record still knows its last version, whatever a list says.
func TestSecretVersions_OutliveTheSecret(t *testing.T) {
	t.Parallel()
	a := withSecret()
	finish := func(minute int, id string) {
		t.Helper()
		a.BindSecrets(at(minute))
		a.MarkSecretsSynced(at(minute))
		a.BecameReady(at(minute))
		a.FinishOperations([]string{id}, at(minute))
		a.Operations = nil
	}
	begin(t, &a, 2, del("d", "TOKEN"))
	from, before := a.ObsoleteVersions(*a.Operation("d"))
	equal(t, "first obsolete version", from, 1)
	equal(t, "end of the obsolete versions", before, 2)
	finish(3, "d")
	equal(t, "HighestVersion after the deletion", a.HighestVersion("TOKEN"), 1)

	begin(t, &a, 4, set("s", "TOKEN"))
	equal(t, "LatestBefore of the next operation", a.Operation("s").LatestBefore, 1)
	recordStored(t, &a, 5, "s", 4) // 2 and 3 landed late, and no operation has them
	from, before = a.ObsoleteVersions(*a.Operation("s"))
	equal(t, "first obsolete version, later", from, 2)
	equal(t, "end of the obsolete versions, later", before, 4)
	finish(6, "s")
	if want := []agent.VersionRange{{Key: "TOKEN", Highest: 4, DestroyedBefore: 4}}; !reflect.DeepEqual(
		a.SecretVersions, want) {
		t.Errorf("SecretVersions = %+v, want %+v", a.SecretVersions, want)
	}
	begin(t, &a, 7, del("d", "TOKEN"))
	from, before = a.ObsoleteVersions(*a.Operation("d"))
	equal(t, "first obsolete version, at last", from, 4)
	equal(t, "end of the obsolete versions, at last", before, 5)
}

func TestSecretKeys_NamesEveryKeyThatMayHaveVersions(t *testing.T) {
	t.Parallel()
	a := agent.Agent{
		Env:            []agent.EnvVar{{Key: "PLAIN", Value: "x"}, {Key: "B", SecretVersion: 1}},
		Operations:     []secret.Operation{{Key: "C"}, {Key: secret.CredentialsKey}},
		Live:           []agent.LiveVersion{{Key: "D", Version: 1}, {Key: "B", Version: 1}},
		SecretVersions: []agent.VersionRange{{Key: "A"}, {Key: "B"}},
	}
	if got, want := a.SecretKeys(), []string{"A", "B", "C", "D", secret.CredentialsKey}; !reflect.DeepEqual(got, want) {
		t.Errorf("SecretKeys = %v, want %v", got, want)
	}
}

func TestBeginOperations_RefusesTooManyKeysOverAllTime(t *testing.T) {
	t.Parallel()
	a := withSecret()
	for i := range agent.MaxSecretKeys {
		id := fmt.Sprintf("K%04d", i)
		begin(t, &a, 2, set(id, id))
		recordStored(t, &a, 3, id, 1)
		a.Operations = nil // deleted long ago
	}
	begin(t, &a, 4, set("again", "K0000"))
	_, err := a.BeginOperations(a.SecretsRevision, []secret.Operation{set("new", "NEW")}, at(5))
	if !fault.Is(err, fault.Invalid) {
		t.Errorf("one more key: %v, want Invalid", err)
	}
}

// It is not known whether the value of an operation arrived. Until it can't arrive any more, no other operation of the
// key begins.
func TestRecordStored_UnknownOutcomeBlocksTheKey(t *testing.T) {
	t.Parallel()
	a := withSecret()
	begin(t, &a, 2, set("a", "TOKEN"))
	o := a.Operation("a")
	last := o.StoringUntil.Add(-1)
	if err := a.RecordStored([]agent.Outcome{{OperationID: "a", Code: "secret_store_unavailable"}}, last); err != nil {
		t.Fatal(err)
	}
	o = a.Operation("a")
	equal(t, "stage", o.Stage, secret.Store)
	equal(t, "status", o.Status, secret.Pending)
	equal(t, "error code", o.ErrorCode, "secret_store_unavailable")
	again := []secret.Operation{set("b", "TOKEN")}
	if _, err := a.BeginOperations(a.SecretsRevision, again, last); !errors.Is(err, agent.ErrStoring) {
		t.Errorf("BeginOperations before StoringUntil: %v, want ErrStoring", err)
	}
	if _, err := a.BeginOperations(a.SecretsRevision, again, o.StoringUntil); err != nil {
		t.Errorf("BeginOperations at StoringUntil: %v", err)
	}
}

func TestResumeStoring_BeginsTheStoreStageAgain(t *testing.T) {
	t.Parallel()
	a := withSecret()
	begin(t, &a, 2, set("a", "A"), set("b", "B"))
	if _, err := a.ResumeStoring(a.SecretsRevision, []string{"a"}, at(2)); !errors.Is(err, agent.ErrStoring) {
		t.Errorf("ResumeStoring while the request may add values: %v, want ErrStoring", err)
	}
	recordStored(t, &a, 3, "b", 1)
	_, err := a.ResumeStoring(a.SecretsRevision-1, []string{"a"}, at(4))
	if !errors.Is(err, agent.ErrSecretsChanged) {
		t.Errorf("ResumeStoring after a change: %v, want ErrSecretsChanged", err)
	}
	revision := a.SecretsRevision
	resumed, err := a.ResumeStoring(revision, []string{"a", "b", "gone"}, at(4))
	if err != nil || len(resumed) != 1 || resumed[0].ID != "a" || !resumed[0].Storing(at(4)) {
		t.Fatalf("ResumeStoring = %+v, %v, want operation a, storing", resumed, err)
	}
	equal(t, "attempts", resumed[0].Attempts, 2)
	equal(t, "operations", operationsOf(a), "a store pending;b bind pending;")
	equal(t, "SecretsRevision", a.SecretsRevision, revision+1)
	if err := a.Act(agent.Delete, "", at(5)); err != nil {
		t.Fatal(err)
	}
	if _, err := a.ResumeStoring(a.SecretsRevision, []string{"a"}, at(6)); fault.Code(err) != "agent_deleting" {
		t.Errorf("ResumeStoring of a deleted agent: %v, want agent_deleting", err)
	}
}

// A creation whose request ended halfway has as long as a start. After that it holds no part of the plan, and gets it
// back with its start.
func TestHeldUsage_ACreationThatEndedHalfwayGivesItsSlotBack(t *testing.T) {
	t.Parallel()
	a := agent.New("3fa85f64-5717-4562-b3fc-2c963f66afa6", "cell-1", agent.Draft{Name: "a", Plan: "pro"}, at(0))
	creation := set("creation", "TOKEN")
	creation.RequiredToStart = true
	begin(t, &a, 0, creation)
	equal(t, "agents held", a.HeldUsage().Agents, 1)
	missing := agent.Failure{Code: agent.CodeValueUnavailable, Message: "m", Retryable: true}
	equal(t, "the first run ends the work", a.FailRun(missing, false, at(1)), false)
	equal(t, "the deadline", a.Deadline, at(1).Add(agent.ProvisioningTimeout))
	for range agent.MaxAttempts {
		a.Attempts++
		equal(t, "a run before the deadline ends the work", a.FailRun(missing, false, at(2)), false)
	}
	equal(t, "a run at the deadline ends the work", a.FailRun(missing, false, a.Deadline), true)
	equal(t, "status", a.Status, agent.Error)
	equal(t, "held by an agent that never ran", a.HeldUsage(), organization.Usage{})
	stopped := a.Clone()
	if err := stopped.Act(agent.Stop, agent.Manual, at(3)); err != nil {
		t.Fatal(err)
	}
	equal(t, "held once it is stopped", stopped.HeldUsage(), organization.Usage{})
	if err := a.Act(agent.Start, agent.Manual, at(3)); err != nil {
		t.Fatal(err)
	}
	equal(t, "agents held after a start", a.HeldUsage().Agents, 1)
}

// The place of a creation that ended halfway was taken since. A value of it is refused before it is stored; a change
// that leaves the agent waiting, or gives it a place that is free, is not.
func TestChargeChange_RefusesTheLastValueOfACreationWithoutRoom(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		requested  []secret.Operation
		free       bool
		wantRefuse bool
	}{
		"the last value":                {requested: []secret.Operation{set("again", "TOKEN")}, wantRefuse: true},
		"the last value, while it fits": {requested: []secret.Operation{set("again", "TOKEN")}, free: true},
		"another value":                 {requested: []secret.Operation{set("other", "OTHER")}},
	} {
		draft := agent.Draft{Name: "a", Plan: "hobby"}
		before := agent.New("3fa85f64-5717-4562-b3fc-2c963f66afa6", "cell-1", draft, at(0))
		creation := set("creation", "TOKEN")
		creation.RequiredToStart = true
		begin(t, &before, 0, creation)
		before.GiveUp(agent.Failure{Code: agent.CodeValueUnavailable}, at(1))
		o := organization.New("o", at(0))
		if !row.free {
			o.Usage = organization.Usage{Agents: 1}
		}
		was := o.Usage
		after := before.Clone()
		begin(t, &after, 2, row.requested...)
		_, err := after.ChargeChange(&o, identity.Session, before)
		if f := fault.From(err); (err != nil) != row.wantRefuse || err != nil && f.Kind != fault.PaymentRequired {
			t.Errorf("%s: %v, want PaymentRequired: %t", name, err, row.wantRefuse)
		}
		equal(t, name+": usage before the value is stored", o.Usage, was)
	}
}

// A request begins an operation in the microsecond in which the agent was created. The agent does not wait for it.
func TestAwaitedSecret_IsOnlyOneOfTheCreation(t *testing.T) {
	t.Parallel()
	a := agent.New("3fa85f64-5717-4562-b3fc-2c963f66afa6", "cell-1", agent.Draft{Name: "a", Plan: "pro"}, at(0))
	begin(t, &a, 0, set("later", "LATER"))
	equal(t, "AwaitedSecret with a later operation", a.AwaitedSecret(), "")
	creation := set("creation", "TOKEN")
	creation.RequiredToStart = true
	begin(t, &a, 0, creation)
	equal(t, "AwaitedSecret with an operation of the creation", a.AwaitedSecret(), "TOKEN")

	a.SecretVersions = nil // as an older release left it
	a.Operation("creation").RequiredToStart = false
	a.Operation("later").CreatedAt = at(1)
	equal(t, "AwaitedSecret of an older release", a.AwaitedSecret(), "TOKEN")
}

// Two workers add the first credentials. Whichever ends first, the deletion waits for the other.
func TestLiftFence_KeepsTheFencesOfOtherWorkers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		second time.Time // until when the second worker may add, by its own clock
		lifts  []int
		want   int // the fence that remains; -1 for none
	}{
		"both end, the second one first": {second: at(2), lifts: []int{1, 0}, want: -1},
		"the first one ends":             {second: at(2), lifts: []int{0}, want: 1},
		"the second one ends":            {second: at(2), lifts: []int{1}, want: 0},
		"the first one ends, same time":  {second: at(1), lifts: []int{0}, want: 1},
		"the first one ends, late clock": {second: at(0), lifts: []int{0}, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := in(agent.Provisioning)
			var fences []agent.StoringFence
			var until []time.Time
			for _, at := range []time.Time{at(1), c.second} {
				fences = append(fences, a.FenceStoring(at))
				until = append(until, a.StoringUntil)
			}
			for _, n := range c.lifts {
				a.LiftFence(fences[n])
			}
			want := time.Time{}
			if c.want >= 0 {
				want = until[c.want]
			}
			equal(t, "StoringUntil", a.StoringUntil, want)
		})
	}
}
