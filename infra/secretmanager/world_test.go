package secretmanager_test

import (
	"sync/atomic"
	"testing"
	"time"

	client "cloud.google.com/go/secretmanager/apiv1"
	"cloud.google.com/go/secretmanager/apiv1/secretmanagerpb"
	"github.com/google/uuid"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"agents.example/controlplane/emulators/rpc"
	"agents.example/controlplane/emulators/secretmanageremu"
	"agents.example/controlplane/infra/secretmanager"
	"agents.example/controlplane/shared/credential"
	"agents.example/controlplane/shared/credential/credentialtest"
)

const project = "control-plane-test"

func TestMain(m *testing.M) {
	// A library of the client starts this one when it is loaded, and never ends it.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"))
}

var (
	_ credential.SecretStore  = (*secretmanager.Store)(nil)
	_ credential.SecretWriter = (*secretmanager.Store)(nil)
)

func TestStore_Conformance(t *testing.T) {
	t.Parallel()
	credentialtest.Run(t, func(t *testing.T) credentialtest.Store {
		t.Helper()
		return newWorld(t).Store
	})
}

// The lists and metadata of the service are one hour old.
func TestStore_ConformanceWithOldLists(t *testing.T) {
	t.Parallel()
	credentialtest.RunLagging(t, func(t *testing.T) credentialtest.Store {
		t.Helper()
		w := newWorld(t)
		w.server.SetLag(time.Hour)
		return w.Store
	})
}

// world is an empty Secret Manager emulator with a store, a plain client to inspect it, and the id of an agent.
type world struct {
	*secretmanager.Store
	server *secretmanageremu.Server
	raw    *client.Client
	agent  string
}

func newWorld(t *testing.T, regions ...string) world {
	t.Helper()
	server, err := secretmanageremu.Start(t.Context(), secretmanageremu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := client.NewClient(t.Context(), server.ClientOptions()...)
	if err != nil {
		t.Fatal(err)
	}
	w := world{Store: open(t, server.Addr, regions...), server: server, raw: raw, agent: uuid.NewString()}
	t.Cleanup(func() {
		if err := raw.Close(); err != nil {
			t.Error(err)
		}
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// open opens a store and closes it in the cleanup.
func open(t *testing.T, endpoint string, regions ...string) *secretmanager.Store {
	t.Helper()
	return openWith(t, secretmanager.Options{Environment: "test", Endpoint: endpoint, Regions: regions})
}

// openWith opens a store in the project and closes it in the cleanup.
func openWith(t *testing.T, o secretmanager.Options) *secretmanager.Store {
	t.Helper()
	o.ProjectID = project
	s, err := secretmanager.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// secret reads a secret from outside.
func (w world) secret(t *testing.T, id string) *secretmanagerpb.Secret {
	t.Helper()
	s, err := w.raw.GetSecret(t.Context(),
		&secretmanagerpb.GetSecretRequest{Name: "projects/" + project + "/secrets/" + id})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// enabled counts the enabled versions of a secret from outside.
func (w world) enabled(t *testing.T, id string) int {
	t.Helper()
	n := 0
	for _, err := range w.raw.ListSecretVersions(t.Context(), &secretmanagerpb.ListSecretVersionsRequest{
		Parent: "projects/" + project + "/secrets/" + id, Filter: "state:ENABLED",
	}).All() {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

func (w world) credentialsID() string { return "test-agent-" + w.agent + "-credentials" }

func (w world) variableID(key string) string { return "test-agent-" + w.agent + "-env-" + key }

// loseOneAnswer makes the first call of a method take effect and fail.
func loseOneAnswer(w world, method string, code codes.Code) {
	var once atomic.Bool
	w.server.Inject(func(m, _ string) rpc.Fault {
		if m != method || !once.CompareAndSwap(false, true) {
			return rpc.Fault{}
		}
		return rpc.Fault{After: status.Error(code, "the answer is lost")}
	})
}
