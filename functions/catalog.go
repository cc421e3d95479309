// Package functions lists every route and every worker of the control plane (Routes and Workers), and serves them
// (Handler). It does not open the clients that they use; functions/cmd does.
package functions

import (
	_ "embed"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
	"unicode"

	"agents.example/controlplane/functions/agents"
	"agents.example/controlplane/functions/auditlog"
	"agents.example/controlplane/functions/clients"
	"agents.example/controlplane/functions/console"
	"agents.example/controlplane/functions/containers"
	"agents.example/controlplane/functions/events"
	"agents.example/controlplane/functions/mcp/mcproute"
	"agents.example/controlplane/functions/organizations"
	"agents.example/controlplane/functions/subscriptions"
	"agents.example/controlplane/functions/system"
	"agents.example/controlplane/functions/webhooks"
	"agents.example/controlplane/functions/workers"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agentexec"
	"agents.example/controlplane/shared/agentlog"
	"agents.example/controlplane/shared/apikey"
	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/audit/seal"
	"agents.example/controlplane/shared/billing"
	"agents.example/controlplane/shared/clientrelease"
	"agents.example/controlplane/shared/credential"
	"agents.example/controlplane/shared/egresslog"
	"agents.example/controlplane/shared/event"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/handoff"
	"agents.example/controlplane/shared/image"
	"agents.example/controlplane/shared/member"
	"agents.example/controlplane/shared/metrics"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/provisioning"
	"agents.example/controlplane/shared/ratelimit"
	"agents.example/controlplane/shared/release"
	"agents.example/controlplane/shared/secret"
	"agents.example/controlplane/shared/secretwrite"
	"agents.example/controlplane/shared/webhook"
)

// Prober asks agents and their fronts through their hostnames.
type Prober interface {
	provisioning.AgentProber
	provisioning.CallingFront
	agents.DashboardProber
}

// Dependencies are the ports that functions use. The tag of a field names its need: a function gets the fields of the
// needs that it declares, and zero values for the others.
type Dependencies struct {
	Agents             agent.Store            `need:"firestore"`
	Deletions          agent.Deletions        `need:"firestore"`
	WorkerStore        agent.WorkerStore      `need:"firestore"`
	RecordIndex        agent.RecordIndex      `need:"firestore_read"`
	Exports            agent.ExportStore      `need:"firestore"`
	Keys               apikey.Store           `need:"firestore"`
	Directory          organization.Directory `need:"firestore"`
	Organizations      organization.Settings  `need:"firestore"`
	Counts             organization.Counts    `need:"firestore"`
	Audit              audit.Log              `need:"firestore"`
	AuditSeals         seal.Store             `need:"firestore"`
	Accounts           billing.Store          `need:"firestore"`
	Events             event.Log              `need:"firestore"`
	Images             image.Catalog          `need:"firestore"`
	MemberRecords      member.Records         `need:"firestore"`
	Metrics            metrics.Store          `need:"firestore"`
	MetricsWorkerStore metrics.WorkerStore    `need:"firestore"`
	Operations         secret.Operations      `need:"firestore"`
	EgressLog          egresslog.Log          `need:"firestore"`
	SecretBudget       secretwrite.Budget     `need:"firestore"`
	Webhooks           webhook.Store          `need:"firestore"`
	WebhookWorkerStore webhook.WorkerStore    `need:"firestore"`
	WebhookEvents      webhook.Events         `need:"firestore"`
	Releases           release.Store          `need:"firestore"`
	ReleaseAgents      release.Agents         `need:"firestore"`
	ReleaseImages      release.Images         `need:"firestore"`

	CleanupBudget provisioning.CleanupBudget `need:"firestore"`
	Checks        []system.Check             `need:"firestore_read"`
	// Nudger is for workers. Agents publishes its own nudges if the function has the need.
	Nudger agent.Nudger `need:"publish"`
	// WebhookNudger is for workers and routes of webhooks. Stores publish theirs after commits with events.
	WebhookNudger webhook.Nudger               `need:"nudge_webhooks"`
	SecretStore   credential.SecretStore       `need:"secret_manage"`
	SecretLister  provisioning.SecretLister    `need:"secret_collect"`
	SecretWriter  credential.SecretWriter      `need:"secret_add"`
	Credentials   credential.Reader            `need:"secret_read"`
	Cluster       provisioning.Cluster         `need:"cluster_apply"`
	Volumes       provisioning.Volumes         `need:"cluster_apply"`
	Readers       provisioning.Readers         `need:"cluster_apply"`
	Namespaces    provisioning.NamespaceLister `need:"cluster_collect"`
	Pods          provisioning.PodLister       `need:"cluster_look"`
	Objects       provisioning.ObjectLister    `need:"cluster_look"`
	Logs          agentlog.Source              `need:"pod_logs"`
	LogKeeper     provisioning.LogKeeper       `need:"log_keep"`
	Commands      agentexec.Source             `need:"pod_exec"`
	Quiescer      provisioning.Quiescer        `need:"pod_quiesce"`
	Prober        Prober                       `need:"gateway_access"`
	Payments      billing.Payments             `need:"payments"`
	Members       member.Provider              `need:"members"`
	MetricsSource metrics.Source               `need:"monitoring"`
	// Handoff is nil if the operator configured no key.
	Handoff *handoff.Signer `need:"handoff_sign"`
	// WebhookSecrets derives the signing secrets of webhooks.
	WebhookSecrets webhook.SecretSource `need:"webhook_sign"`
	WebhookSender  webhook.Sender       `need:"webhook_send"`
	// Clients is nil if the operator configured no bucket.
	Clients clientrelease.Store `need:"clients_read"`
	Backups workers.Backups     `need:"backups_read"`

	Settings
}

