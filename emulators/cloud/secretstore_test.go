package cloud_test

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	client "cloud.google.com/go/secretmanager/apiv1"
	"cloud.google.com/go/secretmanager/apiv1/secretmanagerpb"

	"agents.example/controlplane/emulators/cloud"
	"agents.example/controlplane/emulators/dataplane"
	"agents.example/controlplane/emulators/rpc"
	"agents.example/controlplane/emulators/secretmanageremu"
	"agents.example/controlplane/shared/secret"
)

// secretStore reads the Secret Manager directly, and injects faults into calls about single agents. What the client
// lists may be old; the server knows the present state.
type secretStore struct {
	server  *secretmanageremu.Server
	client  *client.Client
	project string

	mu     sync.Mutex
	faults map[string]rpc.Hook // by agent, or a part of a secret's name
}

func openSecretStore(t *testing.T, c *cloud.Cloud) *secretStore {
	t.Helper()
	opened, err := client.NewClient(t.Context(), c.Secrets.ClientOptions()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := opened.Close(); err != nil {
			t.Error(err)
		}
	})
	s := &secretStore{
		server: c.Secrets, client: opened, project: "projects/" + c.Ready.ProjectID, faults: map[string]rpc.Hook{},
	}
	c.Secrets.Inject(func(method, resource string) rpc.Fault {
		s.mu.Lock()
		var hook rpc.Hook
		for id, h := range s.faults {
			if strings.Contains(resource, id) {
				hook = h
			}
		}
		s.mu.Unlock()
		if hook == nil {
			return rpc.Fault{}
		}
		return hook(method, resource)
	})
	return s
}

// inject makes the calls about an agent fail; a nil hook ends that.
func (s *secretStore) inject(agentID string, hook rpc.Hook) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults[agentID] = hook
	if hook == nil {
		delete(s.faults, agentID)
	}
}

// versions counts the versions of a secret: all that were added, and those that are still enabled.
type versions struct{ added, enabled int }

// countVersions counts the versions of one of an agent's secrets.
func (s *secretStore) countVersions(agentID, key string) (n versions) {
	for name, states := range s.server.States() {
		if !strings.HasSuffix(name, "/secrets/"+dataplane.Environment+"-"+secret.Ref(agentID, key)) {
			continue
		}
		for _, state := range states {
			n.added++
			if state == secretmanagerpb.SecretVersion_ENABLED {
				n.enabled++
			}
		}
	}
	return n
}

func (s *secretStore) checkVersions(t *testing.T, agentID, key string, want versions) {
	t.Helper()
	checkEqual(t, "versions of "+key, s.countVersions(agentID, key), want)
}

// countSecrets counts the secrets of an agent.
func (s *secretStore) countSecrets(agentID string) (n int) {
	for _, name := range s.listSecrets() {
		if strings.Contains(name, agentID) {
			n++
		}
	}
	return n
}

// listSecrets lists the names of all secrets.
func (s *secretStore) listSecrets() []string { return slices.Collect(maps.Keys(s.server.States())) }
