package secretmanager_test

import (
	"slices"
	"strings"
	"testing"

	"cloud.google.com/go/secretmanager/apiv1/secretmanagerpb"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"agents.example/controlplane/emulators/rpc"
	"agents.example/controlplane/infra/secretmanager"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/secret"
)

// TestValue_IsThatOfTheBrokeredKey: a secret of the same name that the agent has is another one.
func TestValue_IsThatOfTheBrokeredKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if _, err := w.Put(t.Context(), w.agent, "TOKEN", []byte("of the container")); err != nil {
		t.Fatal(err)
	}
	version, err := w.Put(t.Context(), w.agent, secret.BrokeredKey("TOKEN"), []byte("of the gate"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := w.Value(t.Context(), w.agent, "TOKEN", version); err != nil || got != "of the gate" {
		t.Errorf("got %q, %v; want that of the gate", got, err)
	}
	if got, err := w.Value(t.Context(), w.agent, "TOKEN", version+1); fault.Code(err) != "secret_value_unavailable" {
		t.Errorf("a version that does not exist: %q, %v", got, err)
	}
	if got, err := w.Value(t.Context(), w.agent, "NO_TOKEN", 1); fault.Code(err) != "secret_value_unavailable" {
		t.Errorf("a key that does not exist: %q, %v", got, err)
	}
}

func TestReadNamed_ReadsSecretsOfTheDeployment(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	automatic := &secretmanagerpb.Replication{Replication: &secretmanagerpb.Replication_Automatic_{
		Automatic: &secretmanagerpb.Replication_Automatic{},
	}}
	s, err := w.raw.CreateSecret(t.Context(), &secretmanagerpb.CreateSecretRequest{
		Parent: "projects/" + project, SecretId: "test-gate-ca",
		Secret: &secretmanagerpb.Secret{Replication: automatic},
	})
	if err != nil {
		t.Fatal(err)
	}
	added, err := w.raw.AddSecretVersion(t.Context(), &secretmanagerpb.AddSecretVersionRequest{
		Parent: s.GetName(), Payload: &secretmanagerpb.SecretPayload{Data: []byte("the cell's")},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := w.ReadNamed(t.Context(), added.GetName()); err != nil || string(got) != "the cell's" {
		t.Errorf("got %q, %v; want the cell's", got, err)
	}
	if got, err := w.ReadNamed(t.Context(), s.GetName()+"/versions/7"); fault.Code(err) != "secret_value_unavailable" {
		t.Errorf("a version that does not exist: %q, %v", got, err)
	}
}

func TestStore_LabelsAndReplicatesSecrets(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ regions, want []string }{
		"automatic": {}, "regions": {
			regions: []string{"europe-west1", "europe-west4"},
			want:    []string{"europe-west1", "europe-west4"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, c.regions...)
			if _, err := w.Put(t.Context(), w.agent, "API_TOKEN", []byte("value")); err != nil {
				t.Fatal(err)
			}
			if _, _, err := w.EnsureCredentials(t.Context(), w.agent, "admin"); err != nil {
				t.Fatal(err)
			}
			put(t, w.Store, w.agent, secret.BrokeredKey("API_TOKEN"))
			for id, kind := range map[string]string{
				"test-inject-" + w.agent + "-API_TOKEN": "inject",
				w.variableID("API_TOKEN"):               "env",
				w.credentialsID():                       "credentials",
			} {
				made := w.secret(t, id)
				want := map[string]string{
					"managed-by": "agent-control-plane", "environment": "test", "agent-id": w.agent, "kind": kind,
				}
				if diff := cmp.Diff(want, made.GetLabels()); diff != "" {
					t.Errorf("labels of %s (-want +got):\n%s", id, diff)
				}
				var regions []string
				for _, r := range made.GetReplication().GetUserManaged().GetReplicas() {
					regions = append(regions, r.GetLocation())
				}
				if !slices.Equal(regions, c.want) || (made.GetReplication().GetAutomatic() != nil) != (c.want == nil) {
					t.Errorf("%s is replicated to %v, want %v", id, regions, c.want)
				}
				version, err := w.raw.GetSecretVersion(t.Context(),
					&secretmanagerpb.GetSecretVersionRequest{Name: made.GetName() + "/versions/1"})
				if err != nil || !version.GetClientSpecifiedPayloadChecksum() {
					t.Errorf("version 1 of %s came without a checksum, %v", id, err)
				}
			}
		})
	}
}

func TestStore_MakesAsFewCallsAsNeeded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	last := map[string]int{}
	step := func(doing string, err error, want map[string]int) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", doing, err)
		}
		calls, now := map[string]int{}, w.server.Calls()
		for method, n := range now {
			if n > last[method] {
				calls[method] = n - last[method]
			}
		}
		last = now
		if diff := cmp.Diff(want, calls); diff != "" {
			t.Errorf("%s: calls (-want +got):\n%s", doing, diff)
		}
	}
	put := func() error { _, err := w.Put(t.Context(), w.agent, "TOKEN", []byte("value")); return err }
	ensure := func() error { _, _, err := w.EnsureCredentials(t.Context(), w.agent, "admin"); return err }
	read := func() error { _, err := w.Read(t.Context(), w.agent, "TOKEN", 1); return err }
	step("first put", put(), map[string]int{"AddSecretVersion": 2, "CreateSecret": 1}) // the first add finds no secret
	step("next put", put(), map[string]int{"AddSecretVersion": 1})
	step("read", read(), map[string]int{"AccessSecretVersion": 1})
	step("first credentials", ensure(), map[string]int{
		"AccessSecretVersion": 2, "AddSecretVersion": 1, "CreateSecret": 1,
	})
	step("credentials", ensure(), map[string]int{"AccessSecretVersion": 1})
	step("destroy", w.Destroy(t.Context(), w.agent, nil), map[string]int{"ListSecrets": 2, "DeleteSecret": 2})
	step("destroy again", w.Destroy(t.Context(), w.agent, nil), map[string]int{"ListSecrets": 1, "DeleteSecret": 1})
}

func TestPut_IsNotRetriedAfterALostAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if _, err := w.Put(t.Context(), w.agent, "TOKEN", []byte("one")); err != nil {
		t.Fatal(err)
	}
	for _, code := range []codes.Code{
		codes.Unavailable, codes.ResourceExhausted, codes.Aborted, codes.Internal,
		codes.DeadlineExceeded,
	} {
		before, there := w.server.Calls()["AddSecretVersion"], w.enabled(t, w.variableID("TOKEN"))
		w.server.Inject(func(string,
			string,
		) rpc.Fault {
			return rpc.Fault{After: status.Error(code, "the answer is lost")}
		})
		_, err := w.Put(t.Context(), w.agent, "TOKEN", []byte("two"))
		w.server.Inject(nil)
		if !fault.Is(err, fault.Unavailable) {
			t.Errorf("%v: got %v, want Unavailable", code, err)
		}
		if got := w.server.Calls()["AddSecretVersion"] - before; got != 1 {
			t.Errorf("%v: AddSecretVersion was called %d times, want 1", code, got)
		}
		if got := w.enabled(t, w.variableID("TOKEN")); got != there+1 {
			t.Errorf("%v: %d versions, want %d", code, got, there+1)
		}
	}
}

func TestStore_RefusesInvalidAgentIDsKeysAndValues(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, agent := range []string{"", "a", "x" + w.agent, strings.ToUpper(w.agent), w.agent + "-env-A", w.agent +
		" OR labels.kind=env", "../" + w.agent[3:]} {
		_, _, ensureErr := w.EnsureCredentials(t.Context(), agent, "admin")
		_, putErr := w.Put(t.Context(), agent, "TOKEN", []byte("value"))
		_, readErr := w.Read(t.Context(), agent, "TOKEN", 1)
		for what, err := range map[string]error{
			"EnsureCredentials": ensureErr, "Put": putErr, "Read": readErr,
			"Destroy": w.Destroy(t.Context(), agent, nil),
		} {
			if fault.From(err) == nil || fault.From(err).Kind != fault.Internal {
				t.Errorf("%s of agent %q: %v, want an error that is a defect", what, agent, err)
			}
		}
	}
	for _, key := range []string{
		"", "1A", "A-B", "A/versions/1", "A.B", strings.Repeat("K", 129), "ÄRGER", secret.BrokeredKey(""),
		secret.BrokeredKey("A-B"), secret.BrokeredKey(secret.BrokeredKey("A")),
	} {
		if _, err := w.Put(t.Context(), w.agent, key, []byte("value")); err == nil {
			t.Errorf("key %q was taken", key)
		}
	}
	for _, value := range [][]byte{nil, make([]byte, secretmanager.MaxValueBytes+1)} {
		if _, err := w.Put(t.Context(), w.agent, "TOKEN", value); err == nil {
			t.Errorf("a value of %d bytes was taken", len(value))
		}
	}
	if calls := w.server.Calls(); len(calls) > 0 {
		t.Errorf("the service was called: %v", calls)
	}
}

// TestPutFirst_MakesNoCallThatFails counts writes, of which a project has few. Put of a new secret makes one more.
func TestPutFirst_MakesNoCallThatFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, want := range []int64{1, 2} { // the second time, the secret exists
		version, err := w.PutFirst(t.Context(), w.agent, "TOKEN", []byte("value"))
		if err != nil || version != want {
			t.Fatalf("PutFirst = %d, %v, want version %d", version, err, want)
		}
		if want == 1 {
			calls := map[string]int{"CreateSecret": 1, "AddSecretVersion": 1}
			if diff := cmp.Diff(calls, w.server.Calls()); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
		}
	}
}
