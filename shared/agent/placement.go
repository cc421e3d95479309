package agent

import (
	"fmt"
	"hash/fnv"
	"slices"

	"agents.example/controlplane/shared/fault"
)

// DefaultRegion is the region of an agent whose creator names none, in a deployment that has cells there.
const DefaultRegion = "us-central1"

// Cell is a cluster on which agents can be placed.
type Cell struct {
	Name   string
	Region string
	// Closed is true for a cell that takes no new agents. Its present agents stay.
	Closed bool
}

// Cells are the cells of a deployment.
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

// DefaultRegion is the region of an agent whose creator names none. Elsewhere than in the usual one, a deployment takes
// it into the first region that takes new agents. One that has the usual region, but no open cell there, takes none:
// its data must not go where no one chose.
func (c Cells) DefaultRegion() string {
	usual := func(cell Cell) bool { return cell.Region == DefaultRegion }
	if open := c.Regions(); len(open) > 0 && !slices.ContainsFunc(c, usual) {
		return open[0]
	}
	return DefaultRegion
}

// Place chooses the cell of a new agent. Agents spread evenly. The choice depends only on the id, so a repeated request
// gets the same cell. Errors: Unavailable if no cell of the region takes new agents.
func (c Cells) Place(region, id string) (string, error) {
	var open []string
	for _, cell := range c {
		if cell.Region == region && !cell.Closed {
			open = append(open, cell.Name)
		}
	}
	if len(open) == 0 {
		return "", fault.New(fault.Unavailable, "region_full",
			"Region %s accepts no new agents at the moment. Choose another region.", region)
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(id)) // never fails
	return open[h.Sum32()%uint32(len(open))], nil
}

// RegionViolations checks that a new agent's region takes new agents.
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
