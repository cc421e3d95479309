package monitoring

import (
	"strings"
	"testing"

	"github.com/google/uuid"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/metrics"
)

func TestFilters_StayBelowTheLengthLimit(t *testing.T) {
	t.Parallel()
	const limit = 2048
	cell := place{
		Cell{Name: strings.Repeat("n", 30), Cluster: strings.Repeat("c", 40), Location: "northamerica-northeast2-a"},
		"agents." + strings.Repeat("d", 63) + ".example.com", "agent-gateway",
	}
	var ids []string
	for range 100 {
		ids = append(ids, uuid.NewString())
	}
	for _, m := range metrics.Metrics() {
		for _, source := range sources()[m] {
			filters := source.filters(cell, ids)
			for _, f := range filters {
				if len(f) > limit {
					t.Errorf("%s: filter length = %d, want at most %d", m, len(f), limit)
				}
			}
			all, selected := strings.Join(filters, ""), 0
			for _, id := range ids {
				host := agent.Agent{ID: id, Cell: cell.Name, Slug: "bot"}.Hostname(agent.Addresses{Domain: cell.domain})
				label, _, _ := strings.Cut(strings.TrimPrefix(host, "bot"), ".")
				if strings.Contains(all, agent.Namespace(id)) || strings.Contains(all, label) {
					selected++
				}
			}
			if selected != len(ids) {
				t.Errorf("%s: filters select %d agents, want %d", source.metric, selected, len(ids))
			}
		}
	}
}
