package agent

import (
	"strings"

	"github.com/google/uuid"
)

const namespacePrefix = "agent-"

// Namespace is the cluster namespace of the agent with the id.
func Namespace(id string) string { return namespacePrefix + id }

// Namespace is the agent's cluster namespace.
func (a Agent) Namespace() string { return Namespace(a.ID) }

// IDFromNamespace returns the id of the agent whose cluster namespace has the name. Other namespaces have none, and
// neither have other spellings of an id: a foreign object with labels copied from an agent's belongs to no agent.
func IDFromNamespace(name string) (id string, ok bool) {
	id, ok = strings.CutPrefix(name, namespacePrefix)
	parsed, err := uuid.Parse(id)
	return id, ok && err == nil && parsed.String() == id
}
