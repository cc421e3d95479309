package secretmanager

import (
	"fmt"
	"regexp"

	"agents.example/controlplane/shared/secret"
)

// The labels of every secret that this package makes.
const (
	labelManagedBy = "managed-by"
	labelAgent     = "agent-id"
	labelKind      = "kind"
	manager        = "agent-control-plane"
)

// kind says what a secret holds.
type kind string

const (
	kindVariable    kind = "env"
	kindCredentials kind = "credentials"
)

var (
	agentIDs = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
	keys     = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)
)

// name names one secret of an agent.
type name struct {
	agent string
	kind  kind
	key   string // of a variable
}

// variable names the secret of an environment variable.
func variable(agentID, key string) (name, error) {
	if !keys.MatchString(key) {
		return name{}, fmt.Errorf("secret variable %q: not the name of an environment variable", key)
	}
	return name{agent: agentID, kind: kindVariable, key: key}, checkAgent(agentID)
}

// credentialsOf names the secret of an agent's credentials.
func credentialsOf(agentID string) (name, error) {
	return name{agent: agentID, kind: kindCredentials}, checkAgent(agentID)
}

// checkAgent also keeps filters and paths from being anything but what they seem.
func checkAgent(id string) error {
	if !agentIDs.MatchString(id) {
		return fmt.Errorf("agent id %q: not a UUID in lower case", id)
	}
	return nil
}

// id is the secret's id, at most 175 characters, as operations show it. No two secrets share one: agent ids are equally
// long, a variable's key holds no "-", and what follows the agent's id begins with the kind.
func (n name) id() string {
	if n.kind == kindCredentials {
		return secret.Ref(n.agent, secret.CredentialsKey)
	}
	return secret.Ref(n.agent, n.key)
}

func (n name) labels() map[string]string {
	return map[string]string{labelManagedBy: manager, labelAgent: n.agent, labelKind: string(n.kind)}
}

// secretOf names the secret that is meant by a key.
func secretOf(agentID, key string) (name, error) {
	if key == secret.CredentialsKey {
		return credentialsOf(agentID)
	}
	return variable(agentID, key)
}
