package run

import (
	"os"
	"runtime/debug"
)

// rareCollection is the growth of the heap, in percent, after which a process of routes collects garbage.
const rareCollection = 400

// CollectRarely makes the process spend memory instead of CPU time on garbage: a route keeps little between two
// requests, so its heap stays far below the memory of an instance. GOMEMLIMIT still bounds it, and GOGC still overrides
// it.
func CollectRarely() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(rareCollection)
	}
}
