package secretmanager_test

import (
	"testing"
	"time"

	"cloud.google.com/go/secretmanager/apiv1/secretmanagerpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"agents.example/controlplane/emulators/rpc"
	"agents.example/controlplane/shared/fault"
)

func TestDestroy_LeavesSecretsOfOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := "test-agent-" + w.agent + "-backup"
	for name, row := range map[string]struct{ id, environment, manager string }{
		"another manager":     {id: id + "-1", environment: "test", manager: "another-manager"},
		"another environment": {id: id + "-2", environment: "prod", manager: "agent-control-plane"},
		"another name":        {id: "agent-" + w.agent + "-3", environment: "test", manager: "agent-control-plane"},
	} {
		_, err := w.raw.CreateSecret(t.Context(), &secretmanagerpb.CreateSecretRequest{
			Parent: "projects/" + project, SecretId: row.id,
			Secret: &secretmanagerpb.Secret{
				Labels: map[string]string{
					"agent-id": w.agent, "environment": row.environment, "managed-by": row.manager,
				},
				Replication: &secretmanagerpb.Replication{
					Replication: &secretmanagerpb.Replication_Automatic_{Automatic: &secretmanagerpb.Replication_Automatic{}},
				},
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Destroy(t.Context(), w.agent, nil); err != nil {
			t.Fatal(err)
		}
		t.Logf("the secret of %s must remain", name)
		w.secret(t, row.id)
	}
}

func TestDestroy_SucceedsIfAnotherCallDeletesFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if _, err := w.Put(t.Context(), w.agent, "TOKEN", []byte("value")); err != nil {
		t.Fatal(err)
	}
	w.server.Inject(func(method, _ string) rpc.Fault {
		if method == "DeleteSecret" {
			return rpc.Fault{After: status.Error(codes.NotFound, "another call was faster")}
		}
		return rpc.Fault{}
	})
	if err := w.Destroy(t.Context(), w.agent, nil); err != nil {
		t.Error(err)
	}
}

// The service does not find a version in an old state, although it can be accessed.
func TestDestroyVersions_FailsWhileAVersionCanBeAccessed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range 2 {
		if _, err := w.Put(t.Context(), w.agent, "TOKEN", []byte("value")); err != nil {
			t.Fatal(err)
		}
	}
	w.server.Inject(func(method, _ string) rpc.Fault {
		if method == "DestroySecretVersion" {
			return rpc.Fault{Before: status.Error(codes.NotFound, "not yet")}
		}
		return rpc.Fault{}
	})
	err := w.DestroyVersions(t.Context(), w.agent, "TOKEN", 1, 2)
	if fault.Code(err) != "secret_store_unavailable" {
		t.Errorf("got %v, want secret_store_unavailable", err)
	}
	w.server.Inject(nil)
	if err := w.DestroyVersions(t.Context(), w.agent, "TOKEN", 1, 2); err != nil {
		t.Error(err)
	}
	if got := w.enabled(t, w.variableID("TOKEN")); got != 1 {
		t.Errorf("%d versions are left, want 1", got)
	}
}

// If the answer of any one call is lost and the operation is retried, nothing is left that should be destroyed.
func TestDestroy_LostAnswersLeaveNothing(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"DestroySecretVersion", "ListSecrets", "DeleteSecret"} {
		for _, code := range []codes.Code{codes.Unavailable, codes.DeadlineExceeded, codes.Aborted} {
			t.Run(method+"/"+code.String(), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				for range 3 {
					if _, err := w.Put(t.Context(), w.agent, "TOKEN", []byte("value")); err != nil {
						t.Fatal(err)
					}
				}
				loseOneAnswer(w, method, code)
				prune := func() error { return w.DestroyVersions(t.Context(), w.agent, "TOKEN", 1, 3) }
				destroy := func() error { return w.Destroy(t.Context(), w.agent, []string{"TOKEN"}) }
				for name, do := range map[string]func() error{"DestroyVersions": prune, "Destroy": destroy} {
					if do() != nil {
						if err := do(); err != nil {
							t.Errorf("%s, repeated: %v", name, err)
						}
					}
				}
				if n, err := w.LatestVersion(t.Context(), w.agent, "TOKEN"); err != nil || n != 0 {
					t.Errorf("the latest version is %d, %v, want none", n, err)
				}
			})
		}
	}
}

// Nothing is listed yet, and what is deleted stays listed.
func TestDestroy_DoesNotNeedLists(t *testing.T) {
	t.Parallel()
	for name, lagBefore := range map[string]bool{"new secrets are not listed": true, "deleted ones are": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			if lagBefore {
				w.server.SetLag(time.Hour)
			}
			if _, err := w.Put(t.Context(), w.agent, "TOKEN", []byte("value")); err != nil {
				t.Fatal(err)
			}
			if _, _, err := w.EnsureCredentials(t.Context(), w.agent, "admin"); err != nil {
				t.Fatal(err)
			}
			w.server.SetLag(time.Hour)
			if err := w.Destroy(t.Context(), w.agent, []string{"TOKEN"}); err != nil {
				t.Fatal(err)
			}
			w.server.SetLag(0)
			for s, err := range w.raw.ListSecrets(t.Context(),
				&secretmanagerpb.ListSecretsRequest{Parent: "projects/" + project}).All() {
				t.Errorf("%s is left, %v", s.GetName(), err)
			}
		})
	}
}

func TestDestroy_EndsOnlyWhenNoSecretIsLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other := open(t, w.server.Addr)
	put := func() {
		if _, err := other.Put(t.Context(), w.agent, "TOKEN", []byte("value")); err != nil {
			t.Error(err)
		}
	}
	put()
	// Another call writes the secret again before each list.
	w.server.Inject(func(method, _ string) rpc.Fault {
		if method == "ListSecrets" {
			put()
		}
		return rpc.Fault{}
	})
	if err := w.Destroy(t.Context(), w.agent, nil); fault.Code(err) != "secret_store_unavailable" {
		t.Errorf("got %v, want secret_store_unavailable while secrets appear", err)
	}
	w.server.Inject(nil)
	if err := w.Destroy(t.Context(), w.agent, nil); err != nil {
		t.Error(err)
	}
}
