package agent

import (
	"strings"

	"agents.example/controlplane/shared/fault"
)

// EntityTag is the value of the ETag header: it changes with every write of the record.
func (a Agent) EntityTag() string { return `"` + a.Version + `"` }

// Match checks the value of an If-Match header against the present version; an empty one asks for nothing. Errors:
// PreconditionFailed.
func (a Agent) Match(ifMatch string) error {
	if ifMatch == "" || strings.TrimSpace(ifMatch) == "*" {
		return nil
	}
	for _, tag := range strings.Split(ifMatch, ",") {
		// The comparison is the strong one of RFC 9110: a weak tag matches nothing.
		if strings.TrimSpace(tag) == a.EntityTag() {
			return nil
		}
	}
	return fault.New(fault.PreconditionFailed, "version_mismatch",
		"The agent has changed since the version that If-Match names. Get it again and decide anew.")
}
