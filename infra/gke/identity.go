package gke

import (
	corev1 "k8s.io/api/core/v1"

	"agents.example/controlplane/shared/agent"
)

// identity is the service account, and the environment of an agent without secret variables. The environment of an
// agent with secret variables waits for their values, in a separate stage.
func (b blueprint) identity() ([]object, error) {
	if hasSecrets(b.agent) {
		return []object{b.account()}, nil
	}
	environment, err := b.environment()
	return append([]object{b.account()}, environment...), err
}

func (b blueprint) account() object {
	return &corev1.ServiceAccount{
		TypeMeta: typed("v1", "ServiceAccount"), ObjectMeta: b.named(agentName),
		AutomountServiceAccountToken: new(false),
	}
}

func hasSecrets(a agent.Agent) bool {
	for _, e := range a.Env {
		if e.Secret() {
			return true
		}
	}
	return false
}
