package run

import (
	"runtime/debug"
	"runtime/metrics"
	"testing"
)

// TestCollectRarely_LeavesGOGCToTheOperator is not parallel, because it changes the collector of the process.
func TestCollectRarely_LeavesGOGCToTheOperator(t *testing.T) {
	const configured = 50
	old := debug.SetGCPercent(configured)
	t.Cleanup(func() { debug.SetGCPercent(old) })
	CollectRarely()
	if got := gcPercent(); got != configured {
		t.Errorf("with GOGC=%d, garbage is collected after %d %%", configured, got)
	}
	debug.SetGCPercent(standardCollection)
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
