// Package credentialtest tests that an adapter keeps the promises of credential.SecretStore and
// credential.SecretWriter. It does not depend on the adapter.
package credentialtest

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"agents.example/controlplane/shared/credential"
	"agents.example/controlplane/shared/secret"
)

// maxValueBytes is the size of the largest value that the interface accepts.
const maxValueBytes = 65_536

// Store is a secret store with the ports of all its users.
type Store interface {
	credential.SecretStore
	credential.SecretWriter
}

// fixture is a store to test. If it lags, LatestVersion and VersionCreated answer from an old state.
type fixture struct {
	Store
	lags bool
	// key is the key of the secret whose versions a test uses.
	key string
}

// Run runs the suite. open returns a store. Several calls may return the same one, because each test uses
// other agents.
func Run(t *testing.T, open func(t *testing.T) Store) {
	t.Helper()
	run(t, func(t *testing.T) fixture { t.Helper(); return fixture{Store: open(t)} })
}

// RunLagging is Run for a store whose lists and metadata are too old to show the changes of a test.
func RunLagging(t *testing.T, open func(t *testing.T) Store) {
	t.Helper()
	run(t, func(t *testing.T) fixture { t.Helper(); return fixture{Store: open(t), lags: true} })
}

func run(t *testing.T, open func(t *testing.T) fixture) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, fixture){
		"credentials are generated once":            generatedOnce,
		"concurrent calls get the same credentials": concurrentEnsures,
		"agents have different credentials":         agentsDiffer,
		"versions keep their values":                versionsKeepValues,
		"values of any bytes up to the largest":     anyBytes,
		"similar keys are separate":                 similarKeys,
		"missing version":                           missingVersion,
		"concurrent puts add a version each":        concurrentPuts,
		"destroy removes the agent's secrets only":  destroyOneAgent,
		"destroy finds secrets without their keys":  destroyListed,
		"destroy many secrets":                      destroyMany,
		"secrets can be added again after destroy":  addAfterDestroy,
		"versions are looked up by number":          lookVersionsUp,
		"destroying versions keeps the others":      destroySomeVersions,
		"destroying versions of a missing secret":   destroyMissing,
		"version numbers are never reused":          numbersNotReused,
		"credentials are renewed":                   renewCredentials,

		"brokered: versions are looked up by number":        brokered(lookVersionsUp),
		"brokered: destroying versions keeps the others":    brokered(destroySomeVersions),
		"brokered: destroying versions of a missing secret": brokered(destroyMissing),
		"brokered: version numbers are never reused":        brokered(numbersNotReused),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := open(t)
			v.key = "TOKEN"
			test(t, v)
		})
	}
}

// brokered makes a test use a brokered secret.
func brokered(test func(*testing.T, fixture)) func(*testing.T, fixture) {
	return func(t *testing.T, v fixture) {
		v.key = secret.BrokeredKey("TOKEN")
		test(t, v)
	}
}

func generatedOnce(t *testing.T, v fixture) {
	a := uuid.NewString()
	first, version := ensure(t, v, a)
	if first.DashboardUsername != username || len(first.DashboardPassword) < 24 || len(first.APIKey) < 24 {
		t.Error("the credentials lack a user name, a password or a key")
	}
	if version < 1 {
		t.Errorf("version %d, want 1 or more: 0 means none", version)
	}
	again, same, err := v.EnsureCredentials(t.Context(), a, "another")
	if err != nil || again != first || same != version {
		t.Errorf("second EnsureCredentials = version %d, error %v, want the same credentials in version %d", same, err,
			version)
	}
}

