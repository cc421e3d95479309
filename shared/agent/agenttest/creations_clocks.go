package agenttest

import (
	"fmt"
	"testing"
	"time"

	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/ratelimit"
)

// creationsUnderSkew uses two processes, one of whose clocks is ahead by less than the window. The limit holds but for
// what the bucket refills in the difference.
func creationsUnderSkew(t testing.TB, w Fixture) {
	at := Now()
	for _, skew := range []time.Duration{time.Microsecond, 10 * time.Second, 39 * time.Second} {
		org := w.Tenant(t, plan.Enterprise)
		ahead, behind := w.limitedStore(t, at.Add(skew)), w.limitedStore(t, at)
		name := fmt.Sprintf("with a clock %s ahead", skew)
		ahead.wantCreations(org.Ctx, t, name, 3)
		wait := behind.wantCreations(org.Ctx, t, "behind one "+name, 0)
		equal(t, "wait behind a clock "+name, wait, skew+20*time.Second)
		behind.now = behind.now.Add(wait)
		behind.wantCreations(org.Ctx, t, "after the wait "+name, 1)
	}
}

// creationsAfterWrongClock stores the time of a clock that is far ahead, or of a process with a larger limit.
func creationsAfterWrongClock(t testing.TB, w Fixture) {
	at := Now()
	for name, create := range map[string]func(org Tenant) error{
		"a clock a year ahead": func(org Tenant) error {
			w.limitedStore(t, at.AddDate(1, 0, 0)).wantCreations(org.Ctx, t, "a year ahead", 3)
			return nil
		},
		"a clock a window ahead": func(org Tenant) error {
			w.limitedStore(t, at.Add(time.Minute)).wantCreations(org.Ctx, t, "a window ahead", 3)
			return nil
		},
		"a longer window": func(org Tenant) error {
			slow := w.Limited(t, ratelimit.Limit{Quota: 1, Window: time.Hour}, func() time.Time { return at })
			_, err := slow.Create(org.Ctx, Draft(plan.Hobby))
			return err
		},
	} {
		org := w.Tenant(t, plan.Enterprise)
		if err := create(org); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		store := w.limitedStore(t, at)
		_, err := store.Create(org.Ctx, Draft(plan.Hobby))
		if wait := fault.From(err); wait != nil {
			if !fault.Is(err, fault.RateLimited) || wait.After() > time.Minute {
				t.Errorf("%s: %v, to be repeated after %s, want at most a minute", name, err, wait.After())
			}
			store.now = at.Add(wait.After())
			_, err = store.Create(org.Ctx, Draft(plan.Hobby))
		}
		if err != nil {
			t.Errorf("%s: the creation after the wait: %v", name, err)
		}
		o, err := w.Organization(org.Ctx, org.ID)
		if err != nil {
			t.Fatal(err)
		}
		checkCreationsFullAt(t, name, o, store.now)
	}
}

// checkCreationsFullAt wants the state after a creation at a correct clock to be within the window of that clock.
func checkCreationsFullAt(t testing.TB, name string, o organization.Organization, now time.Time) {
	t.Helper()
	if ahead := o.CreationsFullAt.Sub(now); ahead <= 0 || ahead > time.Minute {
		t.Errorf("%s: the bucket is full after %s, want at most a minute", name, ahead)
	}
}
