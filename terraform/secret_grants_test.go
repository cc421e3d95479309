package terraform_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/zclconf/go-cty/cty"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"agents.example/controlplane/emulators/rpc"
	"agents.example/controlplane/emulators/secretmanageremu"
	"agents.example/controlplane/infra/secretmanager"
	"agents.example/controlplane/shared/provisioning"
)

// permission is what a method of Secret Manager requires, on the project or on the secret that is called.
type permission struct {
	name      string
	onProject bool
}

// permissions maps the methods of Secret Manager to what they require, as its page on access control says.
func permissions() map[string]permission {
	return map[string]permission{
		"CreateSecret":         {"secretmanager.secrets.create", true},
		"ListSecrets":          {"secretmanager.secrets.list", true},
		"GetSecret":            {"secretmanager.secrets.get", false},
		"UpdateSecret":         {"secretmanager.secrets.update", false},
		"DeleteSecret":         {"secretmanager.secrets.delete", false},
		"AddSecretVersion":     {"secretmanager.versions.add", false},
		"AccessSecretVersion":  {"secretmanager.versions.access", false},
		"GetSecretVersion":     {"secretmanager.versions.get", false},
		"ListSecretVersions":   {"secretmanager.versions.list", false},
		"DestroySecretVersion": {"secretmanager.versions.destroy", false},
	}
}

// need is a need's roles: the permissions that they grant, by condition.
type need struct {
	granted map[string][]string

	mu   sync.Mutex
	used map[string]bool
}

// needNamed reads the grants of a need from the module.
func needNamed(t *testing.T, m *module, name string) *need {
	t.Helper()
	roles := map[string][]string{"roles/secretmanager.secretAccessor": {"secretmanager.versions.access"}}
	for id, name := range m.local(t, "custom_roles").AsValueMap() {
		roles[name.AsString()] = texts(t, m.local(t, "role_permissions").GetAttr(id))
	}
	places, n := m.local(t, "places").AsValueMap(), &need{granted: map[string][]string{}, used: map[string]bool{}}
	for role, place := range m.local(t, "grants").GetAttr(name).GetAttr("roles").AsValueMap() {
		where := places[place.AsString()].GetAttr("where").AsString()
		n.granted[where] = append(n.granted[where], roles[role]...)
	}
	return n
}

var projectOf = regexp.MustCompile(`^projects/[^/]+`)

// authorize refuses the calls that the grants do not allow. IAM knows the project by its number.
func (n *need) authorize(t *testing.T) rpc.Hook {
	return func(method, resource string) rpc.Fault {
		required := permissions()[method]
		resource = projectOf.ReplaceAllString(resource, "projects/123456789012")
		if required.onProject {
			resource = "projects/123456789012"
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		n.used[required.name] = true
		for where, granted := range n.granted {
			if slices.Contains(granted, required.name) && condition(t, where, resource) {
				return rpc.Fault{}
			}
		}
		return rpc.Fault{Before: status.Errorf(codes.PermissionDenied, "%s denied on %s", required.name, resource)}
	}
}

// owners are two agents: one that has no secret yet, and one that has credentials and the variable TOKEN.
type owners struct{ fresh, existing string }

// TestSecretGrants_AllowWhatTheirPortsCall uses every method of the ports of secrets with the grants of their need. The
// grants allow each call, and grant nothing that no call uses.
func TestSecretGrants_AllowWhatTheirPortsCall(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(context.Context, *secretmanager.Store, owners) error{
		"secret_add": addSecrets, "secret_read": readSecrets, "secret_manage": manageSecrets,
		"secret_collect": collectSecrets,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, s := openSecrets(t, "staging")
			agents := owners{uuid.NewString(), uuid.NewString()}
			if _, _, err := s.EnsureCredentials(t.Context(), agents.existing, "admin"); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Put(t.Context(), agents.existing, "TOKEN", []byte("value")); err != nil {
				t.Fatal(err)
			}
			// A module evaluates one expression at a time.
			n := needNamed(t, load(t, map[string]cty.Value{"environment": cty.StringVal("staging")}), name)
			server.Inject(n.authorize(t))
			if err := call(t.Context(), s, agents); err != nil {
				t.Errorf("with the grants of %s: %v", name, err)
			}
			for granted := range maps.Values(n.granted) {
				for _, p := range granted {
					if !n.used[p] {
						t.Errorf("%s grants %s, which no call uses", name, p)
					}
				}
			}
		})
	}
}

