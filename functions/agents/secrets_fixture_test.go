package agents_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"agents.example/controlplane/emulators/rpc"
	"agents.example/controlplane/functions/backendtest"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/credential"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/idempotency"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/provisioning"
	"agents.example/controlplane/shared/secret"
	"agents.example/controlplane/shared/secretwrite"
)

// stores is a backend with a clock that the test moves, for the control plane and for the secret store. The lists of
// the secret store are older than the test.
type stores struct {
	*backendtest.Backend
	ahead time.Duration
}

func newStores(t *testing.T) *stores {
	t.Helper()
	s := &stores{Backend: backendtest.New(t)}
	s.SetPlan(t, org, plan.Enterprise)
	return s
}

func (s *stores) now() time.Time { return time.Now().Add(s.ahead) }

func (s *stores) advance(d time.Duration) {
	s.ahead += d
	s.SecretManager.Advance(d)
}

// service is the writer of one request.
func (s *stores) service() secretwrite.Service {
	return secretwrite.Service{Agents: s.Agents, Secrets: s.SecretWriter, Now: s.now}
}

// caller is the context of an admin's request. With a key, requests are idempotent.
func caller(t *testing.T, key string) context.Context {
	t.Helper()
	c := &call.Call{
		Caller: identity.Caller{ID: "user", Type: identity.Session, OrganizationID: org, Role: identity.RoleAdmin},
		Entry:  audit.NewCallEntry(),
	}
	if key != "" {
		c.Attempt = idempotency.New(org, key, idempotency.Request{Method: "PUT", Path: "/"})
	}
	return call.With(t.Context(), c)
}

// put sets TOKEN, or deletes it if the value is empty.
func (s *stores) put(t *testing.T, agentID, value string) (secret.Operation, error) {
	t.Helper()
	change := map[string]*string{"TOKEN": &value}
	if value == "" {
		change["TOKEN"] = nil
	}
	a, operations, err := s.service().Put(caller(t, ""), agentID, secretwrite.Changes{Values: change})
	if len(operations) == 1 {
		return operations[0], err
	}
	for _, o := range a.Operations {
		if o.Key == "TOKEN" {
			return o, err
		}
	}
	return secret.Operation{}, err
}

// reconcile runs a worker once.
func (s *stores) reconcile(t *testing.T, agentID string) {
	t.Helper()
	r := provisioning.Reconciler{
		Records: s.WorkerStore, Cluster: s.Cluster, Secrets: s.SecretStore, Prober: s.Prober, Now: s.now,
	}
	if err := r.Reconcile(t.Context(), agentID); err != nil {
		t.Logf("the worker will be called again: %v", err)
	}
}

// exists reports whether the agent has a record.
func (s *stores) exists(t *testing.T, agentID string) bool {
	t.Helper()
	_, err := s.WorkerStore.Load(t.Context(), agentID)
	if err != nil && !fault.Is(err, fault.NotFound) {
		t.Fatal(err)
	}
	return err == nil
}

// losePut sets TOKEN with a request that loses its value. A client can't know that it has no effect.
func (s *stores) losePut(t *testing.T, agentID, value string) secret.Operation {
	t.Helper()
	s.SecretManager.Inject(func(method, _ string) rpc.Fault {
		if method != "AddSecretVersion" {
			return rpc.Fault{}
		}
		return rpc.Fault{Before: status.Error(codes.Unavailable, "the connection broke")}
	})
	defer s.SecretManager.Inject(nil)
	o, err := s.put(t, agentID, value)
	if !fault.Is(err, fault.Unavailable) {
		t.Fatalf("PUT = %v, want Unavailable", err)
	}
	return o
}

// land adds a version of TOKEN as a request does that the secret store carries out late.
func (s *stores) land(t *testing.T, agentID, value string) {
	t.Helper()
	must(t, errorOf(s.SecretWriter.Put(t.Context(), agentID, "TOKEN", []byte(value))))
}

// wantValues checks the values of TOKEN in the secret store, by version. A destroyed one is "".
func (s *stores) wantValues(t *testing.T, agentID string, want ...string) {
	t.Helper()
	for i := range len(want) + 1 {
		value, err := s.SecretStore.Read(t.Context(), agentID, "TOKEN", int64(i+1))
		if err != nil && fault.Code(err) != "secret_value_unavailable" {
			t.Fatal(err)
		}
		if i < len(want) && string(value) != want[i] {
			t.Errorf("version %d of TOKEN is %q, want %q", i+1, value, want[i])
		}
		if i == len(want) && value != nil {
			t.Errorf("TOKEN has a version %d, %q, want %d versions", i+1, value, len(want))
		}
	}
}

// inPod is the value of TOKEN in the agent's environment.
func (s *stores) inPod(t *testing.T, agentID string) string {
	t.Helper()
	for _, e := range s.Agent(t, agentID).Env {
		if e.Key != "TOKEN" {
			continue
		}
		value, err := s.SecretStore.Read(t.Context(), agentID, "TOKEN", e.SecretVersion)
		if err != nil {
			t.Error(err)
		}
		return string(value)
	}
	return ""
}

// dying is the outside of a process that dies while it adds a version. Nothing that it does after that has an effect.
type dying struct {
	agent.Store
	credential.SecretWriter
	afterAdding bool
	dead        *atomic.Bool
}

var errDead = errors.New("the process is dead")

func (d dying) PutFirst(ctx context.Context, id, key string, value []byte) (int64, error) {
	return d.Put(ctx, id, key, value)
}

func (d dying) Put(ctx context.Context, agentID, key string, value []byte) (int64, error) {
	d.dead.Store(true)
	if d.afterAdding {
		if _, err := d.SecretWriter.Put(ctx, agentID, key, value); err != nil {
			return 0, err
		}
	}
	return 0, errDead
}

func (d dying) Change(ctx context.Context, id string, change func(*agent.Agent) error) (agent.Agent, error) {
	if d.dead.Load() {
		return agent.Agent{}, errDead
	}
	return d.Store.Change(ctx, id, change)
}

// unlisted is a secret store that lists no version.
type unlisted struct{ credential.SecretWriter }

func (unlisted) LatestVersion(context.Context, string, string) (int64, error) { return 0, nil }

// die makes a request whose process dies while it adds a version.
func (s *stores) die(afterAdding bool, request func(secretwrite.Service)) {
	outside := dying{s.Agents, s.SecretWriter, afterAdding, &atomic.Bool{}}
	service := s.service()
	service.Agents, service.Secrets = outside, outside
	request(service)
}

// draft is a new agent of the plan that all organizations have.
func (s *stores) draft() agent.Agent {
	draft := agent.Draft{Name: "new", Plan: plan.Hobby, Region: agent.DefaultRegion}
	return agent.New(uuid.NewString(), "cell-1", draft, s.now().UTC().Truncate(time.Microsecond))
}
