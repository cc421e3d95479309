package secretmanageremu_test

import (
	"fmt"
	"sync"
	"testing"

	"cloud.google.com/go/secretmanager/apiv1/secretmanagerpb"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"agents.example/controlplane/emulators/rpc"
)

func TestInject_LostResponseKeepsTheEffect(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	made := f.create("s", nil)
	var mu sync.Mutex
	var seen []string
	f.server.Inject(func(method, resource string) rpc.Fault {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, method+" "+resource)
		if method == "AddSecretVersion" {
			return rpc.Fault{After: status.Error(codes.Unavailable, "the answer is lost")}
		}
		return rpc.Fault{}
	})
	_, err := f.AddSecretVersion(f.Context(), &secretmanagerpb.AddSecretVersionRequest{
		Parent: made.Name, Payload: &secretmanagerpb.SecretPayload{Data: []byte("one")},
	})
	f.wantCode("add", err, codes.Unavailable)
	if _, data, err := f.access(made.Name + "/versions/latest"); err != nil || data != "one" {
		t.Errorf("latest version = %q, %v; want one", data, err)
	}
	if diff := cmp.Diff(map[string]int{"CreateSecret": 1, "AddSecretVersion": 1, "AccessSecretVersion": 1},
		f.server.Calls()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	mu.Lock()
	defer mu.Unlock()
	if diff := cmp.Diff([]string{"AddSecretVersion " + made.Name, "AccessSecretVersion " + made.Name +
		"/versions/latest"}, seen); diff != "" {
		t.Errorf("hook calls (-want +got):\n%s", diff)
	}
}

func TestInject_ReceivesMethodAndResource(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	seen := make(chan string, 1)
	f.server.Inject(func(method, resource string) rpc.Fault {
		seen <- method + " " + resource
		return rpc.Fault{Before: status.Error(codes.PermissionDenied, "no")}
	})
	name := project + "/secrets/s"
	calls := map[string]func() error{
		"CreateSecret " + name: func() error {
			_, err := f.CreateSecret(f.Context(), &secretmanagerpb.CreateSecretRequest{Parent: project, SecretId: "s"})
			return err
		},
		"UpdateSecret " + name: func() error {
			_, err := f.UpdateSecret(f.Context(),
				&secretmanagerpb.UpdateSecretRequest{Secret: &secretmanagerpb.Secret{Name: name}})
			return err
		},
		"ListSecrets " + project: func() error {
			_, err := f.ListSecrets(f.Context(), &secretmanagerpb.ListSecretsRequest{Parent: project}).Next()
			return err
		},
		"DeleteSecret " + name: func() error {
			return f.DeleteSecret(f.Context(),
				&secretmanagerpb.DeleteSecretRequest{Name: name})
		},
	}
	for want, call := range calls {
		f.wantCode(want, call(), codes.PermissionDenied)
		if got := <-seen; got != want {
			t.Errorf("hook received %q, want %q", got, want)
		}
	}
}

func TestAddSecretVersion_ConcurrentNumbersAreUnique(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	made := f.create("s", nil)
	var names sync.Map
	var adders sync.WaitGroup
	for i := range 20 {
		adders.Go(func() {
			added, err := f.AddSecretVersion(f.Context(), &secretmanagerpb.AddSecretVersionRequest{
				Parent: made.Name, Payload: &secretmanagerpb.SecretPayload{Data: fmt.Append(nil, i)},
			})
			if err != nil {
				t.Error(err)
				return
			}
			if _, twice := names.LoadOrStore(added.Name, true); twice {
				t.Errorf("version name %s was returned twice", added.Name)
			}
		})
	}
	adders.Wait()
	if name, _, err := f.access(made.Name + "/versions/latest"); err != nil || name != made.Name+"/versions/20" {
		t.Errorf("latest version = %s, %v; want version 20", name, err)
	}
}
