package gke

import (
	corev1 "k8s.io/api/core/v1"

	"agents.example/controlplane/shared/agent"
)

// identity is the service account, and the Secret of an agent without secret variables. The Secret of an agent that has
// some waits for their values, in its own stage: without them, applying it would take them from a pod that runs, and it
// is written once, not twice.
func (b blueprint) identity() ([]object, error) {
	account := &corev1.ServiceAccount{
		TypeMeta: typed("v1", "ServiceAccount"), ObjectMeta: b.named(agentName),
		AutomountServiceAccountToken: new(false),
	}
	if hasSecrets(b.agent) {
		return []object{account}, nil
	}
	secret, err := b.secret()
	if err != nil {
		return nil, err
	}
	return []object{account, secret}, nil
}

func hasSecrets(a agent.Agent) bool {
	for _, e := range a.Env {
		if e.Secret() {
			return true
		}
	}
	return false
}
