package cloud_test

import (
	"strings"
	"sync"
	"testing"

	client "cloud.google.com/go/secretmanager/apiv1"
	"cloud.google.com/go/secretmanager/apiv1/secretmanagerpb"

	"agents.example/controlplane/emulators/cloud"
	"agents.example/controlplane/emulators/rpc"
	"agents.example/controlplane/shared/secret"
)

// vault looks at the Secret Manager from outside, and makes its calls about single agents go wrong.
type vault struct {
	client  *client.Client
	project string

	mu     sync.Mutex
	faults map[string]rpc.Hook // by agent
}

func openVault(t *testing.T, c *cloud.Cloud) *vault {
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
	v := &vault{client: opened, project: "projects/" + c.Ready.ProjectID, faults: map[string]rpc.Hook{}}
	c.Secrets.Inject(func(method, resource string) rpc.Fault {
		v.mu.Lock()
		var hook rpc.Hook
		for id, h := range v.faults {
			if strings.Contains(resource, id) {
				hook = h
			}
		}
		v.mu.Unlock()
		if hook == nil {
			return rpc.Fault{}
		}
		return hook(method, resource)
	})
	return v
}

// breaks has the calls about an agent go wrong; nil mends them.
func (v *vault) breaks(agentID string, hook rpc.Hook) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.faults[agentID] = hook
	if hook == nil {
		delete(v.faults, agentID)
	}
}

// versions counts the versions that a secret of an agent ever had, and those that are still there.
func (v *vault) versions(t *testing.T, agentID, key string) (ever, there int) {
	t.Helper()
	for listed, err := range v.client.ListSecretVersions(t.Context(), &secretmanagerpb.ListSecretVersionsRequest{
		Parent: v.project + "/secrets/" + secret.Ref(agentID, key),
	}).All() {
		if err != nil {
			if strings.Contains(err.Error(), "NotFound") {
				return 0, 0
			}
			t.Fatal(err)
		}
		ever++
		if listed.GetState() == secretmanagerpb.SecretVersion_ENABLED {
			there++
		}
	}
	return ever, there
}

// secrets counts the secrets of an agent.
func (v *vault) secrets(t *testing.T, agentID string) int {
	t.Helper()
	n := 0
	for _, err := range v.client.ListSecrets(t.Context(), &secretmanagerpb.ListSecretsRequest{
		Parent: v.project, Filter: "labels.agent-id=" + agentID,
	}).All() {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}