// Settings is the configuration that functions read. It needs no outside system.
type Settings struct {
	// Revision is what runs, by Cloud Run's name.
	Revision  string
	Cells     agent.Cells
	Addresses agent.Addresses
	// Pepper is the key of the hash under which new API keys are stored.
	Pepper apikey.Pepper
	// HandoffKeys are the public keys that verify links to dashboards.
	HandoffKeys handoff.KeySet
	// Console is what the web app knows before its user signs in, except for the regions, which follow from Cells.
	Console console.Options
	// BackupForGKE says whether daily backups are made of the agents whose plans have them.
	BackupForGKE bool
	// SignIn is how clients of the API get tokens.
	SignIn system.SignIn
	// API is how the tools of the Model Context Protocol call the API.
	API mcproute.API
	// WebhookURLs says which URLs webhooks may have.
	WebhookURLs webhook.URLPolicy
	// BillingClock decides when the grace period of a failed payment ends; nil is time.Now.
	BillingClock func() time.Time
	// WebhookClock is the clock of deliveries to webhooks; nil is time.Now.
	WebhookClock func() time.Time
	// Slots bound the answers that this process holds open; nil for no bound.
	Slots *ratelimit.Slots
	// CommandSlots bound the commands that this process runs in agents' containers; nil for no bound.
	CommandSlots *ratelimit.Slots
	// Sent collects what this process sends from agents' containers to each organization; nil for no bound.
	Sent *ratelimit.Meter
}

func (s Settings) billingClock() func() time.Time { return clock(s.BillingClock) }

func clock(configured func() time.Time) func() time.Time {
	if configured == nil {
		return time.Now
	}
	return configured
}

func (s Settings) consoleOptions() console.Options {
	o := s.Console
	o.Regions = s.Cells.Regions()
	return o
}

//go:generate go run ./generate

// description is the OpenAPI document, generated from Routes.
//
//go:embed openapi.json
var description []byte

// Routes lists every route. To add a route, write one file next to its siblings and add one line here.
func Routes(d Dependencies) []function.Route {
	routes := slices.Concat(agentRoutes(d), containerRoutes(d), organizationRoutes(d),
		system.Live(d.Revision), system.Ready(d.Checks),
		system.Docs(description), []function.Route{
			system.Keys(d.HandoffKeys),
			system.Introspect(d.Directory, d.HandoffKeys),
		}, system.ProtectedResources(d.SignIn), clients.Routes(d.Clients, d.SignIn.BaseURL),
		console.Routes(d.consoleOptions()))
	for i := range routes {
		routes[i] = withDefaults(routes[i])
	}
	return routes
}

