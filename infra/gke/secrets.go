package gke

import (
	"maps"

	corev1 "k8s.io/api/core/v1"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/credential"
	"agents.example/controlplane/shared/fault"
)

// environmentName is the name of the ConfigMap and the Secret that become the agent's environment.
const environmentName = "agent-env"

// Variables by which the agent's gateway learns its credentials. Clients can't set them.
const (
	envDashboardUsername = "DASHBOARD_USERNAME"
	envDashboardPassword = "DASHBOARD_PASSWORD"
	envAPIKey            = "API_SERVER_KEY"
)

func (b blueprint) secrets() ([]object, error) {
	secret, err := b.secret()
	if err != nil {
		return nil, err
	}
	return []object{secret}, nil
}

// secret holds the credentials and the values of the agent's secret variables. One that lacks any of them is never
// made: applied, it would take from the agent what it lacks.
func (b blueprint) secret() (object, error) {
	input := b.input
	if input.Credentials == (credential.Credentials{}) {
		return nil, fault.New(fault.Internal, "internal_error",
			"The agent's Secret cannot be created without its credentials.")
	}
	for _, e := range b.agent.Env {
		if _, ok := input.Secrets[e.Key]; e.Secret() && !ok {
			return nil, fault.New(fault.Internal, "internal_error",
				"The agent's Secret cannot be created without the value of %s.", e.Key)
		}
	}
	data := map[string][]byte{}
	maps.Copy(data, input.Secrets)
	data[envDashboardUsername] = []byte(input.Credentials.DashboardUsername)
	data[envDashboardPassword] = []byte(input.Credentials.DashboardPassword)
	data[envAPIKey] = []byte(input.Credentials.APIKey)
	return &corev1.Secret{
		TypeMeta: typed("v1", "Secret"), ObjectMeta: b.named(environmentName),
		Type: corev1.SecretTypeOpaque, Data: data,
	}, nil
}

// environment holds the plain variables. It belongs to the runtime's stage, so that it is there, and new, whenever a
// pod is made of it.
func (b blueprint) environment() object {
	return &corev1.ConfigMap{
		TypeMeta: typed("v1", "ConfigMap"), ObjectMeta: b.named(environmentName),
		Data: plainEnv(b.agent),
	}
}

func plainEnv(a agent.Agent) map[string]string {
	plain := map[string]string{}
	for _, e := range a.Env {
		if !e.Secret() {
			plain[e.Key] = e.Value
		}
	}
	return plain
}
