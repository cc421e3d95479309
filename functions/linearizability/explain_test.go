//go:build unix

package linearizability_test

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/anishathalye/porcupine"
)

// draw writes a picture of a history that clients must not see, and returns the path of the file.
func draw(t *testing.T, m porcupine.Model, info porcupine.LinearizationInfo) string {
	t.Helper()
	file, err := os.CreateTemp("", "history-*.html")
	if err != nil {
		t.Error(err)
		return ""
	}
	defer func() { _ = file.Close() }()
	if err := porcupine.Visualize(m, info, file); err != nil {
		t.Error(err)
	}
	return file.Name()
}

// explain shows how far the checker came with the agents whose operations have no order: the last states, and the next
// operations, of which none fits.
func (h *history) explain(info porcupine.LinearizationInfo) string {
	m := h.spec.model()
	sizes := map[string]int{}
	for _, o := range h.operations {
		sizes[o.Input.(call).agentID]++
	}
	var text strings.Builder
	for _, orders := range info.PartialLinearizationsOperations() {
		longest := slices.MaxFunc(orders, func(x, y []porcupine.Operation) int { return len(x) - len(y) })
		if len(longest) == 0 || len(longest) == sizes[longest[0].Input.(call).agentID] {
			continue
		}
		s := m.Init()
		for i, o := range longest {
			_, s = m.Step(s, o.Input, o.Output)
			if i >= len(longest)-5 {
				fmt.Fprintf(&text, "%s\n  state %s\n", m.DescribeOperation(o.Input, o.Output), m.DescribeState(s))
			}
		}
		for _, o := range h.next(longest) {
			fmt.Fprintf(&text, "next: client %d %s\n", o.ClientId, m.DescribeOperation(o.Input, o.Output))
		}
	}
	return text.String()
}

// next lists some operations of an agent that are not in an order, the earliest end first.
func (h *history) next(order []porcupine.Operation) []porcupine.Operation {
	rest := slices.DeleteFunc(slices.Clone(h.operations), func(o porcupine.Operation) bool {
		return o.Input.(call).agentID != order[0].Input.(call).agentID ||
			slices.ContainsFunc(order, func(done porcupine.Operation) bool {
				return done.Input == o.Input && done.Call == o.Call
			})
	})
	slices.SortFunc(rest, func(x, y porcupine.Operation) int { return cmp.Compare(x.Return, y.Return) })
	return rest[:min(len(rest), 12)]
}
