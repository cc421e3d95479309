package secretmanager_test

import (
	"testing"

	"cloud.google.com/go/secretmanager/apiv1/secretmanagerpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"agents.example/controlplane/emulators/rpc"
	"agents.example/controlplane/shared/fault"
)

func TestDestroy_LeavesSecretsOfOtherManagers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	foreign := &secretmanagerpb.CreateSecretRequest{
		Parent: "projects/" + project, SecretId: "agent-" + w.agent + "-backup",
		Secret: &secretmanagerpb.Secret{
			Labels: map[string]string{"agent-id": w.agent, "managed-by": "another-manager"},
			Replication: &secretmanagerpb.Replication{
				Replication: &secretmanagerpb.Replication_Automatic_{Automatic: &secretmanagerpb.Replication_Automatic{}},
			},
		},
	}
	if _, err := w.raw.CreateSecret(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Put(t.Context(), w.agent, "TOKEN", []byte("value")); err != nil {
		t.Fatal(err)
	}
	if err := w.Destroy(t.Context(), w.agent, nil); err != nil {
		t.Fatal(err)
	}
	w.secret(t, foreign.SecretId)
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
