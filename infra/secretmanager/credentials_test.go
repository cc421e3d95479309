package secretmanager_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"agents.example/controlplane/emulators/rpc"
	"agents.example/controlplane/shared/credential"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/secret"
)

// Calls of a former process added versions and ended.
func TestEnsureCredentials_UsesTheFirstVersion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 3 {
		if _, err := w.AddCredentials(t.Context(), w.agent, fmt.Sprint("user ", i+1)); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		got, version, err := w.EnsureCredentials(t.Context(), w.agent, "admin")
		if err != nil || version != 1 || got.DashboardUsername != "user 1" {
			t.Errorf("version %d of %q, %v, want 1 of user 1", version, got.DashboardUsername, err)
		}
	}
}

// Twelve calls find no version and add one each. They agree on the first, and destroy the others.
func TestEnsureCredentials_ConcurrentCallsAgreeOnOneVersion(t *testing.T) {
	t.Parallel()
	const callers = 12
	w := newWorld(t)
	var arrived sync.WaitGroup
	arrived.Add(callers)
	var additions atomic.Int64
	w.server.Inject(func(method, _ string) rpc.Fault {
		if method == "AddSecretVersion" && additions.Add(1) <= callers {
			arrived.Done()
			arrived.Wait()
		}
		return rpc.Fault{}
	})
	answers := make(chan credential.Credentials, callers)
	var calls sync.WaitGroup
	for range callers {
		calls.Go(func() {
			c, _, err := w.EnsureCredentials(t.Context(), w.agent, "admin")
			if err != nil {
				t.Errorf("EnsureCredentials: %v", err)
			}
			answers <- c
		})
	}
	calls.Wait()
	w.server.Inject(nil)
	want, _, err := w.EnsureCredentials(t.Context(), w.agent, "admin")
	if err != nil {
		t.Fatal(err)
	}
	for range callers {
		if got := <-answers; got != want {
			t.Error("a racing call answered other credentials")
		}
	}
	if latest, err := w.LatestVersion(t.Context(), w.agent, secret.CredentialsKey); err != nil || latest != callers {
		t.Errorf("the latest version is %d, %v, want %d: the race did not happen", latest, err, callers)
	}
	if got := w.enabled(t, w.credentialsID()); got != 1 {
		t.Errorf("%d versions are enabled, want 1", got)
	}
}

// If the answer of any one call is lost and the operation is retried, one version is left.
func TestEnsureCredentials_LostAnswersLeaveOneVersion(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"CreateSecret", "AddSecretVersion", "AccessSecretVersion"} {
		for _, code := range []codes.Code{codes.Unavailable, codes.DeadlineExceeded} {
			t.Run(method+"/"+code.String(), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				w.server.SetLag(time.Hour)
				loseOneAnswer(w, method, code)
				first, _, err := w.EnsureCredentials(t.Context(), w.agent, "admin")
				if err != nil && fault.Code(err) != "secret_store_unavailable" {
					t.Errorf("EnsureCredentials: %v, want secret_store_unavailable or none", err)
				}
				second, version, repeatedErr := w.EnsureCredentials(t.Context(), w.agent, "admin")
				if repeatedErr != nil || version != 1 || err == nil && first != second {
					t.Errorf("repeated: version %d, %v, want the first", version, repeatedErr)
				}
				w.server.SetLag(0)
				if n, err := w.LatestVersion(t.Context(), w.agent, secret.CredentialsKey); err != nil || n != 1 {
					t.Errorf("the latest version is %d, %v, want 1", n, err)
				}
			})
		}
	}
}
