package secretmanager_test

import (
	"testing"
	"time"

	"cloud.google.com/go/secretmanager/apiv1/secretmanagerpb"
	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"agents.example/controlplane/emulators/rpc"
	"agents.example/controlplane/infra/secretmanager"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/provisioning"
	"agents.example/controlplane/shared/secret"
)

const database = "project-agents-1"

// openDatabase opens a store whose secrets are labeled with a database.
func (w world) openDatabase(t *testing.T, label string) *secretmanager.Store {
	t.Helper()
	return openWith(t, secretmanager.Options{Environment: "test", Endpoint: w.server.Addr, Database: label})
}

func put(t *testing.T, s *secretmanager.Store, agentID string, keys ...string) {
	t.Helper()
	for _, key := range keys {
		if _, err := s.Put(t.Context(), agentID, key, []byte("value")); err != nil {
			t.Fatal(err)
		}
	}
}

// owner returns the only owner of secrets.
func owner(t *testing.T, s provisioning.SecretLister) provisioning.SecretOwner {
	t.Helper()
	owners, err := s.SecretOwners(t.Context())
	if err != nil || len(owners) != 1 {
		t.Fatalf("SecretOwners = %d owners, %v; want 1", len(owners), err)
	}
	return owners[0]
}

func TestSecretOwners_ListsTheSecretsOfItsDatabaseByOwner(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	own, other, unlabeled := w.openDatabase(t, database), w.openDatabase(t, "project-agents-2"), w.Store
	second := uuid.NewString()
	begun := time.Now()
	put(t, own, w.agent, "ONE", secret.BrokeredKey("ONE"))
	if _, err := own.AddCredentials(t.Context(), second, "admin"); err != nil {
		t.Fatal(err)
	}
	put(t, other, uuid.NewString(), "ONE")
	put(t, unlabeled, uuid.NewString(), "ONE")
	foreign := &secretmanagerpb.CreateSecretRequest{
		Parent: "projects/" + project, SecretId: "test-api-key-pepper",
		Secret: &secretmanagerpb.Secret{
			Labels: map[string]string{
				"managed-by": "agent-control-plane", "environment": "test", "database": database, "agent-id": w.agent,
			},
			Replication: &secretmanagerpb.Replication{
				Replication: &secretmanagerpb.Replication_Automatic_{Automatic: &secretmanagerpb.Replication_Automatic{}},
			},
		},
	}
	if _, err := w.raw.CreateSecret(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	owners, err := own.SecretOwners(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, o := range owners {
		got[o.AgentID] = len(o.Secrets)
		if o.CreatedAt.Before(begun.Add(-time.Second)) || !o.OrphanedSince.IsZero() {
			t.Errorf("owner %s: created at %s, orphaned since %s; want now and no mark", o.AgentID, o.CreatedAt,
				o.OrphanedSince)
		}
	}
	if len(got) != 2 || got[w.agent] != 2 || got[second] != 1 {
		t.Errorf("secrets by owner = %v, want 2 of %s and 1 of %s", got, w.agent, second)
	}
}

func TestSecretOwners_NeedsADatabase(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if owners, err := w.SecretOwners(t.Context()); err == nil {
		t.Errorf("SecretOwners without a database = %d owners, want an error", len(owners))
	}
}

func TestMarkSecrets_KeepsTheOldestMarkAndClearsAll(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.openDatabase(t, database)
	put(t, s, w.agent, "ONE", "TWO")
	first, later := time.Now().Add(-2*time.Hour).Truncate(time.Second), time.Now().Truncate(time.Second)
	mark := func(since time.Time) {
		t.Helper()
		if err := s.MarkSecrets(t.Context(), owner(t, s), since); err != nil {
			t.Fatal(err)
		}
	}
	want := func(since time.Time) {
		t.Helper()
		if got := owner(t, s).OrphanedSince; !got.Equal(since) {
			t.Errorf("orphaned since %s, want %s", got, since)
		}
	}
	for i := range 2 { // an owner is marked once all its secrets are
		one := owner(t, s)
		one.Secrets = one.Secrets[i : i+1]
		if err := s.MarkSecrets(t.Context(), one, first); err != nil {
			t.Fatal(err)
		}
		want(map[int]time.Time{1: first}[i])
	}
	mark(later)
	want(first)
	put(t, s, w.agent, "THREE") // a new secret starts the grace period again
	want(time.Time{})
	mark(later)
	want(later)
	mark(time.Time{})
	want(time.Time{})
	if labels := w.secret(t, w.variableID("ONE")).GetLabels(); labels["database"] != database {
		t.Errorf("labels after a mark = %v, want them as they were", labels)
	}
}

func TestDeleteSecrets_DeletesWhatWasListedAndNotChangedSince(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.openDatabase(t, database)
	put(t, s, w.agent, "ONE", "TWO")
	if err := s.MarkSecrets(t.Context(), owner(t, s), time.Now()); err != nil {
		t.Fatal(err)
	}
	listed := owner(t, s)
	if err := s.MarkSecrets(t.Context(), listed, time.Time{}); err != nil { // the agent came back after the list
		t.Fatal(err)
	}
	if err := s.DeleteSecrets(t.Context(), listed); err != nil {
		t.Errorf("DeleteSecrets after the mark was cleared: %v, want success without effect", err)
	}
	if left := len(owner(t, s).Secrets); left != 2 {
		t.Errorf("%d secrets are left after the mark was cleared, want 2", left)
	}
	put(t, s, w.agent, "THREE") // not listed yet
	for range 2 {
		listed = owner(t, s)
		listed.Secrets = listed.Secrets[:len(listed.Secrets)-1]
		if err := s.DeleteSecrets(t.Context(), listed); err != nil {
			t.Fatal(err)
		}
	}
	if left := len(owner(t, s).Secrets); left != 1 {
		t.Errorf("%d secrets are left, want the one that was not listed", left)
	}
}

func TestOrphans_AcceptSecretsThatAreGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.openDatabase(t, database)
	put(t, s, w.agent, "ONE")
	listed := owner(t, s)
	if err := s.DeleteSecrets(t.Context(), listed); err != nil {
		t.Fatal(err)
	}
	if err := s.DeleteSecrets(t.Context(), listed); err != nil {
		t.Errorf("DeleteSecrets of a secret that is gone: %v, want success", err)
	}
	if err := s.MarkSecrets(t.Context(), listed, time.Now()); err != nil {
		t.Errorf("MarkSecrets of a secret that is gone: %v, want success", err)
	}
}

func TestOrphans_ReportAStoreThatIsDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.openDatabase(t, database)
	put(t, s, w.agent, "ONE")
	listed := owner(t, s)
	w.server.Inject(func(string, string) rpc.Fault {
		return rpc.Fault{Before: status.Error(codes.Unavailable, "down")}
	})
	_, listErr := s.SecretOwners(t.Context())
	for call, err := range map[string]error{
		"SecretOwners": listErr, "MarkSecrets": s.MarkSecrets(t.Context(), listed, time.Now()),
		"DeleteSecrets": s.DeleteSecrets(t.Context(), listed),
	} {
		if !fault.Is(err, fault.Unavailable) {
			t.Errorf("%s: %v, want Unavailable", call, err)
		}
	}
}

