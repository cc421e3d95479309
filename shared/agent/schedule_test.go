package agent_test

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/secret"
)

func TestApplied_SetsTheDeadlineOncePerGeneration(t *testing.T) {
	t.Parallel()
	a := in(agent.Provisioning)
	a.Generation++
	equal(t, "Waits before the objects are applied", a.Waits(), false)
	a.Applied(at(0))
	equal(t, "Waits", a.Waits(), true)
	equal(t, "Deadline", a.Deadline, at(15))
	a.Applied(at(8))
	equal(t, "Deadline after the second application", a.Deadline, at(15))
	equal(t, "AppliedAt", a.AppliedAt, at(8))
	a.BecameReady(at(9))
	equal(t, "Deadline of a ready agent", a.Deadline, time.Time{})
	equal(t, "Waits once ready", a.Waits(), false)
	if err := a.Act(agent.Restart, "", at(22)); err != nil {
		t.Fatal(err)
	}
	equal(t, "Deadline of the next generation", a.Deadline, time.Time{})
	equal(t, "Waits in the next generation", a.Waits(), false)
	a.Applied(at(23))
	equal(t, "Deadline of a running agent", a.Deadline, at(33))
}

func TestAwaitReady_LooksLessAndLessOftenUntilTheDeadline(t *testing.T) {
	t.Parallel()
	a := in(agent.Provisioning)
	a.Generation++
	a.Attempts = 3
	a.AcquireLease("h", at(0))
	a.Applied(at(0))
	for _, c := range []struct{ now, want int }{
		{0, 1}, {0, 1}, {1, 3}, {2, 3}, {3, 7}, {6, 7}, {7, 15}, {14, 15}, {15, 25}, {60, 65},
	} {
		a.WorkDueAt = at(c.now).Add(agent.NudgeGrace) // as a sweep records
		a.AwaitReady(nil, time.Time{}, at(c.now))
		equal(t, fmt.Sprintf("WorkDueAt after a look at minute %d", c.now), a.WorkDueAt, at(c.want))
	}
	equal(t, "Attempts", a.Attempts, 0)
	equal(t, "Lease", a.Lease, agent.Lease{})
	a.AwaitReady(nil, at(62), at(61))
	equal(t, "WorkDueAt with a latest time", a.WorkDueAt, at(62))
}

func TestAwaitReady_ChangesNothingInASecondLook(t *testing.T) {
	t.Parallel()
	a := in(agent.Running)
	if err := a.Act(agent.Restart, "", at(0)); err != nil {
		t.Fatal(err)
	}
	a.Applied(at(0))
	f := agent.Failure{Code: "image_pull_failed", Stage: agent.StageReady}
	a.AwaitReady(&f, time.Time{}, at(0))
	before := a
	again := f
	a.AwaitReady(&again, time.Time{}, at(0).Add(30*time.Second))
	if !reflect.DeepEqual(a, before) {
		t.Errorf("a nudge in between changed the record to %+v, want %+v", a, before)
	}
	equal(t, "Warming", a.Warming, true)
	equal(t, "UpdatedAt", a.UpdatedAt, at(0))
	a.AwaitReady(nil, time.Time{}, at(1))
	equal(t, "Failure", a.Failure == nil, true)
}

// A redelivery that finds the agent waiting ends the status pending.
func TestAwaitReady_IsNoFailure(t *testing.T) {
	t.Parallel()
	a := in(agent.Provisioning)
	a.Generation++
	a.Applied(at(0))
	a.Retry(agent.Failure{Code: "cluster_unavailable", Stage: agent.StageReady, Outage: true}, at(1))
	equal(t, "Status after an outage", a.Status, agent.Pending)
	a.AwaitReady(nil, time.Time{}, at(2))
	equal(t, "Status", a.Status, agent.Provisioning)
	equal(t, "Failure", a.Failure == nil, true)
	equal(t, "RetryAt", a.RetryAt, time.Time{})
}

