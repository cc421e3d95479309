package agent

import "time"

// Leased reports whether another worker run holds the agent.
func (a Agent) Leased(holder string, now time.Time) bool {
	return a.Lease.Holder != "" && a.Lease.Holder != holder && now.Before(a.Lease.Until)
}

// AcquireLease takes or renews the lease and postpones the sweep's next nudge. It does nothing once the work is done.
func (a *Agent) AcquireLease(holder string, now time.Time) {
	if !a.ApplyDue() {
		return
	}
	a.Lease = Lease{Holder: holder, Until: now.Add(LeaseTime)}
	a.WorkDueAt = now.Add(NudgeGrace)
}

// ReleaseLease gives the lease back. The sweep nudges the agent after delay.
func (a *Agent) ReleaseLease(now time.Time, delay time.Duration) {
	a.Lease = Lease{}
	a.WorkDueAt = now.Add(delay)
}
