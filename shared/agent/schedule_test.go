package agent_test

import (
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/secret"
)

func TestBeginWatch_SetsTheDeadlineOncePerGeneration(t *testing.T) {
	t.Parallel()
	const watch = 8 * time.Minute
	a := in(agent.Provisioning)
	a.Generation++
	equal(t, "Deadline before the watch", a.Deadline, time.Time{})
	a.AcquireLease("h", at(0))
	a.BeginWatch(at(0), watch)
	equal(t, "Lease", a.Lease, agent.Lease{})
	equal(t, "Deadline", a.Deadline, at(15))
	equal(t, "WorkDueAt", a.WorkDueAt, at(9))
	a.BeginWatch(at(8), watch)
	equal(t, "Deadline after the second watch", a.Deadline, at(15))
	equal(t, "WorkDueAt of a watch until the deadline", a.WorkDueAt, at(15))
	a.BeginWatch(at(20), watch)
	equal(t, "WorkDueAt of a watch after the deadline", a.WorkDueAt, at(29))
	a.BecameReady(at(21))
	equal(t, "Deadline of a ready agent", a.Deadline, time.Time{})
	if err := a.Act(agent.Restart, "", at(22)); err != nil {
		t.Fatal(err)
	}
	equal(t, "Deadline of the next generation", a.Deadline, time.Time{})
	a.BeginWatch(at(23), watch)
	equal(t, "Deadline of a running agent", a.Deadline, at(33))
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
		"after the deadline": {
			attempts: 10, outage: true, deadline: at(9), wantRetryAt: at(12), wantDueAt: at(12),
		},
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

func TestBeginDeletion_HasOneHolderAndGrowingIntervals(t *testing.T) {
	t.Parallel()
	a := in(agent.Running)
	if err := a.Act(agent.Delete, "", at(0)); err != nil {
		t.Fatal(err)
	}
	now := at(0)
	for i, minutes := range []int{1, 2, 4, 8, 10, 10, 10} {
		equal(t, "BeginDeletion", a.BeginDeletion(now, time.Minute), true)
		equal(t, "BeginDeletion of another worker", a.BeginDeletion(now, time.Minute), false)
		equal(t, "Attempts", a.Attempts, i+1)
		equal(t, "WorkDueAt of the run", a.WorkDueAt, now.Add(time.Minute))
		a.AwaitDeletion(now)
		now = now.Add(time.Duration(minutes) * time.Minute)
		equal(t, "RetryAt", a.RetryAt, now)
		equal(t, "WorkDueAt", a.WorkDueAt, now)
	}
}

// atDestroy is a running agent with an operation whose former versions must be destroyed.
func atDestroy(t *testing.T) agent.Agent {
	t.Helper()
	a := withSecret()
	begin(t, &a, 2, set("a", "A"))
	recordStored(t, &a, 2, "a", 1)
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
	begin(t, &a, 7, set("b", "B"))
	recordStored(t, &a, 7, "b", 1)
	equal(t, "Warming when an operation replaces the pod", a.Warming, true)
	a.SetWarming(false, at(8))
	equal(t, "Warming while an operation replaces the pod", a.Warming, true)
	a.Abandon(at(8))
	equal(t, "Warming when no operation continues", a.Warming, false)
}
