package agentlogs

import (
	"context"
	"sync"

	"agents.example/controlplane/shared/fault"
)

// maxFollowers is the maximum number of answers that follow logs for one organization in one process. An answer
// occupies its process for minutes, so the limits on calls do not bound them.
const maxFollowers = 10

// followers counts the answers that follow logs, by organization.
type followers struct {
	mu     sync.Mutex
	active map[string]int
}

// admit counts an answer until ctx ends. Errors: RateLimited.
func (f *followers) admit(ctx context.Context, organizationID string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.active[organizationID] >= maxFollowers {
		return fault.New(fault.RateLimited, "too_many_followers",
			"The organization already follows %d logs. End one of them, and retry.", maxFollowers)
	}
	if f.active == nil {
		f.active = map[string]int{}
	}
	f.active[organizationID]++
	context.AfterFunc(ctx, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.active[organizationID]--; f.active[organizationID] == 0 {
			delete(f.active, organizationID)
		}
	})
	return nil
}
