package credentialtest

import (
	"slices"
	"testing"

	"github.com/google/uuid"

	"agents.example/controlplane/shared/secret"
)

func latestVersion(t *testing.T, v Store, agentID, key string) int64 {
	t.Helper()
	n, err := v.LatestVersion(t.Context(), agentID, key)
	if err != nil {
		t.Fatalf("LatestVersion of %s: %v", key, err)
	}
	return n
}

// destroyBefore destroys old versions twice: the second call must succeed, too.
func destroyBefore(t *testing.T, v Store, agentID, key string, before int64) {
	t.Helper()
	for range 2 {
		if err := v.DestroyVersionsBefore(t.Context(), agentID, key, before); err != nil {
			t.Fatalf("DestroyVersionsBefore %s %d: %v", key, before, err)
		}
	}
}

func mustHave(t *testing.T, v Store, agentID, key string, after int64, want ...int64) {
	t.Helper()
	if got, err := v.VersionsAfter(t.Context(), agentID, key, after); err != nil || !slices.Equal(got, want) {
		t.Errorf("VersionsAfter %s %d = %v, %v, want %v", key, after, got, err, want)
	}
}

func listVersions(t *testing.T, v Store) {
	a := uuid.NewString()
	if n := latestVersion(t, v, a, "TOKEN"); n != 0 {
		t.Errorf("LatestVersion before any Put = %d, want 0", n)
	}
	mustHave(t, v, a, "TOKEN", 0)
	one, two, three := put(t, v, a, "TOKEN", "1"), put(t, v, a, "TOKEN", "2"), put(t, v, a, "TOKEN", "3")
	put(t, v, a, "OTHER", "x")
	if n := latestVersion(t, v, a, "TOKEN"); n != three {
		t.Errorf("LatestVersion = %d, want %d", n, three)
	}
	mustHave(t, v, a, "TOKEN", 0, one, two, three)
	mustHave(t, v, a, "TOKEN", one, two, three)
	mustHave(t, v, a, "TOKEN", three)
}

func destroyOldVersions(t *testing.T, v Store) {
	a := uuid.NewString()
	one, two, three := put(t, v, a, "TOKEN", "1"), put(t, v, a, "TOKEN", "2"), put(t, v, a, "TOKEN", "3")
	other := put(t, v, a, "OTHER", "kept")
	destroyBefore(t, v, a, "TOKEN", three)
	mustMiss(t, v, a, "TOKEN", one)
	mustMiss(t, v, a, "TOKEN", two)
	mustRead(t, v, a, "TOKEN", three, "3")
	mustRead(t, v, a, "OTHER", other, "kept")
	mustHave(t, v, a, "TOKEN", 0, three)
	destroyBefore(t, v, a, "NEVER", 1)
}

// numbersNotReused destroys all versions of a secret and adds one.
func numbersNotReused(t *testing.T, v Store) {
	a := uuid.NewString()
	last := put(t, v, a, "TOKEN", "1")
	destroyBefore(t, v, a, "TOKEN", last+1)
	mustHave(t, v, a, "TOKEN", 0)
	if n := latestVersion(t, v, a, "TOKEN"); n != last {
		t.Errorf("LatestVersion after all were destroyed = %d, want %d", n, last)
	}
	if again := put(t, v, a, "TOKEN", "2"); again <= last {
		t.Errorf("Put returned version %d, want one after %d", again, last)
	}
}

// renewCredentials adds credentials, which are in force only once the former ones are destroyed.
func renewCredentials(t *testing.T, v Store) {
	a := uuid.NewString()
	former, one := ensure(t, v, a)
	two, err := v.AddCredentials(t.Context(), a, username)
	if err != nil || two <= one || latestVersion(t, v, a, secret.CredentialsKey) != two {
		t.Fatalf("AddCredentials = version %d, error %v, want the latest version, after %d", two, err, one)
	}
	mustHave(t, v, a, secret.CredentialsKey, one, two)
	latter, err := v.GetCredentials(t.Context(), a, two)
	if err != nil || latter == former || latter.DashboardUsername != username ||
		latter.DashboardPassword == former.DashboardPassword ||
		latter.APIKey == former.APIKey {
		t.Fatalf("GetCredentials of the new version returned the former credentials, incomplete ones or an error: %v",
			err)
	}
	if c, version := ensure(t, v, a); c != former || version != one {
		t.Error("the new credentials were in force before the former ones were destroyed")
	}
	if c, err := v.GetCredentials(t.Context(), a, one); err != nil || c != former {
		t.Errorf("GetCredentials of the former version: %v, want them until they are destroyed", err)
	}
	destroyBefore(t, v, a, secret.CredentialsKey, two)
	if c, version := ensure(t, v, a); c != latter || version != two {
		t.Error("the new credentials are not in force after the former ones were destroyed")
	}
	if _, err := v.GetCredentials(t.Context(), a, one); err == nil {
		t.Error("GetCredentials of the destroyed version succeeded, want an error")
	}
}
