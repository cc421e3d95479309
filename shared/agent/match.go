package agent

import (
	"strings"

	"agents.example/controlplane/shared/fault"
)

// EntityTag is the value of the ETag header, unless the view has more than the record; see View.offer. It changes with
// every write of the record.
func (a Agent) EntityTag() string { return `"` + a.Version + `"` }

// Match checks an If-Match header against the present version. An empty header matches. Errors: PreconditionFailed.
func (a Agent) Match(ifMatch string) error {
	if ifMatch == "" || strings.TrimSpace(ifMatch) == "*" {
		return nil
	}
	for _, tag := range strings.Split(ifMatch, ",") {
		// RFC 9110 wants the strong comparison here: a weak tag never matches.
		if recordTag(strings.TrimSpace(tag)) == a.EntityTag() {
			return nil
		}
	}
	return fault.New(fault.PreconditionFailed, "version_mismatch",
		"The agent has changed since the version in If-Match. Get the agent again and retry.")
}