func concurrentEnsures(t *testing.T, v fixture) {
	a := uuid.NewString()
	var (
		calls    sync.WaitGroup
		mu       sync.Mutex
		versions []int64
		distinct = map[credential.Credentials]bool{}
	)
	for range 12 {
		calls.Go(func() {
			c, version, err := v.EnsureCredentials(t.Context(), a, username)
			if err != nil {
				t.Errorf("EnsureCredentials: %v", err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			versions, distinct[c] = append(versions, version), true
		})
	}
	calls.Wait()
	_, later := ensure(t, v, a)
	if versions = slices.Compact(append(versions, later)); len(distinct) != 1 || len(versions) != 1 {
		t.Errorf("concurrent and later calls returned %d credentials in versions %v, want one", len(distinct), versions)
	}
}

func agentsDiffer(t *testing.T, v fixture) {
	one, _ := ensure(t, v, uuid.NewString())
	other, _ := ensure(t, v, uuid.NewString())
	if one.DashboardPassword == other.DashboardPassword || one.APIKey == other.APIKey {
		t.Error("two agents have the same credentials")
	}
}

func versionsKeepValues(t *testing.T, v fixture) {
	a := uuid.NewString()
	var versions []int64
	for i := range 3 {
		versions = append(versions, put(t, v, a, "TOKEN", fmt.Sprint("value ", i)))
	}
	if !slices.IsSorted(versions) || len(slices.Compact(slices.Clone(versions))) != 3 || versions[0] < 1 {
		t.Errorf("versions %v, want them to grow from 1 or more", versions)
	}
	for i, version := range versions {
		mustRead(t, v, a, "TOKEN", version, fmt.Sprint("value ", i))
	}
}

func anyBytes(t *testing.T, v fixture) {
	a := uuid.NewString()
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	for _, value := range []string{"\x00", "ünï", string(every), string(bytes.Repeat(every, maxValueBytes/256))} {
		mustRead(t, v, a, "TOKEN", put(t, v, a, "TOKEN", value), value)
	}
}

// similarKeys uses keys that differ little, and that a store might reserve.
func similarKeys(t *testing.T, v fixture) {
	a, other := uuid.NewString(), uuid.NewString()
	keys := []string{
		"TOKEN", "token", "TOKEN_", "_TOKEN", "_", "credentials", "env", "current", "latest",
		strings.Repeat("K", 128), secret.BrokeredKey("TOKEN"), secret.BrokeredKey("env"),
	}
	versions := map[string]int64{}
	for _, key := range keys {
		versions[key] = put(t, v, a, key, "value of "+key)
	}
	put(t, v, other, "TOKEN", "value of another agent")
	before, _ := ensure(t, v, a)
	for _, key := range keys {
		mustRead(t, v, a, key, versions[key], "value of "+key)
	}
	if after, _ := ensure(t, v, a); after != before {
		t.Error("a secret variable changed the credentials")
	}
}

func missingVersion(t *testing.T, v fixture) {
	a := uuid.NewString()
	mustMiss(t, v, a, "TOKEN", 1)
	version := put(t, v, a, "TOKEN", "value")
	mustMiss(t, v, a, "TOKEN", version+1)
	mustMiss(t, v, uuid.NewString(), "TOKEN", version)
}

func concurrentPuts(t *testing.T, v fixture) {
	a := uuid.NewString()
	var calls sync.WaitGroup
	var values sync.Map
	for i := range 8 {
		calls.Go(func() {
			value := fmt.Sprint("value ", i)
			version, err := v.Put(t.Context(), a, "TOKEN", []byte(value))
			if err != nil {
				t.Errorf("Put: %v", err)
				return
			}
			if _, twice := values.LoadOrStore(version, value); twice {
				t.Errorf("version %d was answered twice", version)
			}
		})
	}
	calls.Wait()
	values.Range(func(version, value any) bool {
		mustRead(t, v, a, "TOKEN", version.(int64), value.(string))
		return true
	})
}

func destroyOneAgent(t *testing.T, v fixture) {
	a, other := uuid.NewString(), uuid.NewString()
	version := put(t, v, a, "TOKEN", "value")
	brokered := put(t, v, a, secret.BrokeredKey("TOKEN"), "value")
	kept := put(t, v, other, "TOKEN", "kept")
	keptBrokered := put(t, v, other, secret.BrokeredKey("TOKEN"), "kept")
	ensure(t, v, a)
	credentials, _ := ensure(t, v, other)
	destroy(t, v, a, "TOKEN", secret.BrokeredKey("TOKEN"))
	mustMiss(t, v, a, "TOKEN", version)
	mustMiss(t, v, a, secret.BrokeredKey("TOKEN"), brokered)
	destroy(t, v, a, "TOKEN", "NEVER")
	destroy(t, v, uuid.NewString())
	mustRead(t, v, other, "TOKEN", kept, "kept")
	mustRead(t, v, other, secret.BrokeredKey("TOKEN"), keptBrokered, "kept")
	if after, _ := ensure(t, v, other); after != credentials {
		t.Error("another agent's credentials changed")
	}
}

// destroyListed destroys secrets whose keys the caller does not know.
func destroyListed(t *testing.T, v fixture) {
	if v.lags {
		t.Skip("the store's lists lag")
	}
	a := uuid.NewString()
	version, brokered := put(t, v, a, "TOKEN", "value"), put(t, v, a, secret.BrokeredKey("TOKEN"), "value")
	destroy(t, v, a)
	mustMiss(t, v, a, "TOKEN", version)
	mustMiss(t, v, a, secret.BrokeredKey("TOKEN"), brokered)
}

// destroyMany adds more secrets than a store lists in one call.
func destroyMany(t *testing.T, v fixture) {
	a := uuid.NewString()
	versions := map[string]int64{}
	for i := range 120 {
		key := fmt.Sprintf("TOKEN_%d", i)
		versions[key] = put(t, v, a, key, "value")
	}
	destroy(t, v, a, slices.Collect(maps.Keys(versions))...)
	for key, version := range versions {
		mustMiss(t, v, a, key, version)
	}
}

func addAfterDestroy(t *testing.T, v fixture) {
	a := uuid.NewString()
	former, _ := ensure(t, v, a)
	put(t, v, a, "TOKEN", "former")
	destroy(t, v, a, "TOKEN")
	if latter, _ := ensure(t, v, a); latter == former {
		t.Error("EnsureCredentials after Destroy returned the destroyed credentials, want new ones")
	}
	mustRead(t, v, a, "TOKEN", put(t, v, a, "TOKEN", "latter"), "latter")
}
