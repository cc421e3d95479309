package ratelimit_test

import (
	"fmt"
	"sync"
	"testing"

	"agents.example/controlplane/shared/ratelimit"
)

// holding counts how many slots an organization gets if each of its callers takes as many as it can.
func holding(s *ratelimit.Slots, organization string, callers int) (held int, release []func()) {
	for caller := range callers {
		for {
			end, ok := s.Acquire(organization, fmt.Sprint(organization, " ", caller))
			if !ok {
				break
			}
			release = append(release, end)
		}
	}
	return len(release), release
}

func TestSlots_BoundCallersAndOrganizations(t *testing.T) {
	t.Parallel()
	s := ratelimit.NewSlots(ratelimit.StandardSlots(1, 100))
	if got, _ := holding(s, "org-1", 1); got != 4 {
		t.Errorf("one caller holds %d slots, want 4", got)
	}
	if got, _ := holding(s, "org-1", 50); got != 20-4 {
		t.Errorf("all callers of the organization hold %d slots, want 20", 4+got)
	}
	if _, ok := s.Acquire("org-2", "org-2 0"); !ok {
		t.Error("another organization gets no slot")
	}
}

// TestSlots_LeaveRoomForOtherOrganizations fills the slots of a process with one organization after another, each with
// as many callers as it likes.
func TestSlots_LeaveRoomForOtherOrganizations(t *testing.T) {
	t.Parallel()
	s := ratelimit.NewSlots(ratelimit.StandardSlots(1, 40))
	for i, want := range []int{20, 10, 5, 3, 1, 1} {
		if got, _ := holding(s, fmt.Sprint("org-", i), 50); got != want {
			t.Errorf("organization %d holds %d slots, want %d", i, got, want)
		}
	}
	if got := s.Held(); got != 40 {
		t.Errorf("Held = %d, want 40", got)
	}
	if _, ok := s.Acquire("one more", "caller"); ok {
		t.Error("the process holds more answers than it has slots")
	}
}

func TestSlots_AreFreeAfterRelease(t *testing.T) {
	t.Parallel()
	s := ratelimit.NewSlots(ratelimit.StandardSlots(1, 40))
	for round := range 3 {
		held, release := holding(s, "org-1", 50)
		if held != 20 {
			t.Errorf("round %d: holds %d slots, want 20", round, held)
		}
		for _, end := range release {
			end()
			end() // has no effect
		}
		if got := s.Held(); got != 0 {
			t.Errorf("round %d: Held = %d after all were released, want 0", round, got)
		}
	}
}

func TestSlots_CountConcurrentCallersExactly(t *testing.T) {
	t.Parallel()
	s := ratelimit.NewSlots(ratelimit.SlotLimits{Caller: 1000, Organization: 1000, Process: 40})
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			for range 50 {
				if end, ok := s.Acquire(fmt.Sprint(i), fmt.Sprint(i)); ok {
					if got := s.Held(); got > 40 {
						t.Errorf("Held = %d, want at most 40", got)
					}
					end()
				}
			}
		})
	}
	all.Wait()
	if got := s.Held(); got != 0 {
		t.Errorf("Held = %d, want 0", got)
	}
}

func TestSlots_WithoutLimitsHoldEverything(t *testing.T) {
	t.Parallel()
	var s *ratelimit.Slots
	for range 1000 {
		if _, ok := s.Acquire("org", "caller"); !ok {
			t.Fatal("a nil Slots refused an answer")
		}
	}
}
