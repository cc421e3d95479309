package simulationtest

import (
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/provisioning"
)

// stale is the error of applying an older generation over a newer one.
func stale(generation int64) error {
	return &provisioning.Stale{
		Generation: generation,
		Cause:      fault.New(fault.Unavailable, "stale_generation", "The cluster has a newer generation."),
	}
}

func unknownCell() error {
	return fault.New(fault.Unavailable, "cell_unknown", "The agent's cell is not configured.")
}
