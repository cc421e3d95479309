package monitoring

import (
	"strings"
	"testing"

	"github.com/google/uuid"

	"agents.example/controlplane/shared/metrics"
)

func TestFilters_StayBelowTheLengthLimit(t *testing.T) {
	t.Parallel()
	const limit = 2048
	cell := Cell{Cluster: strings.Repeat("c", 40), Location: "northamerica-northeast2-a"}
	var ids []string
	for range 100 {
		ids = append(ids, uuid.NewString())
	}
	for _, m := range metrics.Metrics() {
		filters := sources()[m].filters(cell, "agents."+strings.Repeat("d", 63)+".example.com", ids)
		for _, f := range filters {
			if len(f) > limit {
				t.Errorf("%s: filter length = %d, want at most %d", m, len(f), limit)
			}
		}
		if all := strings.Join(filters, ""); strings.Count(all, "agent-") != len(ids) {
			t.Errorf("%s: filters select %d agents, want %d", m, strings.Count(all, "agent-"), len(ids))
		}
	}
}
