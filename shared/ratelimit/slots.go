package ratelimit

import "sync"

// SlotLimits bound how many answers a process holds open, such as those that wait for an agent or follow a log. Such an
// answer takes a connection and a slot of its instance for up to minutes, so limits on calls do not bound them.
type SlotLimits struct {
	// Caller is how many answers one key or user may hold.
	Caller int
	// Organization is how many answers the callers of one organization may hold.
	Organization int
	// Process is how many answers all callers together may hold. It is less than the requests that an instance serves
	// at the same time, so that held answers leave room for other calls.
	Process int
}

// StandardSlots returns the documented limits of callers and organizations, multiplied by factor, which is 1 in
// production. process is how many answers the process may hold.
func StandardSlots(factor, process int) SlotLimits {
	return SlotLimits{Caller: 4 * factor, Organization: 20 * factor, Process: process}
}

// CommandSlots returns the limits of commands and terminals in agents' containers, multiplied by factor. All together
// leave room for other calls in an instance that serves 250.
func CommandSlots(factor int) SlotLimits {
	return SlotLimits{Caller: 10 * factor, Organization: 40 * factor, Process: 200}
}

// Slots counts the answers that a process holds open. It is safe for concurrent use. A nil Slots has no limits.
type Slots struct {
	limits SlotLimits

	mu            sync.Mutex
	held          int
	organizations map[string]int
	callers       map[string]int
}

// NewSlots returns slots that are all free.
func NewSlots(limits SlotLimits) *Slots {
	return &Slots{limits: limits, organizations: map[string]int{}, callers: map[string]int{}}
}

// Acquire takes a slot for a caller of an organization. ok is false if there is none for it. The caller of Acquire must
// call release when the answer ends; further calls of release have no effect.
//
// An organization gets a slot only while it holds fewer than are free. One organization alone gets at most half of the
// slots, a second one half of the rest, and so on, so that few organizations together cannot take all slots.
func (s *Slots) Acquire(organizationID, callerID string) (release func(), ok bool) {
	if s == nil {
		return func() {}, true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	own, free := s.organizations[organizationID], s.limits.Process-s.held
	if s.callers[callerID] >= s.limits.Caller || own >= s.limits.Organization || own >= free {
		return nil, false
	}
	s.add(organizationID, callerID, 1)
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.add(organizationID, callerID, -1)
	}), true
}

// Held returns the number of slots that are taken.
func (s *Slots) Held() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held
}

func (s *Slots) add(organizationID, callerID string, n int) {
	s.held += n
	addOrDelete(s.organizations, organizationID, n)
	addOrDelete(s.callers, callerID, n)
}

// addOrDelete adds to a count, and removes a count of zero so that the map holds only those who hold a slot.
func addOrDelete(counts map[string]int, key string, n int) {
	if counts[key] += n; counts[key] == 0 {
		delete(counts, key)
	}
}
