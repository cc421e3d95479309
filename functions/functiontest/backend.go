package functiontest

import (
	"encoding/json"
	"net/http"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"agents.example/controlplane/emulators/firestoreemu/embedded"
	"agents.example/controlplane/emulators/secretmanageremu"
	"agents.example/controlplane/functions"
	"agents.example/controlplane/functions/system"
	"agents.example/controlplane/infra/firestore"
	"agents.example/controlplane/infra/secretmanager"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/billing"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/handoff"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/member"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/plan"
)

// Backend is every dependency of the catalogue in this process. Records and secrets are in the real stores, on embedded
// emulators; the ports of clusters and providers are fakes.
type Backend struct {
	functions.Dependencies
	// Guard authenticates as in production, except that session tokens are those of this package.
	Guard function.Guard
	// Kubernetes, Stripe and Firebase are the fakes behind the ports.
	Kubernetes *Cluster
	Stripe     *PaymentProvider
	Firebase   *IdentityProvider

	uses    *uses
	records *firestore.Client
}

// New opens a backend with no records.
func New(t testing.TB) *Backend {
	t.Helper()
	used := newUses()
	cells := agent.Cells{{Name: "cell-1", Region: agent.DefaultRegion}}
	b := &Backend{
		uses:       used,
		Kubernetes: &Cluster{uses: used, cells: []string{cells[0].Name}},
		Stripe:     &PaymentProvider{uses: used, Subscriptions: map[string]billing.State{}},
		Firebase:   &IdentityProvider{uses: used, Persons: map[string]member.Person{}},
	}
	key, keys := handoffKeys(t)
	b.Settings = functions.Settings{
		Cells: cells, Addresses: agent.Addresses{Domain: "agents.test", Scheme: "https"}, Pepper: []byte("pepper"),
		HandoffKeys: keys, WatchTimeout: time.Second,
	}
	b.openRecords(t)
	b.openSecrets(t)
	b.Nudger, b.Prober, b.MetricsSource = nudger{used}, prober{used}, metricsSource{used}
	b.Cluster, b.Namespaces, b.Pods = b.Kubernetes, b.Kubernetes, b.Kubernetes
	b.Payments, b.Members, b.Handoff = b.Stripe, b.Firebase, handoff.NewSigner(key)
	return b
}

// openRecords starts a Firestore. The guard has a client of its own, whose calls are no uses of a dependency.
func (b *Backend) openRecords(t testing.TB) {
	t.Helper()
	server, err := embedded.Start(t.Context(), embedded.Options{Indexes: firestore.Indexes()})
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, server.Close)
	open := func(observe func(method string)) *firestore.Client {
		client, err := firestore.Open(t.Context(), firestore.Options{ProjectID: "test", EmulatorHost: server.Addr,
			Observe: observe})
		if err != nil {
			t.Fatal(err)
		}
		closeLater(t, client.Close)
		return client
	}
	b.records = open(func(string) { b.uses.add(Records) })
	b.fillRecords(&b.Dependencies, nudger{b.uses})
	guard := open(nil)
	b.Guard = function.Guard{
		Authenticator: &identity.Authenticator{Sessions: sessions{}, Keys: guard.Keys(), Directory: guard.Directory(),
			Pepper: b.Pepper, Now: time.Now},
		Audit: guard.AuditLog(), Organizations: guard.Directory(),
	}
}

// fillRecords sets the fields that are stored in Firestore. Agents nudges after its commits, unless the nudger is nil.
func (b *Backend) fillRecords(d *functions.Dependencies, n agent.Nudger) {
	c := b.records
	d.Agents, d.WorkerStore, d.Keys, d.Directory = c.Agents(n), c.WorkerStore(), c.Keys(), c.Directory()
	d.Counts, d.Audit, d.Accounts, d.MemberRecords = c.Counts(), c.AuditLog(), c.Accounts(), c.Members()
	d.Metrics, d.MetricsWorkerStore, d.Operations = c.Metrics(), c.Metrics(), c.Operations()
	d.Checks = []system.Check{{Name: "firestore", Run: c.Ping}}
}

func (b *Backend) openSecrets(t testing.TB) {
	t.Helper()
	server, err := secretmanageremu.Start(t.Context(), secretmanageremu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, server.Close)
	store, err := secretmanager.Open(t.Context(), secretmanager.Options{ProjectID: "test", Endpoint: server.Addr})
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, store.Close)
	b.SecretStore, b.SecretWriter = secretStore{b.uses, store}, secretWriter{b.uses, store}
	b.Credentials = credentialReader{b.uses, store}
}

func closeLater(t testing.TB, closer func() error) {
	t.Cleanup(func() {
		if err := closer(); err != nil {
			t.Error(err)
		}
	})
}