// agentRoutes lists the routes of agents.
func agentRoutes(d Dependencies) []function.Route {
	writer := secretwrite.Service{Agents: d.Agents, Secrets: d.SecretWriter, Budget: d.SecretBudget, Now: time.Now}
	shown := agent.Display{Addresses: d.Addresses, Images: d.Images}
	return []function.Route{
		agents.List(d.Agents, shown),
		agents.Create(d.Agents, writer, d.Cells, d.WebhookURLs, shown),
		agents.Get(d.Agents, d.Handoff, shown, d.Slots),
		agents.Reachability(d.Agents, d.Prober, d.Addresses),
		agents.Diagnosis(d.Agents, d.Events, d.EgressLog, d.Accounts),
		agents.Update(d.Agents, d.EgressLog, shown),
		agents.AllowEgressHosts(d.Agents, shown),
		agents.Delete(d.Agents, shown),
		agents.Deletion(d.Deletions, d.Handoff),
		agents.Restart(d.Agents, shown),
		agents.Sleep(d.Agents, shown),
		agents.Pause(d.Agents, shown),
		agents.WakeAt(d.Agents, shown),
		agents.Resume(d.Agents, shown),
		agents.Stop(d.Agents, shown),
		agents.Start(d.Agents, shown),
		agents.MigrateSandbox(d.Agents, shown),
		agents.TakeSnapshot(d.Agents, shown),
		agents.ListSnapshots(d.Agents),
		agents.GetSnapshot(d.Agents),
		agents.DeleteSnapshot(d.Agents, shown),
		agents.Restore(d.Agents, shown),
		agents.ListEgressLog(d.Agents, d.EgressLog),
		agents.Metrics(d.Agents, d.Metrics),
		agents.AllMetrics(d.Metrics),
		agents.Log(d.Agents, d.Logs, d.Slots),
		agents.ListSecrets(d.Agents),
		agents.PutSecrets(writer, shown),
		agents.DeleteSecret(writer, shown),
		agents.ListSecretOperations(d.Agents, d.Operations),
		agents.GetSecretOperation(d.Agents, d.Operations),
		agents.ReconcileSecretOperation(writer, d.Operations, shown),
		agents.RevealCredentials(d.Agents, d.Credentials),
		agents.RotateCredentials(writer, shown),
		agents.ListImages(d.Images),
		mcproute.Route(d.API),
	}
}

// containerRoutes lists the routes that enter agents' containers. Their service has no other route.
func containerRoutes(d Dependencies) []function.Route {
	s := containers.Service{
		Agents: d.Agents, Records: d.WorkerStore, Organizations: d.Directory, Commands: d.Commands, Audit: d.Audit,
		Exports: d.Exports, Nudger: d.Nudger, Slots: d.CommandSlots, Sent: d.Sent,
	}
	return []function.Route{
		containers.Exec(s),
		containers.Terminal(s),
		containers.GetFiles(s),
		containers.PutFiles(s),
		containers.DeleteFiles(s),
		containers.Export(s),
	}
}

// organizationRoutes lists the routes of organizations, their members and what they share.
func organizationRoutes(d Dependencies) []function.Route {
	memberService := &member.Service{Provider: d.Members, Records: d.MemberRecords, Audit: d.Audit}
	hooks := webhooks.Service{
		Store: d.Webhooks, Nudger: d.WebhookNudger, Secrets: d.WebhookSecrets, Policy: d.WebhookURLs,
	}
	return []function.Route{
		organizations.ListAPIKeys(d.Keys),
		organizations.CreateAPIKey(d.Keys, d.Pepper),
		organizations.RevokeAPIKey(d.Keys),
		organizations.Me(d.Directory),
		organizations.Current(d.Accounts),
		organizations.Update(d.Organizations, d.Accounts, d.Audit),
		organizations.ListMembers(memberService),
		organizations.SetMember(memberService),
		organizations.RemoveMember(memberService),
		auditlog.List(d.Audit),
		auditlog.ExportAll(d.Audit, d.Slots),
		auditlog.Verify(d.AuditSeals, d.Handoff),
		auditlog.ExportSeals(d.AuditSeals, d.Slots),
		events.List(d.Events),
		events.Stream(d.Events, d.Slots),
		webhooks.List(hooks),
		webhooks.Create(hooks),
		webhooks.Get(hooks),
		webhooks.Update(hooks),
		webhooks.RotateSecret(hooks),
		webhooks.Delete(hooks),
		webhooks.Test(hooks),
		webhooks.Deliveries(hooks),
		webhooks.Redeliver(hooks),
		subscriptions.Plans(d.BackupForGKE),
		subscriptions.Subscription(d.Accounts, d.Payments),
		subscriptions.Checkout(d.Accounts, d.Agents, d.Payments),
		subscriptions.Portal(d.Accounts, d.Payments),
		subscriptions.Webhook(&billing.Service{
			Store: d.Accounts, Payments: d.Payments, Agents: d.Agents,
			Now: d.billingClock(),
		}, d.Payments),
	}
}

