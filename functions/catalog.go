// Package functions is the catalogue: every route and every worker, and how they are served. It knows which function
// gets what; it does not know how anything of that is opened.
package functions

import (
	_ "embed"
	"time"

	"agents.example/controlplane/functions/agentmetrics"
	"agents.example/controlplane/functions/agents"
	"agents.example/controlplane/functions/apikeys"
	"agents.example/controlplane/functions/auditlog"
	"agents.example/controlplane/functions/credentials"
	"agents.example/controlplane/functions/me"
	"agents.example/controlplane/functions/members"
	"agents.example/controlplane/functions/organizations"
	"agents.example/controlplane/functions/secrets"
	"agents.example/controlplane/functions/subscriptions"
	"agents.example/controlplane/functions/system"
	"agents.example/controlplane/functions/workers"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/apikey"
	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/billing"
	"agents.example/controlplane/shared/credential"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/handoff"
	"agents.example/controlplane/shared/member"
	"agents.example/controlplane/shared/metrics"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/provisioning"
	"agents.example/controlplane/shared/secret"
	"agents.example/controlplane/shared/secretwrite"
)

// Dependencies is what functions are handed. A function finds in it what its needs name, and nil for the rest.
type Dependencies struct {
	// With function.Firestore.
	Agents             agent.Store
	WorkerStore        agent.WorkerStore
	Keys               apikey.Store
	Directory          organization.Directory
	Counts             organization.Counts
	Audit              audit.Log
	Accounts           billing.Store
	MemberRecords      member.Records
	Metrics            metrics.Store
	MetricsWorkerStore metrics.WorkerStore
	// Operations is the history of secret operations.
	Operations secret.Operations
	Checks     []system.Check
	// With function.Publish. Stores publish on their own.
	Nudger agent.Nudger
	// With function.SecretManage.
	SecretStore credential.SecretStore
	// With function.SecretAdd.
	SecretWriter credential.SecretWriter
	// With function.SecretRead.
	Credentials credential.Reader
	// With function.Cluster.
	Cluster    provisioning.Cluster
	Namespaces provisioning.NamespaceLister
	Pods       provisioning.PodLister
	// With function.GatewayAccess.
	Prober provisioning.AgentProber
	// With function.Payments.
	Payments billing.Payments
	// With function.Members.
	Members member.Provider
	// With function.Monitoring.
	MetricsSource metrics.Source
	// With function.HandoffSign; nil where the operator configured no key.
	Handoff *handoff.Signer

	Settings
}

// Settings is configuration that functions work with.
type Settings struct {
	Cells     agent.Cells
	Addresses agent.Addresses
	// Pepper is the key of the hash under which API keys are stored.
	Pepper []byte
	// HandoffKeys are the public keys of links to dashboards.
	HandoffKeys handoff.KeySet
	// WatchTimeout is how long one push may watch a cluster.
	WatchTimeout time.Duration
	// BillingClock is the clock of accounts, by which the grace of a failed payment passes; nil is time.Now.
	BillingClock func() time.Time
}

func (s Settings) billingClock() func() time.Time {
	if s.BillingClock == nil {
		return time.Now
	}
	return s.BillingClock
}

//go:generate go run ./generate

// description is the OpenAPI document. It is generated from the routes below.
//
//go:embed openapi.json
var description []byte

// Routes lists every route. A new route is one file beside its siblings and one line here.
func Routes(d Dependencies) []function.Route {
	deposits := secretwrite.Service{Agents: d.Agents, Secrets: d.SecretWriter, Now: time.Now}
	roster := &member.Service{Provider: d.Members, Records: d.MemberRecords, Audit: d.Audit}
	routes := []function.Route{
		agents.List(d.Agents, d.Addresses),
		agents.Create(deposits, d.Cells, d.Addresses),
		agents.Get(d.Agents, d.Handoff, d.Addresses),
		agents.Reachability(d.Agents, d.Prober, d.Addresses),
		agents.Update(d.Agents, d.Addresses),
		agents.Delete(d.Agents, d.Addresses),
		agents.Restart(d.Agents, d.Addresses),
		agents.Pause(d.Agents, d.Addresses),
		agents.Resume(d.Agents, d.Addresses),
		agents.Stop(d.Agents, d.Addresses),
		agents.Start(d.Agents, d.Addresses),
		agents.MigrateSandbox(d.Agents, d.Addresses),
		agentmetrics.Get(d.Agents, d.Metrics),
		apikeys.List(d.Keys),
		apikeys.Create(d.Keys, d.Pepper),
		apikeys.Revoke(d.Keys),
		secrets.List(d.Agents),
		secrets.Put(deposits),
		secrets.Delete(deposits),
		secrets.ListOperations(d.Agents, d.Operations),
		secrets.GetOperation(d.Agents, d.Operations),
		secrets.Reconcile(deposits, d.Operations),
		credentials.Reveal(d.Agents, d.Credentials),
		credentials.Rotate(deposits, d.Addresses),
		me.Get(d.Directory),
		organizations.Current(d.Directory),
		members.List(roster),
		members.Set(roster),
		members.Remove(roster),
		auditlog.List(d.Audit),
		auditlog.ExportAll(d.Audit),
		subscriptions.Plans(),
		subscriptions.Subscription(d.Accounts, d.Payments),
		subscriptions.Checkout(d.Accounts, d.Agents, d.Payments),
		subscriptions.Portal(d.Accounts, d.Payments),
		subscriptions.Webhook(&billing.Service{Store: d.Accounts, Payments: d.Payments, Agents: d.Agents,
			Now: d.billingClock()}, d.Payments),
	}
	routes = append(routes, system.Live()...)
	routes = append(routes, system.Ready(d.Checks)...)
	routes = append(routes, system.Docs(description)...)
	routes = append(routes, system.Keys(d.HandoffKeys))
	for i := range routes {
		if routes[i].Role == "" {
			routes[i].Role = function.RoleAPI
		}
	}
	return routes
}

// Workers lists every worker.
func Workers(d Dependencies) []function.Worker {
	sweeper := &provisioning.Sweeper{Records: d.WorkerStore, Nudger: d.Nudger, Now: time.Now}
	return []function.Worker{
		workers.Reconcile(&provisioning.Reconciler{
			Records: d.WorkerStore, Cluster: d.Cluster, Secrets: d.SecretStore, Prober: d.Prober, Now: time.Now,
			WatchTimeout: d.WatchTimeout,
		}),
		workers.Sweep(sweeper),
		workers.DeadLetter(sweeper),
		workers.Observe(&provisioning.HealthController{
			Records: d.WorkerStore, Pods: d.Pods, Prober: d.Prober, Nudger: d.Nudger, Now: time.Now,
		}),
		workers.Recount(d.Counts),
		workers.Bill(&billing.Enforcer{Store: d.Accounts, Agents: d.Agents, Now: d.billingClock()}),
		workers.Collect(&metrics.Collector{
			Agents: d.WorkerStore, Source: d.MetricsSource, Records: d.MetricsWorkerStore, Addresses: d.Addresses,
			Now: time.Now,
		}),
		workers.CollectOrphans(&provisioning.OrphanCollector{Records: d.WorkerStore, Namespaces: d.Namespaces,
			Now: time.Now}),
	}
}
