package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/image"
	"agents.example/controlplane/shared/plan"
)

func testCells() agent.Cells {
	return agent.Cells{
		{Name: "old", Region: "here", Closed: true}, {Name: "new", Region: "there"}, {Name: "open", Region: "here"},
	}
}

// settled creates an agent that runs in the cell old.
func (f fixture) settled() agent.Agent {
	f.t.Helper()
	return f.edit(f.create(plan.Starter), func(a *agent.Agent) {
		a.Cell, a.Region = "old", "here"
		a.BecameReady(time.Now())
	})
}

// edit changes a record as a worker does.
func (f fixture) edit(a agent.Agent, change func(*agent.Agent)) agent.Agent {
	f.t.Helper()
	a, err := f.client.WorkerStore().Load(f.t.Context(), a.ID)
	if err == nil {
		a, err = f.client.WorkerStore().Update(f.t.Context(), a, change)
	}
	if err != nil {
		f.t.Fatal(err)
	}
	return a
}

// works does what workers do for the agents that move, whenever the operator waits.
func (f *fixture) works(step func(a *agent.Agent)) {
	f.operator.After = func(time.Duration) <-chan time.Time {
		listed, err := f.client.WorkerStore().ListAll(f.t.Context(), "", 100)
		if err != nil {
			f.t.Fatal(err)
		}
		for _, a := range listed.Items {
			if !a.Move.Settled() {
				f.edit(a, step)
			}
		}
		now := make(chan time.Time, 1)
		now <- time.Now()
		return now
	}
}

// carry moves an agent on: its snapshot is ready, or its pod.
func carry(a *agent.Agent) {
	now := time.Now()
	if a.Move.State == agent.MoveCopying {
		taken := agent.SnapshotState{CutAt: now, Handle: "h", Ready: true, SizeBytes: 1}
		a.RecordSnapshot(a.Move.SnapshotID, taken, now)
		return
	}
	a.BecameReady(now)
}

func TestMove_TakesAnAgentToAnotherCell(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.run("set-plan -organization " + org + " -plan pro")
	f.works(carry)
	a := f.settled()
	f.run("agents move -to new -dry-run "+a.ID, "would move from old in here to new in there", "label old",
		"becomes new")
	if got := f.edit(a, func(*agent.Agent) {}); got.Move.Open() {
		t.Fatalf("after a rehearsal: %+v", got.Move)
	}
	f.run("agents move -to new -wait "+a.ID, "is in new")
	if got := f.edit(a, func(*agent.Agent) {}); got.Cell != "new" || got.Region != "there" {
		t.Errorf("the agent is in %s, %s, want new, there", got.Cell, got.Region)
	}
	if got := f.auditedActions(); !strings.Contains(strings.Join(got, " "), "MoveAgent") {
		t.Errorf("audited: %v, want MoveAgent", got)
	}
	f.run("describe -agent "+a.ID, "Moves from old to new: adopting")
	f.run("agents -cell new", a.ID)
}

func TestMove_Refuses(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.run("set-plan -organization " + org + " -plan pro")
	a := f.settled()
	pinned := f.edit(f.settled(), func(a *agent.Agent) { a.ImagePolicy = image.Pinned })
	for command, word := range map[string]string{
		"agents move -to nowhere " + a.ID:           `no cell "nowhere"`,
		"agents move -to old " + a.ID:               `"old" is closed`,
		"agents move -to new":                       "AGENT is missing",
		"agents move " + a.ID:                       "-to is missing",
		"agents move -to new " + pinned.ID:          "force the move",
		"agents move -to new -dry-run " + pinned.ID: "force the move",
		"cell drain -to new open":                   "set its closed to true",
		"cell drain -to new -at-most 0 old":         "a number from 1",
		"cell drain -to new -at-most some old":      "a number from 1",
		"cell drain -to new od":                     `no cell "od"`,
	} {
		f.fail(command, word)
	}
	f.run("agents move -to new -force "+pinned.ID, "moves to new")
	f.fail("agents move -to new "+pinned.ID, "is being moved")
}

// newFullCell is a fixture in which no agent can move, because there is no room for its snapshot.
func newFullCell(t *testing.T) fixture {
	t.Helper()
	f := newFixture(t)
	f.run("set-plan -organization " + org + " -plan pro")
	f.works(func(a *agent.Agent) { a.RefuseSnapshot(a.Move.SnapshotID, "no room for it", time.Now()) })
	return f
}

func TestMove_TellsWhyAnAgentStays(t *testing.T) {
	t.Parallel()
	f := newFullCell(t)
	a := f.settled()
	f.fail("agents move -to new -wait "+a.ID, "stays in old: no room for it")
	f.run("describe -agent "+a.ID, "Did not move to new", "no room for it")
}

// counts works as carry does, and returns how many agents moved concurrently at most.
func (f *fixture) counts() *int {
	f.works(carry)
	most, wait := 0, f.operator.After
	f.operator.After = func(d time.Duration) <-chan time.Time {
		listed, _ := f.client.WorkerStore().ListAll(f.t.Context(), "", 100)
		open := 0
		for _, a := range listed.Items {
			if !a.Move.Settled() {
				open++
			}
		}
		most = max(most, open)
		return wait(d)
	}
	return &most
}

