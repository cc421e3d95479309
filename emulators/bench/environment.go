package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/google/uuid"

	"agents.example/controlplane/emulators/cluster"
	"agents.example/controlplane/emulators/monitoringemu"
	"agents.example/controlplane/emulators/secretmanageremu"
	"agents.example/controlplane/functions"
	"agents.example/controlplane/infra/firestore"
	"agents.example/controlplane/infra/monitoring"
	"agents.example/controlplane/infra/secretmanager"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/apikey"
	"agents.example/controlplane/shared/billing"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/metrics"
	"agents.example/controlplane/shared/plan"
)

// environment has what deployments need.
type environment struct {
	host       string // of the Firestore emulator
	agents     int
	provisions int
	dir        string
	cluster    cluster.Kind
	noCluster  bool
	profile    string
	progress   io.Writer
}

// The one cell, and the domain of agents.
const (
	cell   = "cell"
	region = "us-central1"
	domain = "agents.example.com"
)

// deployment is all functions in this process, on an empty database. It counts everything that they send.
type deployment struct {
	*counter
	records    *firestore.Client
	monitoring *monitoringemu.Server
	secrets    *secretmanageremu.Server
	project    string
	deps       functions.Dependencies
	handler    http.Handler
	// key is an API key of the organization created last.
	key     string
	closers []func() error
}

// deploy makes a deployment, which the caller closes.
func (l *environment) deploy(ctx context.Context) (_ *deployment, err error) {
	d := &deployment{counter: &counter{}, project: "bench-" + uuid.NewString()}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Close())
		}
	}()
	d.records, err = firestore.Open(ctx, firestore.Options{
		ProjectID: d.project, EmulatorHost: l.host, DialOptions: d.dialOptions(), Timeout: time.Minute,
	})
	if err != nil {
		return nil, err
	}
	d.closers = append(d.closers, d.records.Close)
	if d.monitoring, err = monitoringemu.Start(ctx, monitoringemu.Options{}); err != nil {
		return nil, err
	}
	d.closers = append(d.closers, d.monitoring.Close)
	quotas := secretmanageremu.Times(1000)
	if d.secrets, err = secretmanageremu.Start(ctx, secretmanageremu.Options{Quotas: quotas}); err != nil {
		return nil, err
	}
	d.closers = append(d.closers, d.secrets.Close)
	if err := d.connect(ctx); err != nil {
		return nil, err
	}
	return d, nil
}

// connect makes the dependencies of the functions and their handler.
func (d *deployment) connect(ctx context.Context) error {
	points, err := monitoring.Open(ctx, monitoring.Options{
		ProjectID: d.project, Endpoint: d.monitoring.Addr, Domain: domain,
		Cells: []monitoring.Cell{{Name: cell, Cluster: cell, Location: region}},
	})
	if err != nil {
		return err
	}
	d.closers = append(d.closers, points.Close)
	secrets, err := secretmanager.Open(ctx, secretmanager.Options{
		ProjectID: d.project, Environment: "bench", Database: "bench", Endpoint: d.secrets.Addr,
	})
	if err != nil {
		return err
	}
	d.closers = append(d.closers, secrets.Close)
	nudger := countedNudger{d.counter}
	d.deps = functions.Dependencies{
		Agents: d.records.Agents(nudger), WorkerStore: d.records.WorkerStore(),
		RecordIndex: d.records.WorkerStore(), Keys: d.records.Keys(), Directory: d.records.Directory(),
		Counts: d.records.Counts(), Audit: d.records.AuditLog(), AuditSeals: d.records.AuditSeals(),
		Events: d.records.EventLog(), Metrics: d.records.Metrics(),
		MetricsWorkerStore: d.records.Metrics(),
		Accounts:           d.records.Accounts(), MemberRecords: d.records.Members(),
		Webhooks: d.records.Webhooks(), WebhookWorkerStore: d.records.WebhookWorkerStore(), WebhookNudger: nudger,
		Releases: d.records.Releases(), ReleaseAgents: d.records.WorkerStore(), ReleaseImages: d.records.Images(),
		Operations: d.records.Operations(), SecretBudget: d.records.SecretBudget(),
		Payments: billing.NoProvider{},
		Nudger:   nudger, SecretStore: secrets, SecretLister: secrets, SecretWriter: secrets,
		Credentials:   secrets,
		MetricsSource: countedSource{points, d.counter}, Namespaces: &healthyPods{}, Pods: &healthyPods{},
		Objects: &healthyPods{}, Backups: healthyBackups{},
		Settings: functions.Settings{
			Cells:     agent.Cells{{Name: cell, Region: region}},
			Addresses: agent.Addresses{Domain: domain, Scheme: "https"},
			Pepper:    []byte(strings.Repeat("p", 32)),
		},
	}
	guard := function.Guard{
		Authenticator: &identity.Authenticator{
			Keys: d.records.Keys(), Agents: d.records.AgentFinder(), Directory: d.deps.Directory,
			Peppers: apikey.Peppers{Present: d.deps.Pepper}, Now: time.Now,
		},
		Audit: d.records.AuditLog(), Answers: d.records.Answers(), Organizations: d.deps.Directory,
	}
	d.handler, err = functions.Handler(functions.Selection{Roles: []function.Role{
		function.RoleAPI,
		function.RoleAccounts,
	}},
		func([]function.Need) (functions.Dependencies, error) { return d.deps, nil }, functions.Guards{Guard: guard})
	return err
}

