package run

import "runtime/debug"

const (
	// standardCollection is the growth of the heap, in percent, after which Go collects garbage.
	standardCollection = 100
	// rareCollection is that of a process of routes.
	rareCollection = 400
)

// CollectRarely makes the process spend memory instead of CPU time on garbage: a route keeps little between two
// requests, so its heap stays far below the memory of an instance. GOMEMLIMIT still bounds it, and GOGC still overrides
// it with any other value than Go's own.
func CollectRarely() {
	if configured := debug.SetGCPercent(rareCollection); configured != standardCollection {
		debug.SetGCPercent(configured)
	}
}