func TestRetry_SpacesTheRuns(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		attempts    int
		outage      bool
		deadline    time.Time
		wantRetryAt time.Time
		wantDueAt   time.Time
	}{
		"first":                  {attempts: 1, wantDueAt: at(11)},
		"fifth":                  {attempts: 5, wantDueAt: at(11)},
		"sixth":                  {attempts: 6, wantRetryAt: at(11), wantDueAt: at(11)},
		"tenth":                  {attempts: 10, wantRetryAt: at(12), wantDueAt: at(12)},
		"hundredth of an outage": {attempts: 100, outage: true, wantRetryAt: at(12), wantDueAt: at(12)},
		"shortly before the deadline": {
			attempts: 10, deadline: at(10).Add(time.Second), wantRetryAt: at(10).Add(time.Second),
			wantDueAt: at(10).Add(time.Second),
		},
		"after the deadline": {attempts: 10, outage: true, deadline: at(9), wantRetryAt: at(12), wantDueAt: at(12)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := in(agent.Running)
			a.Generation++
			a.Attempts, a.Deadline = c.attempts, c.deadline
			a.Retry(agent.Failure{Code: "c", Outage: c.outage}, at(10))
			equal(t, "RetryAt", a.RetryAt, c.wantRetryAt)
			equal(t, "WorkDueAt", a.WorkDueAt, c.wantDueAt)
			equal(t, "Exhausted", a.Exhausted(), c.attempts >= agent.MaxAttempts && !c.outage)
			if err := a.Act(agent.Stop, agent.Manual, at(11)); err != nil {
				t.Fatal(err)
			}
			equal(t, "RetryAt after a client's change", a.RetryAt, time.Time{})
		})
	}
}

func TestAwaitDeletion_LooksLessAndLessOften(t *testing.T) {
	t.Parallel()
	a := in(agent.Running)
	if err := a.Act(agent.Delete, "", at(0)); err != nil {
		t.Fatal(err)
	}
	now := at(0)
	for _, minutes := range []int{1, 2, 4, 8, 10, 10, 10} {
		a.AwaitDeletion(time.Time{}, now)
		now = now.Add(time.Duration(minutes) * time.Minute)
		equal(t, "WorkDueAt", a.WorkDueAt, now)
		equal(t, "RetryAt", a.RetryAt, time.Time{})
	}
	a.AwaitDeletion(now.Add(time.Second), now)
	equal(t, "WorkDueAt with a latest time", a.WorkDueAt, now.Add(time.Second))
}

// atDestroy is a running agent with an operation whose former versions must be destroyed.
func atDestroy(t *testing.T) agent.Agent {
	t.Helper()
	a := withSecret()
	store(t, &a, 2, 1, set("a", "A"))
	a.BindSecrets(at(3))
	a.MarkSecretsSynced(at(3))
	a.BecameReady(at(4))
	equal(t, "stage", a.Operation("a").Stage, secret.Complete)
	return a
}

func TestRetryDestroy_GivesUpAfterManyAttempts(t *testing.T) {
	t.Parallel()
	for name, outage := range map[string]bool{"refused": false, "outage": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := atDestroy(t)
			for range agent.MaxAttempts - 1 {
				a.RetryDestroy("secret_store_denied", outage, at(5))
				equal(t, "OperationsDue", a.OperationsDue(), true)
			}
			equal(t, "RetryAt", a.RetryAt, at(7))
			a.RetryDestroy("secret_store_denied", outage, at(5))
			equal(t, "OperationsDue after the last attempt", a.OperationsDue(), outage)
			equal(t, "work is due after the last attempt", !a.WorkDueAt.IsZero(), outage)
			equal(t, "error code", a.Operation("a").ErrorCode, "secret_store_denied")
			if err := a.RetryOperation("a", at(6)); err != nil {
				t.Fatal(err)
			}
			equal(t, "Attempts after the client's retry", a.Attempts, 0)
			equal(t, "RetryAt after the client's retry", a.RetryAt, time.Time{})
			equal(t, "OperationsDue after the client's retry", a.OperationsDue(), true)
		})
	}
}

func TestWarming_FollowsTheOperationsThatReplaceThePod(t *testing.T) {
	t.Parallel()
	a := atDestroy(t)
	if err := a.RetryOperation("a", at(5)); err != nil {
		t.Fatal(err)
	}
	equal(t, "Warming when only versions are left to destroy", a.Warming, false)
	a.Warming = true // as a former release recorded
	a.FinishOperations([]string{"a"}, at(6))
	equal(t, "Warming when no operation is left", a.Warming, false)
	store(t, &a, 7, 1, set("b", "B"))
	equal(t, "Warming when an operation replaces the pod", a.Warming, true)
	a.SetWarming(false, at(8))
	equal(t, "Warming while an operation replaces the pod", a.Warming, true)
	a.Abandon(at(8))
	equal(t, "Warming when no operation continues", a.Warming, false)
}
