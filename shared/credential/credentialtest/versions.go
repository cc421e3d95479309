package credentialtest

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"agents.example/controlplane/shared/secret"
)

// wantLatest checks LatestVersion. A store that lags may answer less.
func wantLatest(t *testing.T, v fixture, agentID, key string, want int64) {
	t.Helper()
	n, err := v.LatestVersion(t.Context(), agentID, key)
	if err != nil || n > want || n < want && !v.lags {
		t.Errorf("LatestVersion of %s = %d, %v, want %d", key, n, err, want)
	}
}

// destroyVersions destroys versions twice: the second call must succeed, too.
func destroyVersions(t *testing.T, v fixture, agentID, key string, from, before int64) {
	t.Helper()
	for range 2 {
		if err := v.DestroyVersions(t.Context(), agentID, key, from, before); err != nil {
			t.Fatalf("DestroyVersions %s %d..%d: %v", key, from, before-1, err)
		}
	}
}

// mustExist looks a version up. A store that lags may not find it, and may still show a value that is destroyed.
func mustExist(t *testing.T, v fixture, agentID, key string, version int64, wantReadable bool) (created time.Time) {
	t.Helper()
	created, found, err := v.VersionCreated(t.Context(), agentID, key, version)
	if err != nil || !v.lags && (!found || created.IsZero() == wantReadable) {
		t.Errorf("VersionCreated %s %d = %v, %t, %v, want it found, readable: %t", key, version, created, found, err,
			wantReadable)
	}
	return created
}

func mustNotExist(t *testing.T, v fixture, agentID, key string, version int64) {
	t.Helper()
	if _, found, err := v.VersionCreated(t.Context(), agentID, key, version); err != nil || found {
		t.Errorf("VersionCreated %s %d = %t, %v, want it not found", key, version, found, err)
	}
}

func lookVersionsUp(t *testing.T, v fixture) {
	a := uuid.NewString()
	wantLatest(t, v, a, v.key, 0)
	mustNotExist(t, v, a, v.key, 1)
	var last time.Time
	for want := int64(1); want <= 3; want++ {
		if got := put(t, v, a, v.key, "value"); got != want {
			t.Fatalf("Put number %d added version %d", want, got)
		}
		created := mustExist(t, v, a, v.key, want, true)
		if created.Before(last) {
			t.Errorf("version %d was created at %v, want not before %v", want, created, last)
		}
		last = created
	}
	mustNotExist(t, v, a, v.key, 4)
	wantLatest(t, v, a, v.key, 3)
}

func destroySomeVersions(t *testing.T, v fixture) {
	a := uuid.NewString()
	for i := range 5 {
		put(t, v, a, v.key, fmt.Sprint(i+1))
	}
	other := put(t, v, a, "OTHER", "kept")
	destroyVersions(t, v, a, v.key, 2, 4)
	for version, want := range map[int64]bool{1: true, 2: false, 3: false, 4: true, 5: true} {
		mustExist(t, v, a, v.key, version, want)
		if want {
			mustRead(t, v, a, v.key, version, fmt.Sprint(version))
		} else {
			mustMiss(t, v, a, v.key, version)
		}
	}
	mustRead(t, v, a, "OTHER", other, "kept")
	destroyVersions(t, v, a, v.key, 1, 5) // some are destroyed already
	mustRead(t, v, a, v.key, 5, "5")
	destroyVersions(t, v, a, v.key, 5, 5)
	mustRead(t, v, a, v.key, 5, "5")
}

func destroyMissing(t *testing.T, v fixture) {
	a := uuid.NewString()
	destroyVersions(t, v, a, "NEVER", 1, 3)
	put(t, v, a, v.key, "1")
	destroy(t, v, a, v.key)
	destroyVersions(t, v, a, v.key, 1, 2)
}

// numbersNotReused destroys all versions of a secret and adds one.
func numbersNotReused(t *testing.T, v fixture) {
	a := uuid.NewString()
	last := put(t, v, a, v.key, "1")
	destroyVersions(t, v, a, v.key, last, last+1)
	wantLatest(t, v, a, v.key, last)
	if again := put(t, v, a, v.key, "2"); again != last+1 {
		t.Errorf("Put returned version %d, want %d", again, last+1)
	}
}

// renewCredentials adds credentials and destroys the former ones.
func renewCredentials(t *testing.T, v fixture) {
	a := uuid.NewString()
	former, one := ensure(t, v, a)
	two, err := v.AddCredentials(t.Context(), a, username)
	if err != nil || two != one+1 {
		t.Fatalf("AddCredentials = version %d, error %v, want %d", two, err, one+1)
	}
	wantLatest(t, v, a, secret.CredentialsKey, two)
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