// Close closes the deployment.
func (d *deployment) Close() error {
	var errs []error
	for i := len(d.closers) - 1; i >= 0; i-- {
		errs = append(errs, d.closers[i]())
	}
	return errors.Join(errs...)
}

// countedNudger counts nudges. Each is one message.
type countedNudger struct{ *counter }

// Nudge implements agent.Nudger.
func (p countedNudger) Nudge(context.Context, string) error {
	p.add(Tally{Messages: 1})
	return nil
}

// NudgeWebhook implements webhook.Nudger.
func (p countedNudger) NudgeWebhook(ctx context.Context, id string) error { return p.Nudge(ctx, id) }

// countedSource counts reads of Cloud Monitoring.
type countedSource struct {
	metrics.Source
	counter *counter
}

// Read implements metrics.Source.
func (r countedSource) Read(ctx context.Context, q metrics.Query, visit func(metrics.Sample)) (metrics.Usage, error) {
	u, err := r.Source.Read(ctx, q, visit)
	r.counter.add(Tally{MonitoringCalls: int64(u.Calls), Series: int64(u.Series)})
	return u, err
}

// createOrganization creates an organization on the largest plan, and an API key.
func (d *deployment) createOrganization(ctx context.Context) (context.Context, string, error) {
	id, key := "org_"+uuid.NewString(), apikey.Generate()
	ctx = call.As(ctx, identity.Caller{
		Type: identity.Session, ID: "user", OrganizationID: id,
		Role: identity.RoleAdmin,
	})
	_, err := d.records.Keys().Create(ctx, apikey.Key{
		ID: uuid.NewString(), OrganizationID: id, Name: "bench", Role: apikey.DefaultRole,
		Prefix:    key[:apikey.PrefixLength],
		CreatedAt: time.Now(), LastUsedAt: time.Now(),
	}.HashedWith(d.deps.Pepper, key))
	if err != nil {
		return ctx, "", err
	}
	return ctx, key, d.records.Directory().SetPlan(ctx, id, plan.Enterprise)
}

// request is an API request with an API key.
type request struct{ key, method, path, body string }

// call sends a request to its function and returns the body. Any status except want is an error.
func (d *deployment) call(ctx context.Context, r request, want int) ([]byte, error) {
	req := httptest.NewRequestWithContext(ctx, r.method, r.path, strings.NewReader(r.body))
	req.Header.Set("Authorization", "Bearer "+r.key)
	if r.body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	w := httptest.NewRecorder()
	d.add(Tally{Requests: 1})
	d.handler.ServeHTTP(w, req)
	if w.Code != want {
		return nil, fmt.Errorf("%s %s: status %d, want %d: %s", r.method, r.path, w.Code, want, w.Body)
	}
	return w.Body.Bytes(), nil
}
