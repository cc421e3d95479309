package agent

import (
	"fmt"
	"hash/fnv"
	"slices"

	"agents.example/controlplane/shared/fault"
)

// DefaultRegion is where an agent is placed whose creator names no region.
const DefaultRegion = "us-central1"

// Cell is a cluster that agents can be placed on, as routes know it.
type Cell struct {
	Name   string
	Region string
	// Closed cells take no new agents; those they have stay.
	Closed bool
}

// Cells lists the cells of a deployment.
type Cells []Cell

// Regions lists the regions that take new agents, in the order of the cells.
func (c Cells) Regions() []string {
	var regions []string
	for _, cell := range c {
		if !cell.Closed && !slices.Contains(regions, cell.Region) {
			regions = append(regions, cell.Region)
		}
	}
	return regions
}

// Place chooses the cell of a new agent. The choice is spread evenly and depends on the id alone, so that a repeated
// request agrees with the first. Errors: Unavailable when no cell of the region takes agents.
func (c Cells) Place(region, id string) (string, error) {
	var open []string
	for _, cell := range c {
		if cell.Region == region && !cell.Closed {
			open = append(open, cell.Name)
		}
	}
	if len(open) == 0 {
		return "", fault.New(fault.Unavailable, "region_full",
			"Region %s takes no new agents at the moment. Try another region.", region)
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(id)) // never fails
	return open[h.Sum32()%uint32(len(open))], nil
}

// RegionViolations checks the region that a client names.
func (c Cells) RegionViolations(body map[string]any) []fault.Violation {
	region, ok := body["region"].(string)
	if !ok || slices.Contains(c.Regions(), region) {
		return nil
	}
	expected := ""
	for i, r := range c.Regions() {
		switch {
		case i == 0:
		case i == len(c.Regions())-1:
			expected += " or "
		default:
			expected += ", "
		}
		expected += fmt.Sprintf("'%s'", r)
	}
	return []fault.Violation{{
		Loc: []any{"body", "region"}, Type: "enum", Msg: "Input should be " + expected,
		Ctx: map[string]any{"expected": expected},
	}}
}
