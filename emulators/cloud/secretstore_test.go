package cloud_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	client "cloud.google.com/go/secretmanager/apiv1"
	"cloud.google.com/go/secretmanager/apiv1/secretmanagerpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"agents.example/controlplane/emulators/cloud"
	"agents.example/controlplane/emulators/rpc"
	"agents.example/controlplane/shared/secret"
)

// secretStore reads the Secret Manager directly, and injects faults into calls about single agents.
type secretStore struct {
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
	s := &secretStore{client: opened, project: "projects/" + c.Ready.ProjectID, faults: map[string]rpc.Hook{}}
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

// countVersions counts the versions of one of an agent's secrets. It accesses each by its number, because lists lag.
func (s *secretStore) countVersions(t *testing.T, agentID, key string) (n versions) {
	t.Helper()
	for {
		_, err := s.client.AccessSecretVersion(t.Context(), &secretmanagerpb.AccessSecretVersionRequest{
			Name: fmt.Sprintf("%s/secrets/%s/versions/%d", s.project, secret.Ref(agentID, key), n.added+1),
		})
		switch status.Code(err) {
		case codes.OK:
			n.enabled++
		case codes.FailedPrecondition: // destroyed
		case codes.NotFound:
			return n
		default:
			t.Fatal(err)
		}
		n.added++
	}
}

func (s *secretStore) checkVersions(t *testing.T, agentID, key string, want versions) {
	t.Helper()
	checkEqual(t, "versions of "+key, s.countVersions(t, agentID, key), want)
}

// awaitNoSecrets waits until no secret of an agent is listed. Lists lag.
func (d deployment) awaitNoSecrets(t *testing.T, agentID string) {
	t.Helper()
	d.await(t, agentID, "without secrets in the store", func(answer) bool {
		for _, err := range d.secretStore.client.ListSecrets(t.Context(), &secretmanagerpb.ListSecretsRequest{
			Parent: d.secretStore.project, Filter: "labels.agent-id=" + agentID,
		}).All() {
			if err != nil {
				t.Fatal(err)
			}
			return false
		}
		return true
	})
}