// TestOrphans_OldListsChangeNothing: lists and secrets are shown as they were before a mark was cleared.
func TestOrphans_OldListsChangeNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.openDatabase(t, database)
	put(t, s, w.agent, "ONE")
	unmarked, since := owner(t, s), time.Now().Add(-25*time.Hour).Truncate(time.Second)
	if err := s.MarkSecrets(t.Context(), unmarked, since); err != nil {
		t.Fatal(err)
	}
	marked := owner(t, s)
	if err := s.MarkSecrets(t.Context(), unmarked, time.Now()); err != nil {
		t.Errorf("MarkSecrets with a list from before the mark: %v, want success", err)
	}
	if got := owner(t, s).OrphanedSince; !got.Equal(since) {
		t.Errorf("orphaned since %s after a second mark, want the first one, %s", got, since)
	}
	w.server.SetLag(time.Hour)
	if err := s.MarkSecrets(t.Context(), marked, time.Time{}); err != nil {
		t.Fatal(err)
	}
	if got := owner(t, s).OrphanedSince; !got.Equal(since) {
		t.Fatalf("orphaned since %s, want the list to lag behind the cleared mark", got)
	}
	if err := s.DeleteSecrets(t.Context(), owner(t, s)); err != nil {
		t.Errorf("DeleteSecrets with a list from before the mark was cleared: %v, want success without effect", err)
	}
	if err := s.MarkSecrets(t.Context(), owner(t, s), time.Time{}); fault.Code(err) != "secret_store_unavailable" {
		t.Errorf("a second clearing: %v, want it refused until the secret is shown as it is", err)
	}
	w.server.SetLag(0)
	if got := owner(t, s); len(got.Secrets) != 1 || !got.OrphanedSince.IsZero() {
		t.Errorf("owner = %+v, want one secret without a mark", got)
	}
}
