package credentialtest

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"agents.example/controlplane/shared/fault"
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

// destroyVersions destroys versions twice: the second call must succeed, too.
func destroyVersions(t *testing.T, v Store, agentID, key string, from, before int64) {
	t.Helper()
	for range 2 {
		if err := v.DestroyVersions(t.Context(), agentID, key, from, before); err != nil {
			t.Fatalf("DestroyVersions %s %d..%d: %v", key, from, before-1, err)
		}
	}
}

// createdAt looks a version up. The time is zero for a version without a readable value.
func createdAt(t *testing.T, v Store, agentID, key string, version int64) (time.Time, bool) {
	t.Helper()
	created, found, err := v.VersionCreated(t.Context(), agentID, key, version)
	if err != nil {
		t.Fatalf("VersionCreated %s %d: %v", key, version, err)
	}
	return created, found
}

func mustExist(t *testing.T, v Store, agentID, key string, version int64, wantReadable bool) {
	t.Helper()
	if created, found := createdAt(t, v, agentID, key, version); !found || created.IsZero() == wantReadable {
		t.Errorf("VersionCreated %s %d = %v, %t, want it found, readable: %t", key, version, created, found,
			wantReadable)
	}
}

func lookVersionsUp(t *testing.T, v Store) {
	a := uuid.NewString()
	if n := latestVersion(t, v, a, "TOKEN"); n != 0 {
		t.Errorf("LatestVersion before any Put = %d, want 0", n)
	}
	if _, found := createdAt(t, v, a, "TOKEN", 1); found {
		t.Error("VersionCreated found a version before any Put")
	}
	var last time.Time
	for want := int64(1); want <= 3; want++ {
		if got := put(t, v, a, "TOKEN", "value"); got != want {
			t.Fatalf("Put number %d added version %d", want, got)
		}
		created, found := createdAt(t, v, a, "TOKEN", want)
		if !found || created.Before(last) {
			t.Errorf("VersionCreated %d = %v, %t, want a time, not before %v", want, created, found, last)
		}
		last = created
	}
	if _, found := createdAt(t, v, a, "TOKEN", 4); found {
		t.Error("VersionCreated found a version that was not added")
	}
	if n := latestVersion(t, v, a, "TOKEN"); n != 3 {
		t.Errorf("LatestVersion = %d, want 3", n)
	}
}

func destroySomeVersions(t *testing.T, v Store) {
	a := uuid.NewString()
	for i := range 5 {
		put(t, v, a, "TOKEN", fmt.Sprint(i+1))
	}
	other := put(t, v, a, "OTHER", "kept")
	destroyVersions(t, v, a, "TOKEN", 2, 4)
	for version, want := range map[int64]bool{1: true, 2: false, 3: false, 4: true, 5: true} {
		mustExist(t, v, a, "TOKEN", version, want)
		if want {
			mustRead(t, v, a, "TOKEN", version, fmt.Sprint(version))
		} else {
			mustMiss(t, v, a, "TOKEN", version)
		}
	}
	mustRead(t, v, a, "OTHER", other, "kept")
	destroyVersions(t, v, a, "TOKEN", 1, 5) // some are destroyed already
	mustRead(t, v, a, "TOKEN", 5, "5")
	destroyVersions(t, v, a, "TOKEN", 5, 5)
	mustRead(t, v, a, "TOKEN", 5, "5")
}

// destroyUnknownVersions destroys versions that the store does not know: that succeeds only if the whole secret is gone.
func destroyUnknownVersions(t *testing.T, v Store) {
	a := uuid.NewString()
	destroyVersions(t, v, a, "NEVER", 1, 3)
	put(t, v, a, "TOKEN", "1")
	if err := v.DestroyVersions(t.Context(), a, "TOKEN", 1, 3); !fault.Is(err, fault.Unavailable) {
		t.Errorf("DestroyVersions of a version that was not added = %v, want Unavailable", err)
	}
}

// numbersNotReused destroys all versions of a secret and adds one.
func numbersNotReused(t *testing.T, v Store) {
	a := uuid.NewString()
	last := put(t, v, a, "TOKEN", "1")
	destroyVersions(t, v, a, "TOKEN", last, last+1)
	if n := latestVersion(t, v, a, "TOKEN"); n != last {
		t.Errorf("LatestVersion after all were destroyed = %d, want %d", n, last)
	}
	if again := put(t, v, a, "TOKEN", "2"); again != last+1 {
		t.Errorf("Put returned version %d, want %d", again, last+1)
	}
}

// renewCredentials adds credentials and destroys the former ones.
func renewCredentials(t *testing.T, v Store) {
	a := uuid.NewString()
	former, one := ensure(t, v, a)
	two, err := v.AddCredentials(t.Context(), a, username)
	if err != nil || two != one+1 || latestVersion(t, v, a, secret.CredentialsKey) != two {
		t.Fatalf("AddCredentials = version %d, error %v, want the latest version, after %d", two, err, one)
	}
	mustExist(t, v, a, secret.CredentialsKey, two, true)
	latter, err := v.GetCredentials(t.Context(), a, two)
	if err != nil || latter == former || latter.DashboardUsername != username ||
		latter.DashboardPassword == former.DashboardPassword ||
		latter.APIKey == former.APIKey {
		t.Fatalf("GetCredentials of the new version returned the former credentials, incomplete ones or an error: %v",
			err)
	}
	if c, err := v.GetCredentials(t.Context(), a, one); err != nil || c != former {
		t.Errorf("GetCredentials of the former version: %v, want them until they are destroyed", err)
	}
	destroyVersions(t, v, a, secret.CredentialsKey, one, two)
	if c, err := v.GetCredentials(t.Context(), a, two); err != nil || c != latter {
		t.Errorf("GetCredentials of the new version after the former one was destroyed: %v", err)
	}
	if _, err := v.GetCredentials(t.Context(), a, one); err == nil {
		t.Error("GetCredentials of the destroyed version succeeded, want an error")
	}
}