// openSecrets opens the store of an environment's secrets, which are empty.
func openSecrets(t *testing.T, environment string) (*secretmanageremu.Server, *secretmanager.Store) {
	t.Helper()
	server, err := secretmanageremu.Start(t.Context(), secretmanageremu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := secretmanager.Open(t.Context(), secretmanager.Options{
		ProjectID: "my-project", Environment: environment, Database: "agents", Endpoint: server.Addr,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(s.Close(), server.Close()); err != nil {
			t.Error(err)
		}
	})
	return server, s
}

func addSecrets(ctx context.Context, s *secretmanager.Store, a owners) error {
	version, put := s.Put(ctx, a.fresh, "TOKEN", []byte("value"))
	_, rotated := s.AddCredentials(ctx, a.existing, "admin")
	_, found := s.LatestVersion(ctx, a.fresh, "TOKEN")
	_, _, created := s.VersionCreated(ctx, a.fresh, "TOKEN", version)
	return errors.Join(put, rotated, found, created)
}

func readSecrets(ctx context.Context, s *secretmanager.Store, a owners) error {
	_, err := s.GetCredentials(ctx, a.existing, 1)
	return err
}

func manageSecrets(ctx context.Context, s *secretmanager.Store, a owners) error {
	_, version, ensured := s.EnsureCredentials(ctx, a.fresh, "admin")
	_, got := s.GetCredentials(ctx, a.fresh, version)
	_, read := s.Read(ctx, a.existing, "TOKEN", 1)
	return errors.Join(ensured, got, read, s.DestroyVersions(ctx, a.existing, "TOKEN", 1, 2),
		s.Destroy(ctx, a.existing, []string{"TOKEN"}))
}

// collectSecrets marks the secrets of the existing agent and then deletes them.
func collectSecrets(ctx context.Context, s *secretmanager.Store, _ owners) error {
	for _, change := range []func(provisioning.SecretOwner) error{
		func(o provisioning.SecretOwner) error { return s.MarkSecrets(ctx, o, time.Now()) },
		func(o provisioning.SecretOwner) error { return s.DeleteSecrets(ctx, o) },
	} {
		listed, err := s.SecretOwners(ctx)
		if err != nil || len(listed) != 1 {
			return fmt.Errorf("%d owners of secrets are listed, want 1: %w", len(listed), err)
		}
		if err := change(listed[0]); err != nil {
			return err
		}
	}
	return nil
}

// TestSecretGrants_RefuseVariablesWhereOnlyCredentialsAreShown reads a variable, also one that is named like
// credentials, with the grants of revealing credentials.
func TestSecretGrants_RefuseVariablesWhereOnlyCredentialsAreShown(t *testing.T) {
	t.Parallel()
	server, s := openSecrets(t, "prod")
	agentID := uuid.NewString()
	keys := []string{"TOKEN", "credentials", "my_credentials"}
	for _, key := range keys {
		if _, err := s.Put(t.Context(), agentID, key, []byte("value")); err != nil {
			t.Fatal(err)
		}
	}
	server.Inject(needNamed(t, load(t, nil), "secret_read").authorize(t))
	for _, key := range keys {
		if _, err := s.Read(t.Context(), agentID, key, 1); err == nil {
			t.Errorf("the variable %s can be read", key)
		}
	}
}
