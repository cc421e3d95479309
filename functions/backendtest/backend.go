// Package backendtest opens a backend for the tests of routes: every dependency of the catalogue in this process, on an
// embedded Firestore and an embedded Secret Manager. It does not start a cluster or a server; emulators/cloud does.
package backendtest

import (
	"bytes"
	"cmp"
	"context"
	"os"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"agents.example/controlplane/emulators/firestoreemu/embedded"
	"agents.example/controlplane/emulators/secretmanageremu"
	"agents.example/controlplane/functions"
	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/functions/mcp"
	"agents.example/controlplane/functions/mcp/mcproute"
	"agents.example/controlplane/functions/system"
	"agents.example/controlplane/infra/firestore"
	"agents.example/controlplane/infra/secretmanager"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agentexec/agentexectest"
	"agents.example/controlplane/shared/agentlog/agentlogtest"
	"agents.example/controlplane/shared/apikey"
	"agents.example/controlplane/shared/billing"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/handoff"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/member"
	"agents.example/controlplane/shared/ratelimit"
	"agents.example/controlplane/shared/webhook"
)

// Backend is every dependency of the catalogue in this process. Records and secrets are in the real stores, on embedded
// emulators; the ports of clusters and providers are fakes.
type Backend struct {
	functions.Dependencies
	// Guard authenticates as in production, except that session tokens are those of this package.
	Guard function.Guard
	// SecretManager is the emulator of the secret store. Its lists and metadata are older than any test.
	SecretManager *secretmanageremu.Server
	// ProjectID is the project of the records in Firestore.
	ProjectID string
	// Kubernetes, Stripe and Firebase are the fakes behind the ports.
	Kubernetes *Cluster
	Stripe     *PaymentProvider
	Firebase   *IdentityProvider
	// LogCell has the pods whose logs the port Logs reads. No agent has a pod there until a test starts it.
	LogCell *agentlogtest.Cell
	// Containers has what the port Commands runs. Each agent has a container.
	Containers *agentexectest.Cell

	uses           *uses
	nudger         agent.Nudger
	records, reads *firestore.Client
	firestore      *embedded.Server // nil if the backend did not start it
}

// Options change what NewWith opens.
type Options struct {
	// FirestoreHost is the address of a running Firestore emulator, in which the backend uses a new project. If empty,
	// it is FIRESTORE_EMULATOR_HOST, and without that the backend starts an embedded one.
	FirestoreHost string
	// Nudger takes the nudges of routes and workers. If nil, nudges have no effect.
	Nudger agent.Nudger
	// SecretQuotas limit the calls of the secret store. The zero value is Google's quotas for a new project.
	SecretQuotas secretmanageremu.Quotas
}

// New opens a backend with no records.
func New(t testing.TB) *Backend {
	t.Helper()
	return NewWith(t, Options{})
}

// NewWith opens a backend with no records, with options.
func NewWith(t testing.TB, o Options) *Backend {
	t.Helper()
	used := newUses()
	cells := agent.Cells{{Name: "cell-1", Region: agent.DefaultRegion}}
	b := &Backend{
		uses: used, nudger: nudger{used, o.Nudger},
		Kubernetes: &Cluster{uses: used, cells: []string{cells[0].Name}},
		Stripe:     &PaymentProvider{uses: used, Subscriptions: map[string]billing.State{}},
		Firebase:   &IdentityProvider{uses: used, Persons: map[string]member.Person{}},
		LogCell:    agentlogtest.NewCell(),
		Containers: agentexectest.NewCell(programs()),
	}
	key, keys := handoffKeys(t)
	b.Settings = functions.Settings{
		Cells: cells, Addresses: agent.Addresses{Domain: "agents.test", Scheme: "https"}, Pepper: []byte("pepper"),
		HandoffKeys: keys,
		SignIn:      system.SignIn{BaseURL: "https://api.example.com", Issuer: "https://issuer.example.com"},
		API:         mcproute.API{BaseURL: "https://api.test", Transport: inProcess{b}, Open: mcp.New},
	}
	b.openRecords(t, cmp.Or(o.FirestoreHost, os.Getenv("FIRESTORE_EMULATOR_HOST")))
	b.openSecrets(t, o.SecretQuotas)
	b.Nudger, b.Prober, b.MetricsSource = b.nudger, prober{used}, metricsSource{used}
	b.Cluster, b.Namespaces, b.Pods, b.Objects = b.Kubernetes, b.Kubernetes, b.Kubernetes, b.Kubernetes
	b.LogKeeper, b.Volumes, b.Quiescer = b.Kubernetes, b.Kubernetes, quiescer{used}
	b.Readers = b.Kubernetes
	b.Logs = logSource{used, b.LogCell}
	b.Commands = commands{used, b.Containers}
	b.WebhookNudger, b.WebhookSender = webhookNudger{used}, webhookSender{used}
	b.WebhookSecrets = webhookSecrets{used, newSecrets(t)}
	b.Clients, b.Backups = published{used}, backups{used}
	b.Payments, b.Members, b.Handoff = b.Stripe, b.Firebase, handoff.NewSigner(key)
	return b
}

