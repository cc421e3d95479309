package credentialtest

import (
	"slices"
	"testing"

	"github.com/google/uuid"

	"agents.example/controlplane/shared/secret"
)

func newest(t *testing.T, v Store, agentID, key string) int64 {
	t.Helper()
	n, err := v.LatestVersion(t.Context(), agentID, key)
	if err != nil {
		t.Fatalf("Newest %s: %v", key, err)
	}
	return n
}

func prune(t *testing.T, v Store, agentID, key string, before int64) {
	t.Helper()
	for range 2 {
		if err := v.DestroyVersionsBefore(t.Context(), agentID, key, before); err != nil {
			t.Fatalf("Prune %s before %d: %v", key, before, err)
		}
	}
}

func mustHave(t *testing.T, v Store, agentID, key string, after int64, want ...int64) {
	t.Helper()
	if got, err := v.VersionsAfter(t.Context(), agentID, key, after); err != nil || !slices.Equal(got, want) {
		t.Errorf("%s has the versions %v after %d, %v; want %v", key, got, after, err, want)
	}
}

func toldByNumber(t *testing.T, v Store) {
	a := uuid.NewString()
	if n := newest(t, v, a, "TOKEN"); n != 0 {
		t.Errorf("the newest version of nothing is %d", n)
	}
	mustHave(t, v, a, "TOKEN", 0)
	one, two, three := put(t, v, a, "TOKEN", "1"), put(t, v, a, "TOKEN", "2"), put(t, v, a, "TOKEN", "3")
	put(t, v, a, "OTHER", "x")
	if n := newest(t, v, a, "TOKEN"); n != three {
		t.Errorf("the newest version is %d, want %d", n, three)
	}
	mustHave(t, v, a, "TOKEN", 0, one, two, three)
	mustHave(t, v, a, "TOKEN", one, two, three)
	mustHave(t, v, a, "TOKEN", three)
}

func pruned(t *testing.T, v Store) {
	a := uuid.NewString()
	one, two, three := put(t, v, a, "TOKEN", "1"), put(t, v, a, "TOKEN", "2"), put(t, v, a, "TOKEN", "3")
	other := put(t, v, a, "OTHER", "kept")
	prune(t, v, a, "TOKEN", three)
	mustMiss(t, v, a, "TOKEN", one)
	mustMiss(t, v, a, "TOKEN", two)
	mustRead(t, v, a, "TOKEN", three, "3")
	mustRead(t, v, a, "OTHER", other, "kept")
	mustHave(t, v, a, "TOKEN", 0, three)
	prune(t, v, a, "NEVER", 1)
}

// neverAgain has a secret lose all that it had.
func neverAgain(t *testing.T, v Store) {
	a := uuid.NewString()
	last := put(t, v, a, "TOKEN", "1")
	prune(t, v, a, "TOKEN", last+1)
	mustHave(t, v, a, "TOKEN", 0)
	if n := newest(t, v, a, "TOKEN"); n != last {
		t.Errorf("the newest version is %d after all were destroyed, want %d", n, last)
	}
	if again := put(t, v, a, "TOKEN", "2"); again <= last {
		t.Errorf("version %d was given a second time", again)
	}
}

// renewed adds credentials, which are in force only when the former ones are pruned.
func renewed(t *testing.T, v Store) {
	a := uuid.NewString()
	former, one := ensure(t, v, a)
	two, err := v.AddCredentials(t.Context(), a, username)
	if err != nil || two <= one || newest(t, v, a, secret.CredentialsKey) != two {
		t.Fatalf("Renew: version %d after %d, %v", two, one, err)
	}
	mustHave(t, v, a, secret.CredentialsKey, one, two)
	latter, err := v.GetCredentials(t.Context(), a, two)
	if err != nil || latter == former || latter.DashboardUsername != username ||
		latter.DashboardPassword == former.DashboardPassword ||
		latter.APIKey == former.APIKey {
		t.Fatalf("the new credentials are the former ones, or none: %v", err)
	}
	if c, version := ensure(t, v, a); c != former || version != one {
		t.Error("new credentials were in force at once")
	}
	if c, err := v.GetCredentials(t.Context(), a, one); err != nil || c != former {
		t.Errorf("the former credentials can't be read: %v", err)
	}
	prune(t, v, a, secret.CredentialsKey, two)
	if c, version := ensure(t, v, a); c != latter || version != two {
		t.Error("the new credentials are not in force")
	}
	if _, err := v.GetCredentials(t.Context(), a, one); err == nil {
		t.Error("the former credentials can be read")
	}
}
