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
	if err := w.Destroy(t.Context(), w.agent); err != nil {
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
	if err := w.Destroy(t.Context(), w.agent); err != nil {
		t.Error(err)
	}
}

func TestDestroy_EndsOnlyWhenNoSecretIsLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	put := func() {
		if _, err := w.Put(t.Context(), w.agent, "TOKEN", []byte("value")); err != nil {
			t.Error(err)
		}
	}
	put()
	// Another call writes the secret again between each list and deletion.
	w.server.Inject(func(method, _ string) rpc.Fault {
		if method == "DeleteSecret" {
			return rpc.Fault{Before: status.Error(codes.NotFound, "another call deleted the secret and wrote it again")}
		}
		return rpc.Fault{}
	})
	if err := w.Destroy(t.Context(), w.agent); fault.Code(err) != "secret_store_unavailable" {
		t.Errorf("got %v, want secret_store_unavailable while a secret is left", err)
	}
	w.server.Inject(nil)
	if err := w.Destroy(t.Context(), w.agent); err != nil {
		t.Error(err)
	}
}
