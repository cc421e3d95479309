package run

import (
	"runtime/debug"
	"runtime/metrics"
	"testing"
)

// TestCollectRarely_LeavesGOGCToTheOperator is not parallel, because it changes the collector of the process.
func TestCollectRarely_LeavesGOGCToTheOperator(t *testing.T) {
	const before = 100
	old := debug.SetGCPercent(before)
	t.Cleanup(func() { debug.SetGCPercent(old) })
	t.Setenv("GOGC", "100")
	CollectRarely()
	if got := gcPercent(); got != before {
		t.Errorf("with GOGC=100, garbage is collected after %d %%, want %d %%", got, before)
	}
	t.Setenv("GOGC", "")
	CollectRarely()
	if got := gcPercent(); got != rareCollection {
		t.Errorf("garbage is collected after %d %%, want %d %%", got, rareCollection)
	}
}

func gcPercent() uint64 {
	sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
