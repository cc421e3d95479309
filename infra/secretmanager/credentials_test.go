package secretmanager_test

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"cloud.google.com/go/secretmanager/apiv1/secretmanagerpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"agents.example/controlplane/emulators/rpc"
	"agents.example/controlplane/shared/credential"
	"agents.example/controlplane/shared/fault"
)

// Earlier calls added versions and ended before they put one in force. The next call adopts the oldest enabled one and
// adds none.
func TestEnsureCredentials_AdoptsTheOldestEnabledVersion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	made, err := w.raw.CreateSecret(t.Context(), &secretmanagerpb.CreateSecretRequest{
		Parent: "projects/" + project, SecretId: w.credentialsID(), Secret: &secretmanagerpb.Secret{
			Replication: &secretmanagerpb.Replication{
				Replication: &secretmanagerpb.Replication_Automatic_{Automatic: &secretmanagerpb.Replication_Automatic{}},
			},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		value, err := json.Marshal(credential.Generate(fmt.Sprint("user ", i+1)))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.raw.AddSecretVersion(t.Context(), &secretmanagerpb.AddSecretVersionRequest{
			Parent: made.GetName(), Payload: &secretmanagerpb.SecretPayload{Data: value},
		}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.raw.DisableSecretVersion(t.Context(),
		&secretmanagerpb.DisableSecretVersionRequest{Name: made.GetName() + "/versions/1"}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		got, version, err := w.EnsureCredentials(t.Context(), w.agent, "admin")
		if err != nil || version != 2 || got.DashboardUsername != "user 2" {
			t.Errorf("version %d of %q, %v, want 2 of user 2", version, got.DashboardUsername, err)
		}
	}
	if got := w.enabled(t, w.credentialsID()); got != 2 {
		t.Errorf("%d versions are enabled, want the 2 from before", got)
	}
}

// Twelve calls find no version. They agree on one, and the versions that the others added are destroyed.
func TestEnsureCredentials_ConcurrentCallsAgreeOnOneVersion(t *testing.T) {
	t.Parallel()
	const callers = 12
	w := newWorld(t)
	var arrived sync.WaitGroup
	arrived.Add(callers)
	w.server.Inject(func(method, _ string) rpc.Fault {
		if method == "AddSecretVersion" {
			arrived.Done()
			arrived.Wait()
		}
		return rpc.Fault{}
	})
	answers := make(chan credential.Credentials, callers)
	var calls sync.WaitGroup
	for range callers {
		calls.Go(func() {
			c, _, err := w.EnsureCredentials(t.Context(), w.agent, "admin")
			if err != nil {
				t.Errorf("EnsureCredentials: %v", err)
			}
			answers <- c
		})
	}
	calls.Wait()
	w.server.Inject(nil)
	want, _, err := w.EnsureCredentials(t.Context(), w.agent, "admin")
	if err != nil {
		t.Fatal(err)
	}
	for range callers {
		if got := <-answers; got != want {
			t.Error("a racing call answered other credentials")
		}
	}
	if got := w.server.Calls()["AddSecretVersion"]; got != callers {
		t.Errorf("%d versions were added, want %d: the race did not happen", got, callers)
	}
	if got := w.enabled(t, w.credentialsID()); got != 1 {
		t.Errorf("%d versions are enabled, want 1", got)
	}
}

// If the answer of any one call is lost and the operation is retried, one version is left.
func TestEnsureCredentials_LostAnswersLeaveOneVersion(t *testing.T) {
	t.Parallel()
	for _, method := range []string{
		"GetSecret", "CreateSecret", "ListSecretVersions", "AddSecretVersion",
		"UpdateSecret", "AccessSecretVersion",
	} {
		for _, code := range []codes.Code{codes.Unavailable, codes.DeadlineExceeded} {
			t.Run(method+"/"+code.String(), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				lost := make(chan struct{}, 1)
				lost <- struct{}{}
				w.server.Inject(func(m, _ string) rpc.Fault {
					if m != method {
						return rpc.Fault{}
					}
					select {
					case <-lost:
						return rpc.Fault{After: status.Error(code, "the answer is lost")}
					default:
						return rpc.Fault{}
					}
				})
				first, _, err := w.EnsureCredentials(t.Context(), w.agent, "admin")
				if err != nil && fault.Code(err) != "secret_store_unavailable" {
					t.Errorf("EnsureCredentials: %v, want secret_store_unavailable or none", err)
				}
				second, version, repeatedErr := w.EnsureCredentials(t.Context(), w.agent, "admin")
				if repeatedErr != nil || version != 1 || err == nil && first != second {
					t.Errorf("repeated: version %d, %v, want the first", version, repeatedErr)
				}
				if got := w.server.Calls()["AddSecretVersion"]; got != 1 {
					t.Errorf("%d versions were added, want 1", got)
				}
			})
		}
	}
}
