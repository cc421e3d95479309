package diagnosis

import (
	"fmt"

	"agents.example/controlplane/shared/agent"
)

// Image is what the agent's container runs.
type Image struct {
	ID       string    `json:"id" jsonschema:"The image's id in the catalog, or custom for one that is not in the catalog."`
	Version  string    `json:"version" jsonschema:"The version that the agent runs, or takes at its next start."`
	Digest   *string   `json:"digest" jsonschema:"The digest of that version's build; null if the operator names the build in another way."`
	Reverted *Reverted `json:"reverted" jsonschema:"The update that was undone because the agent did not run well with it; null if there is none, or if the agent took another version since."`
}

// Reverted is an update of the agent's image that was undone.
type Reverted struct {
	Version string `json:"version" jsonschema:"The version that the agent did not run well with."`
	Reason  string `json:"reason" jsonschema:"What went wrong, for people."`
}

// image describes the agent's image; nil if the record names none.
func (f Facts) image() *Image {
	s := f.Agent.Image
	if s.ID == "" {
		return nil
	}
	i := &Image{ID: s.ID, Version: s.Version}
	if digest := s.Digest(); digest != "" {
		i.Digest = &digest
	}
	if u := s.Update; u.State == agent.UpdateReverted && s.Same(u.Former) {
		i.Reverted = &Reverted{Version: u.Version, Reason: u.Reason}
	}
	return i
}

// noProblem ends the summary of an agent without a problem.
const noProblem = " No problem was found."

// healthy is the summary of an agent without a problem.
func (f Facts) healthy() string {
	if i := f.image(); i != nil && i.Reverted != nil {
		return fmt.Sprintf("The agent is running. Its update to version %s was undone, so it runs version %s again.",
			i.Reverted.Version, i.Version)
	}
	return "The agent is running." + noProblem
}
