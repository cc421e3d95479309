package monitoring

import (
	"strings"
	"testing"

	"github.com/google/uuid"

	"agents.example/controlplane/shared/metrics"
)

// TestFilters keeps filters below the service's limit, however many agents are named and however long names are.
func TestFilters(t *testing.T) {
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
				t.Errorf("%s: a filter of %d characters", m, len(f))
			}
		}
		if all := strings.Join(filters, ""); strings.Count(all, "agent-") != len(ids) {
			t.Errorf("%s: %d of %d agents are named", m, strings.Count(all, "agent-"), len(ids))
		}
	}
}