func TestDrain_MovesAFewAgentsAtATime(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.run("set-plan -organization " + org + " -plan pro")
	most := f.counts()
	for range 2 {
		f.settled()
	}
	stopped := f.edit(f.settled(), func(a *agent.Agent) {
		if err := a.Act(agent.Stop, agent.Manual, time.Now()); err != nil {
			t.Error(err)
		}
		a.MarkObserved(time.Now())
	})
	pinned := f.edit(f.settled(), func(a *agent.Agent) { a.ImagePolicy = image.Pinned })
	f.run("cell drain -to new -dry-run old", stopped.ID+" of org_1 would move", "0 moved, 1 deferred, 0 failed")
	f.operator.Now = time.Now
	f.run("cell drain -to new -at-most 2 old", pinned.ID+" of org_1 stays for now", "3 moved, 1 deferred, 0 failed")
	if *most != 2 {
		t.Errorf("%d agents moved concurrently, want 2", *most)
	}
	f.run("agents -cell old", pinned.ID)
}

// TestDrain_CountsWhatAFormerRunBegan repeats the command after its first run has died.
func TestDrain_CountsWhatAFormerRunBegan(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.run("set-plan -organization " + org + " -plan pro")
	copying, starting := f.settled(), f.settled()
	f.run("agents move -to new " + copying.ID)
	f.run("agents move -to new " + starting.ID)
	f.edit(starting, carry)
	f.settled()
	most := f.counts()
	f.run("cell drain -to new -at-most 2 old", copying.ID+" of org_1 is on its way",
		starting.ID+" of org_1 is on its way", "3 moved, 0 deferred, 0 failed")
	if *most != 2 {
		t.Errorf("%d agents moved concurrently, want 2", *most)
	}
}

// TestAgents_ListsThoseThatHaveNotLeftTheCell holds that a cell that the command calls empty can be removed: an agent
// that is being brought up in another cell may still return, and one that runs there leaves its former objects.
func TestAgents_ListsThoseThatHaveNotLeftTheCell(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.run("set-plan -organization " + org + " -plan pro")
	a := f.settled()
	f.run("agents move -to new " + a.ID)
	for _, step := range []struct {
		do   func(*agent.Agent)
		says string
	}{
		{do: carry, says: "running in new, starting"},
		{do: carry, says: "running in new, adopting"},
		{do: func(a *agent.Agent) { a.Adopted(time.Now()) }, says: "running in new, leaving"},
	} {
		f.edit(a, step.do)
		f.run("agents -cell old", a.ID, step.says)
		f.run("agents -cell new", a.ID)
		f.run("agents -cell open", `The cell "new" has 1`, `The cell "old" has 1`)
	}
	f.edit(a, func(a *agent.Agent) {
		for at := time.Now(); a.Move.Open(); at = at.Add(time.Hour) {
			a.RecordLeft(true, at)
		}
	})
	f.run("agents -cell old", `The cell "old" has no agents`)
}

func TestDrain_StopsWhenMovesFail(t *testing.T) {
	t.Parallel()
	f := newFullCell(t)
	for range maxFailedMoves + 1 {
		f.settled()
	}
	f.fail("cell drain -to new -at-most 1 old", "3 moves have failed")
}

// flakyRecords fails to load an agent that moves, each time once.
type flakyRecords struct {
	agent.WorkerStore
	failed map[string]bool
}

func (r flakyRecords) Load(ctx context.Context, id string) (agent.Agent, error) {
	a, err := r.WorkerStore.Load(ctx, id)
	if err == nil && !r.failed[id] {
		r.failed[id] = true
		return agent.Agent{}, fault.New(fault.Unavailable, "store_unavailable", "The store is unavailable.")
	}
	return a, err
}

// TestMove_WaitsThroughAnOutage holds that a move whose record cannot be read for a while is not reported as failed.
func TestMove_WaitsThroughAnOutage(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.run("set-plan -organization " + org + " -plan pro")
	f.works(carry)
	a := f.settled()
	f.run("agents move -to new " + a.ID)
	records := f.operator.Records
	f.operator.Records = flakyRecords{WorkerStore: records, failed: map[string]bool{}}
	if err := f.operator.await(t.Context(), a.ID); err != nil {
		t.Errorf("a wait through an outage ends with %v", err)
	}
	f.operator.Records = brokenRecords{records}
	if err := f.operator.await(t.Context(), a.ID); !fault.Is(err, fault.Unavailable) {
		t.Errorf("a wait through an outage without an end ends with %v, want that it is one", err)
	}
}

// brokenRecords cannot be read.
type brokenRecords struct{ agent.WorkerStore }

func (brokenRecords) Load(context.Context, string) (agent.Agent, error) {
	return agent.Agent{}, fault.New(fault.Unavailable, "store_unavailable", "The store is unavailable.")
}

// TestDrain_WaitsForAgentsThatItCannotSee: an agent whose record cannot be read moves on.
func TestDrain_WaitsForAgentsThatItCannotSee(t *testing.T) {
	t.Parallel()
	f := newFullCell(t)
	a := f.settled()
	f.operator.Records = flakyRecords{WorkerStore: f.operator.Records, failed: map[string]bool{}}
	f.fail("cell drain -to new old", "some agents stay in the cell")
	if got := f.out.String(); !strings.Contains(got, a.ID) || !strings.Contains(got, "0 moved, 0 deferred, 1 failed") {
		t.Errorf("the drain reports %q, want one that failed", got)
	}
}
