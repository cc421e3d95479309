package secretmanageremu_test

import (
	"testing"
	"time"

	"cloud.google.com/go/secretmanager/apiv1/secretmanagerpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
)

// names lists the secrets, and versions those of a secret.
func (f secretFixture) names() (found []string) {
	f.Helper()
	for s, err := range f.ListSecrets(f.Context(), &secretmanagerpb.ListSecretsRequest{Parent: project}).All() {
		if err != nil {
			f.Fatal(err)
		}
		found = append(found, s.Name)
	}
	return found
}

func (f secretFixture) states(secret string) (found []secretmanagerpb.SecretVersion_State) {
	f.Helper()
	for v, err := range f.ListSecretVersions(f.Context(),
		&secretmanagerpb.ListSecretVersionsRequest{Parent: secret}).All() {
		if err != nil {
			f.wantCode("list versions", err, codes.NotFound)
			return nil
		}
		found = append(found, v.State)
	}
	return found
}

func TestLag_HidesChangesFromListsAndAliases(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	old := f.create("old", nil)
	f.add(old.Name, "one")
	f.server.SetLag(time.Hour)

	f.add(old.Name, "two")
	f.create("new", nil)
	made, err := f.GetSecret(f.Context(), &secretmanagerpb.GetSecretRequest{Name: old.Name})
	if err != nil {
		t.Fatal(err)
	}
	made.VersionAliases = map[string]int64{"current": 2}
	if _, err := f.UpdateSecret(f.Context(), &secretmanagerpb.UpdateSecretRequest{
		Secret: made, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"version_aliases"}},
	}); err != nil {
		t.Fatal(err)
	}
	if got := f.names(); len(got) != 1 || got[0] != old.Name {
		t.Errorf("listed secrets = %v, want %s only", got, old.Name)
	}
	if got := f.states(old.Name); len(got) != 1 {
		t.Errorf("listed versions = %v, want one", got)
	}
	for id, want := range map[string]string{"1": "one", "2": "two", "latest": "one"} {
		if _, data, err := f.access(old.Name + "/versions/" + id); err != nil || data != want {
			t.Errorf("access %s = %q, %v, want %q", id, data, err, want)
		}
	}
	_, _, err = f.access(old.Name + "/versions/current")
	f.wantCode("access a new alias", err, codes.NotFound)
	_, err = f.GetSecretVersion(f.Context(),
		&secretmanagerpb.GetSecretVersionRequest{Name: old.Name + "/versions/2"})
	f.wantCode("get a new version", err, codes.NotFound)

	f.server.Advance(2 * time.Hour)
	if got := f.names(); len(got) != 2 {
		t.Errorf("listed secrets after the lag = %v, want both", got)
	}
	if got := f.states(old.Name); len(got) != 2 {
		t.Errorf("listed versions after the lag = %v, want both", got)
	}
	if _, data, err := f.access(old.Name + "/versions/current"); err != nil || data != "two" {
		t.Errorf("access the alias after the lag = %q, %v, want two", data, err)
	}
}

func TestLag_ShowsWhatIsDestroyed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.create("s", nil)
	v := f.add(s.Name, "one")
	f.server.SetLag(time.Hour)
	if _, err := f.DestroySecretVersion(f.Context(),
		&secretmanagerpb.DestroySecretVersionRequest{Name: v.Name}); err != nil {
		t.Fatal(err)
	}
	if got := f.states(s.Name); len(got) != 1 || got[0] != secretmanagerpb.SecretVersion_ENABLED {
		t.Errorf("listed versions = %v, want the former state", got)
	}
	_, _, err := f.access(v.Name)
	f.wantCode("access a destroyed version", err, codes.FailedPrecondition)
	if err := f.DeleteSecret(f.Context(), &secretmanagerpb.DeleteSecretRequest{Name: s.Name}); err != nil {
		t.Fatal(err)
	}
	if got := f.names(); len(got) != 1 {
		t.Errorf("listed secrets = %v, want the deleted one", got)
	}
	f.wantCode("delete again", f.DeleteSecret(f.Context(), &secretmanagerpb.DeleteSecretRequest{Name: s.Name}),
		codes.NotFound)
	f.server.Advance(2 * time.Hour)
	if got := f.names(); len(got) != 0 {
		t.Errorf("listed secrets after the lag = %v, want none", got)
	}
}
