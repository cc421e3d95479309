// Package rehearsal records the outcome of a rehearsed call. Such a call runs the same code as the real one up to the
// commits: a store that finds a Rehearsal in the call records in it what it would commit, and commits nothing. The
// package does not decide which calls can be rehearsed; routes do.
package rehearsal

import (
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/organization"
)

// Rehearsal is what a rehearsed call would do. Only the goroutine that serves the call may use it. A nil Rehearsal
// means a real call.
type Rehearsal struct {
	recorded      bool
	before, after State
}

// State is what a change concerns: an agent, and the organization that it belongs to. The agent is zero before its
// creation.
type State struct {
	Agent        agent.Agent
	Organization organization.Organization
}

// Record records a change in place of its commit. A call may change one agent several times: each change begins from
// the outcome of the one before, and before is that of the first.
func (r *Rehearsal) Record(before, after State) {
	if !r.recorded {
		r.before = before
	}
	r.after, r.recorded = after, true
}

// Present returns the outcome of the changes so far. ok is false before the first one, and for a nil Rehearsal: what is
// stored is then also what is present.
func (r *Rehearsal) Present() (s State, ok bool) {
	if r == nil || !r.recorded {
		return State{}, false
	}
	return r.after, true
}

// Before returns the state before the first change.
func (r *Rehearsal) Before() State { return r.before }