// withDefaults fills in what most routes share: the role, and the need for Firestore, where the guard looks up the
// caller of every route that is not public.
func withDefaults(r function.Route) function.Route {
	if r.Role == "" {
		r.Role = function.RoleAPI
	}
	if r.Access.Authenticates() && !slices.Contains(r.Needs, function.Firestore) {
		r.Needs = append([]function.Need{function.Firestore}, r.Needs...)
	}
	return r
}

// Workers lists every worker.
func Workers(d Dependencies) []function.Worker {
	sweeper := &provisioning.Sweeper{Records: d.WorkerStore, Nudger: d.Nudger, Now: time.Now}
	all := []function.Worker{
		workers.Reconcile(&provisioning.Reconciler{
			Records: d.WorkerStore, Agents: d.Agents, Cluster: d.Cluster, Secrets: d.SecretStore, Prober: d.Prober,
			Front: d.Prober, Volumes: d.Volumes, Quiescer: d.Quiescer, Readers: d.Readers,
			Cleanup: d.CleanupBudget, Logs: d.LogKeeper, Now: time.Now,
		}),
		workers.Sweep(sweeper, &webhook.Sweeper{
			Store: d.WebhookWorkerStore, Nudger: d.WebhookNudger, Now: time.Now,
		}),
		workers.Deliver(&webhook.Deliverer{
			Store: d.WebhookWorkerStore, Events: d.WebhookEvents, Sender: d.WebhookSender, Secrets: d.WebhookSecrets,
			Nudger: d.WebhookNudger, Now: clock(d.WebhookClock), Random: rand.Float64,
		}),
		workers.RecordEgress(&egresslog.Recorder{Log: d.EgressLog, Now: time.Now}),
		workers.DeadLetter(sweeper),
		workers.Observe(&provisioning.HealthController{
			Records: d.WorkerStore, Pods: d.Pods, Prober: d.Prober, Nudger: d.Nudger, Logs: d.LogKeeper,
			Now: time.Now,
		}, &release.Roller{
			Releases: d.Releases, Agents: d.ReleaseAgents, Images: d.ReleaseImages, Metrics: d.MetricsWorkerStore,
			Prober: d.Prober, Nudger: d.Nudger, Now: time.Now,
		}),
		workers.CheckDrift(&provisioning.DriftChecker{
			Records: d.WorkerStore, Objects: d.Objects, Nudger: d.Nudger, Logs: d.LogKeeper, Now: time.Now,
		}),
		workers.Recount(d.Counts),
		workers.CheckBackups(d.Backups),
		workers.Seal(&seal.Sealer{Store: d.AuditSeals, Now: time.Now}),
		workers.EnforceAccounts(&billing.Enforcer{
			Store: d.Accounts, Payments: d.Payments, Agents: d.Agents, Now: d.billingClock(),
		}),
		workers.Collect(&metrics.Collector{
			Agents: d.WorkerStore, Source: d.MetricsSource, Records: d.MetricsWorkerStore, Addresses: d.Addresses,
			Now: time.Now,
		}),
		workers.CollectOrphans(&provisioning.OrphanCollector{
			Agents: d.RecordIndex, Namespaces: d.Namespaces, Secrets: d.SecretLister, Now: time.Now,
		}),
	}
	for i := range all {
		if all[i].Schedule != "" {
			all[i].Topic = ticks(all[i].Name)
		}
	}
	return all
}

// ticks names the topic on which Cloud Scheduler publishes for a worker, such as sweep-agents-ticks. It runs at every
// start of a worker, which should not compile a regular expression.
func ticks(worker string) function.Topic {
	var name strings.Builder
	for i, r := range worker {
		if i > 0 && unicode.IsUpper(r) {
			name.WriteByte('-')
		}
		name.WriteRune(unicode.ToLower(r))
	}
	return function.Topic(name.String() + "-ticks")
}
