package secretmanager

import (
	"fmt"
	"regexp"
	"strings"
	"sync"

	"agents.example/controlplane/shared/secret"
)

// The labels of every secret that this package makes.
const (
	labelManagedBy   = "managed-by"
	labelEnvironment = "environment"
	labelAgent       = "agent-id"
	labelKind        = "kind"
	manager          = "agent-control-plane"
)

// kind says what a secret holds.
type kind string

const (
	kindVariable    kind = "env"
	kindCredentials kind = "credentials"
	// kindBrokered is a value that the gate of a cell adds to requests, and that no agent gets.
	kindBrokered kind = "inject"
)

var (
	environments = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z][a-z0-9]{1,7}$`) })

	agentIDs = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
	})
	keys = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)
	})
)

// name names one secret of an agent.
type name struct {
	agent string
	kind  kind
	key   string // as operations have it; not of credentials
}

// variable names the secret of an environment variable, brokered or not.
func variable(agentID, key string) (name, error) {
	variable, isBrokered := secret.Name(key)
	if !keys().MatchString(variable) {
		return name{}, fmt.Errorf("secret variable %q: not the name of an environment variable", variable)
	}
	n := name{agent: agentID, kind: kindVariable, key: key}
	if isBrokered {
		n.kind = kindBrokered
	}
	return n, checkAgent(agentID)
}

// credentialsOf names the secret of an agent's credentials.
func credentialsOf(agentID string) (name, error) {
	return name{agent: agentID, kind: kindCredentials}, checkAgent(agentID)
}

// checkAgent also keeps filters and paths from being anything but what they seem.
func checkAgent(id string) error {
	if !agentIDs().MatchString(id) {
		return fmt.Errorf("agent id %q: not a UUID in lower case", id)
	}
	return nil
}

// ref is the secret's id within its environment, as operations show it. No two secrets share one: agent ids are equally
// long, a variable's key holds no "-", and what follows the agent's id begins with the kind. Those of brokered secrets
// begin with another word.
func (n name) ref() string {
	if n.kind == kindCredentials {
		return secret.Ref(n.agent, secret.CredentialsKey)
	}
	return secret.Ref(n.agent, n.key)
}

// id is the secret's id in the project, at most 184 characters. It begins with the environment, and an environment
// holds no "-". IAM conditions tell environments apart by it, brokered secrets from what agents get by the word that
// follows, and credentials from variables by its end.
func (s *Store) id(n name) string { return s.environment + "-" + n.ref() }

// owns reports whether a secret belongs to an agent of this environment, judging by its full name.
func (s *Store) owns(fullName, agentID string) bool {
	id := fullName[strings.LastIndexByte(fullName, '/')+1:]
	rest, ours := strings.CutPrefix(id, s.environment+"-")
	return ours && (strings.HasPrefix(rest, "agent-"+agentID+"-") || strings.HasPrefix(rest, "inject-"+agentID+"-"))
}

// labels are the labels of a new secret.
func (s *Store) labels(n name) map[string]string {
	labels := map[string]string{
		labelManagedBy: manager, labelEnvironment: s.environment, labelAgent: n.agent, labelKind: string(n.kind),
	}
	if s.database != "" {
		labels[labelDatabase] = s.database
	}
	return labels
}

// filter selects the secrets of this environment with a label.
func (s *Store) filter(label, value string) string {
	return "labels." + labelManagedBy + "=" + manager + " AND labels." + labelEnvironment + "=" + s.environment +
		" AND labels." + label + "=" + value
}

// secretOf names the secret that is meant by a key.
func secretOf(agentID, key string) (name, error) {
	if key == secret.CredentialsKey {
		return credentialsOf(agentID)
	}
	return variable(agentID, key)
}