// openRecords opens a new project of the Firestore at host, or of a new one. The guard has a separate client, whose
// calls do not count as uses of a dependency.
func (b *Backend) openRecords(t testing.TB, host string) {
	t.Helper()
	if host == "" {
		server, err := embedded.Start(t.Context(), embedded.Options{Indexes: firestore.Indexes()})
		if err != nil {
			t.Fatal(err)
		}
		closeLater(t, server.Close)
		host, b.firestore = server.Addr, server
	}
	b.ProjectID = "test-" + uuid.NewString()
	open := func(observe func(method string)) *firestore.Client {
		client, err := firestore.Open(t.Context(), firestore.Options{
			ProjectID: b.ProjectID, EmulatorHost: host, Observe: observe, BuiltIn: builtIn(),
			Exports: ratelimit.Standard(1)[ratelimit.Exports],
		})
		if err != nil {
			t.Fatal(err)
		}
		closeLater(t, client.Close)
		return client
	}
	b.records = open(func(string) { b.uses.add(Records) })
	b.reads = open(func(method string) { b.uses.add(readOf(method)) })
	b.records.OnEvents(func(ctx context.Context, _ string) { b.reportEvents(ctx, t) })
	b.fillRecords(&b.Dependencies, b.nudger)
	b.Events = b.records.EventLog()
	guard := open(nil)
	b.Guard = function.Guard{
		Authenticator: &identity.Authenticator{
			Sessions: functiontest.Sessions{}, Keys: guard.Keys(), Agents: guard.AgentFinder(),
			Directory: guard.Directory(), Peppers: apikey.Peppers{Present: b.Pepper}, Now: time.Now,
		},
		Audit: guard.AuditLog(), Answers: guard.Answers(), Organizations: guard.Directory(),
	}
}

// reportEvents stands for the nudges of webhooks after a commit with events. A function whose calls write some must
// have the right to publish them.
func (b *Backend) reportEvents(ctx context.Context, t testing.TB) {
	b.uses.add("WebhookNudger")
	name := call.From(ctx).Request.Action
	if needs, listed := neededBy()[name]; listed && !slices.Contains(needs, function.NudgeWebhooks) {
		t.Errorf("%s writes events without the need %s: add function.NudgeWebhooks to its Needs", name,
			function.NudgeWebhooks)
	}
}

// OnEvents makes changes with events call report instead of recording a use of WebhookNudger.
func (b *Backend) OnEvents(report func(ctx context.Context, organizationID string)) {
	b.records.OnEvents(report)
}

// neededBy returns the needs of all functions by their names.
var neededBy = sync.OnceValue(func() map[string][]function.Need {
	all := map[string][]function.Need{}
	for _, r := range functions.Routes(functions.Dependencies{}) {
		all[r.Name] = r.Needs
	}
	for _, w := range functions.Workers(functions.Dependencies{}) {
		all[w.Name] = w.Needs
	}
	return all
})

// fillRecords sets the fields that are stored in Firestore. Agents nudges after its commits, unless the nudger is nil.
func (b *Backend) fillRecords(d *functions.Dependencies, n agent.Nudger) {
	c := b.records
	d.Agents, d.WorkerStore = c.Agents(n), c.WorkerStore()
	d.Keys, d.Directory, d.Organizations = c.Keys(), c.Directory(), c.Directory()
	d.Counts, d.Audit, d.Accounts, d.MemberRecords = c.Counts(), c.AuditLog(), c.Accounts(), c.Members()
	d.Metrics, d.MetricsWorkerStore, d.Operations = c.Metrics(), c.Metrics(), c.Operations()
	d.EgressLog, d.Exports = c.EgressLog(), c.WorkerStore()
	d.AuditSeals, d.Deletions = c.AuditSeals(), c.Deletions()
	d.SecretBudget, d.CleanupBudget = c.SecretBudget(), c.SecretBudget()
	d.Webhooks, d.WebhookWorkerStore, d.WebhookEvents = c.Webhooks(), c.WebhookWorkerStore(), c.EventLog()
	d.Images = c.Images()
	d.Releases, d.ReleaseAgents, d.ReleaseImages = c.Releases(), c.WorkerStore(), c.Images()
	d.RecordIndex = b.reads.WorkerStore()
	d.Checks = []system.Check{{Name: "firestore", Run: b.reads.Ping}}
}

// openSecrets opens a new secret store. A test that exceeds its quotas fails: how many calls concurrent requests make
// depends on their order, so it would fail rarely, and elsewhere.
func (b *Backend) openSecrets(t testing.TB, quotas secretmanageremu.Quotas) {
	t.Helper()
	server, err := secretmanageremu.Start(t.Context(), secretmanageremu.Options{Lag: time.Hour, Quotas: quotas})
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, server.Close)
	t.Cleanup(func() {
		if refused := server.Refused(); len(refused) > 0 {
			t.Errorf("calls over the quotas of the secret store: %v", refused)
		}
	})
	b.SecretManager = server
	store, err := secretmanager.Open(t.Context(), secretmanager.Options{
		ProjectID: "test", Environment: "test", Database: "test", Endpoint: server.Addr,
	})
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, store.Close)
	b.SecretStore, b.SecretWriter = secretStore{b.uses, store}, secretWriter{b.uses, store}
	b.SecretLister = secretLister{b.uses, store}
	b.Credentials = credentialReader{b.uses, store}
}

func newSecrets(t testing.TB) webhook.Secrets {
	t.Helper()
	s, err := webhook.NewSecrets(bytes.Repeat([]byte("k"), webhook.MinKeyBytes))
	if err != nil {
		t.Fatal(err)
	}
	return s
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

// Call calls a route behind the backend's guard. The answer must be one that the route describes.
func (b *Backend) Call(t testing.TB, route function.Route, options ...functiontest.Option) functiontest.Response {
	t.Helper()
	res := functiontest.Call(t, route, append([]functiontest.Option{functiontest.WithGuard(b.Guard)}, options...)...)
	checkDescribed(t, route, res)
	return res
}
