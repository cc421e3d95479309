package simulationtest

import (
	"time"

	"agents.example/controlplane/shared/agent"
)

// jumps are how far a clock jumps when it is set right.
func jumps() []time.Duration {
	return []time.Duration{
		-5 * time.Minute, -time.Minute, -10 * time.Second, 10 * time.Second, time.Minute, 5 * time.Minute,
	}
}

// maxJumps is how far the clock of a process may be wrong after all its jumps.
const maxJumps = 15 * time.Minute

// jumpingClocks lets clocks of processes jump. No values are added: the time for storing one has a margin of a second.
func jumpingClocks(s *Scheduler, u Setup) Setup {
	u.ClockJumps = 1 + s.Choose(3)
	u.Scripts = [][]string{{"patch", "stop", "start"}, {"restart", "migrate"}}
	if u.Start == "" {
		u.Start = agent.Running
	}
	return u
}

// clockJumps lists the processes whose clock can jump.
func (w *World) clockJumps(actions []Action) []Action {
	u := &w.setup
	if u.ClockJumps == 0 || !w.Chance(0.1) {
		return actions
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, waiting := range w.parked {
		p := waiting.process
		by := jumps()[w.Choose(len(jumps()))]
		actions = append(actions, Action{"clock jumps by " + by.String(), p.Name, func() {
			u.ClockJumps--
			w.clocksJumped = true
			p.Skew += by
		}})
	}
	return actions
}