func handoffKeys(t testing.TB) (handoff.Key, handoff.KeySet) {
	t.Helper()
	var key handoff.Key
	var set handoff.KeySet
	private, public, err := handoff.Generate()
	if err == nil {
		err = key.EnvDecode(private)
	}
	if err == nil {
		err = set.EnvDecode(public)
	}
	if err != nil {
		t.Fatal(err)
	}
	return key, set
}

// Open implements functions.Opener: it returns the fields of the needs, and zero values for the others.
func (b *Backend) Open(needs []function.Need) (functions.Dependencies, error) {
	d := b.Dependencies
	if !slices.Contains(needs, function.Publish) {
		b.fillRecords(&d, nil)
	}
	v := reflect.ValueOf(&d).Elem()
	for i := range v.NumField() {
		need := v.Type().Field(i).Tag.Get("need")
		if need != "" && !slices.Contains(needs, function.Need(need)) {
			v.Field(i).SetZero()
		}
	}
	return d, nil
}

// Uses lists the dependencies that were used since the last call of ForgetUses, by the names of their fields. Records
// stands for all fields in Firestore.
func (b *Backend) Uses() []string { return b.uses.list() }

// ForgetUses begins to record uses again.
func (b *Backend) ForgetUses() {
	b.uses.mu.Lock()
	defer b.uses.mu.Unlock()
	clear(b.uses.seen)
}

// Call calls a route behind the backend's guard.
func (b *Backend) Call(t testing.TB, route function.Route, options ...Option) Response {
	t.Helper()
	return Call(t, route, append([]Option{WithGuard(b.Guard)}, options...)...)
}

// CallNamed calls a route of the catalogue with all dependencies.
func (b *Backend) CallNamed(t testing.TB, name string, options ...Option) Response {
	t.Helper()
	for _, r := range functions.Routes(b.Dependencies) {
		if r.Name == name {
			return b.Call(t, r, options...)
		}
	}
	t.Fatalf("the catalogue has no route %q", name)
	return Response{}
}

// SetPlan puts an organization on a plan. The organization may be new.
func (b *Backend) SetPlan(t testing.TB, organizationID string, p plan.ID) {
	t.Helper()
	directory := b.records.Directory()
	err := directory.Ensure(t.Context(), organizationID, organization.User{ID: uuid.NewString(), Subject: "operator",
		CreatedAt: time.Now()})
	if err == nil {
		err = directory.SetPlan(t.Context(), organizationID, p)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// CreateKey creates an API key of an organization and returns its id and its secret.
func (b *Backend) CreateKey(t testing.TB, organizationID string) (id, secret string) {
	t.Helper()
	created := b.CallNamed(t, "CreateAPIKey", AsAdmin(organizationID), Body(map[string]string{"name": "test"})).
		Want(t, http.StatusCreated, "")
	return created.Text("id"), created.Text("secret")
}

// RunningAgent creates an agent as an admin of an organization and reconciles it until it runs.
func (b *Backend) RunningAgent(t testing.TB, organizationID string, env map[string]string) agent.Agent {
	t.Helper()
	body := map[string]any{"name": "test", "resource_plan": plan.Hobby}
	if env != nil {
		body["env_vars"] = env
	}
	id := b.CallNamed(t, "CreateAgent", AsAdmin(organizationID), Body(body)).Want(t, http.StatusCreated, "").Text("id")
	b.Reconcile(t, id)
	a := b.Agent(t, id)
	if a.Status != agent.Running {
		t.Fatalf("the agent is %s, want running: %+v", a.Status, a.Failure)
	}
	return a
}

// Reconcile delivers a nudge about an agent to the worker.
func (b *Backend) Reconcile(t testing.TB, agentID string) {
	t.Helper()
	for _, w := range functions.Workers(b.Dependencies) {
		if w.Topic != function.AgentNudges {
			continue
		}
		if err := w.Handle(t.Context(), Nudge(t, agentID)); err != nil {
			t.Fatalf("%s: %v", w.Name, err)
		}
	}
}

// Nudge is the message that names an agent.
func Nudge(t testing.TB, agentID string) function.Message {
	t.Helper()
	data, err := json.Marshal(function.AgentNudge{AgentID: agentID})
	if err != nil {
		t.Fatal(err)
	}
	return function.Message{ID: "1", Data: data}
}

// Agent reads the record of an agent of any organization.
func (b *Backend) Agent(t testing.TB, id string) agent.Agent {
	t.Helper()
	a, err := b.WorkerStore.Load(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// UpdateAgent changes the record of an agent as a worker does.
func (b *Backend) UpdateAgent(t testing.TB, id string, change func(*agent.Agent)) agent.Agent {
	t.Helper()
	a, err := b.WorkerStore.Update(t.Context(), b.Agent(t, id), change)
	if err != nil {
		t.Fatal(err)
	}
	return a
}
