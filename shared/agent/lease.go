package agent

import "time"

// Leased reports whether another worker run holds the agent.
func (a Agent) Leased(holder string, now time.Time) bool {
	return a.Lease.Holder != "" && a.Lease.Holder != holder && now.Before(a.Lease.Until)
}

// Hold takes or renews the lease, and keeps the sweep off as long.
func (a *Agent) Hold(holder string, now time.Time) {
	a.Lease = Lease{Holder: holder, Until: now.Add(LeaseTime)}
	a.WorkDueAt = now.Add(NudgeGrace)
}

// Release gives the lease back and has the sweep look again after a while.
func (a *Agent) Release(now time.Time, look time.Duration) {
	a.Lease = Lease{}
	a.WorkDueAt = now.Add(look)
}
