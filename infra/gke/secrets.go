package gke

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/credential"
	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/fault"
)

// environmentPrefix begins the names of the ConfigMap and the Secret that become the agent's environment. Earlier
// releases used one ConfigMap and one Secret of exactly this name.
const environmentPrefix = "agent-env"

// environmentName names the ConfigMap and the Secret by their content. Both are immutable: a worker that applies an
// older state writes other objects, and a container that restarts gets the environment that its pod was created with.
func environmentName(config string) string { return environmentPrefix + "-" + config }

// environment is the Secret and the ConfigMaps, in the order in which they are applied: the Secret owns the ConfigMaps.
func (b blueprint) environment() ([]object, error) {
	secret, err := b.secret()
	if err != nil {
		return nil, err
	}
	return append([]object{secret, b.plainEnvironment()}, b.files()...), nil
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
	if !b.agent.Imports {
		delete(data, dataplane.EnvImportURL)
	}
	data[dataplane.EnvDashboardUsername] = []byte(input.Credentials.DashboardUsername)
	data[dataplane.EnvDashboardPassword] = []byte(input.Credentials.DashboardPassword)
	data[dataplane.EnvAPIKey] = []byte(input.Credentials.APIKey)
	return &corev1.Secret{
		TypeMeta: typed("v1", "Secret"), ObjectMeta: b.versioned(environmentName(b.config)),
		Type: corev1.SecretTypeOpaque, Data: data, Immutable: new(true),
	}, nil
}

// plainEnvironment holds the plain variables.
func (b blueprint) plainEnvironment() object {
	return &corev1.ConfigMap{
		TypeMeta: typed("v1", "ConfigMap"), ObjectMeta: b.versioned(environmentName(b.config)),
		Data: plainEnv(b.agent), Immutable: new(true),
	}
}

// own makes the Secret the owner of the ConfigMap. If the Secret is deleted, the cluster's garbage collector deletes
// the ConfigMap, too. Workers may list ConfigMaps but not Secrets, so a missing ConfigMap reports either.
func own(secret, plain metav1.Object) {
	plain.SetOwnerReferences([]metav1.OwnerReference{
		{APIVersion: "v1", Kind: "Secret", Name: secret.GetName(), UID: secret.GetUID()},
	})
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

func hasSecrets(a agent.Agent) bool { return len(secretKeys(a)) > 0 }

// containerSecretKeys are the keys of the secrets that the agent's container may have.
func containerSecretKeys(a agent.Agent) []string {
	return slices.DeleteFunc(secretKeys(a), func(key string) bool { return key == dataplane.EnvImportURL })
}

// secretKeys are the keys of the agent's secret variables, sorted.
func secretKeys(a agent.Agent) []string {
	var keys []string
	for _, e := range a.Env {
		if e.Secret() {
			keys = append(keys, e.Key)
		}
	}
	slices.Sort(keys)
	return keys
}
