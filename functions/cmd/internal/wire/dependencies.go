package wire

import (
	"context"
	"fmt"
	"slices"
	"time"

	"agents.example/controlplane/functions"
	"agents.example/controlplane/functions/console"
	"agents.example/controlplane/functions/mcp/mcproute"
	"agents.example/controlplane/functions/system"
	"agents.example/controlplane/infra/agentprobe"
	"agents.example/controlplane/infra/storage"
	"agents.example/controlplane/infra/webhooksender"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/handoff"
	"agents.example/controlplane/shared/webhook"
)

// fill sets the fields of Dependencies that belong to one need. needs are all needs of the function.
type fill func(o *Clients, d *functions.Dependencies, needs []function.Need) error

// fills has one entry for every need.
func fills() map[function.Need]fill {
	return map[function.Need]fill{
		function.Firestore:      fillFirestore,
		function.FirestoreRead:  fillFirestoreReads,
		function.Publish:        fillPublish,
		function.NudgeWebhooks:  fillNudgeWebhooks,
		function.SecretManage:   fillSecretStore,
		function.SecretCollect:  fillSecretLister,
		function.SecretAdd:      fillSecretWriter,
		function.SecretRead:     fillCredentials,
		function.ClusterApply:   fillCluster,
		function.ClusterLook:    fillPodsAndObjects,
		function.ClusterCollect: fillNamespaces,
		function.PodLogs:        fillLogs,
		function.LogKeep:        fillLogKeeper,
		function.PodExec:        fillCommands,
		function.PodQuiesce:     fillQuiescer,
		function.GatewayAccess:  fillProber,
		function.Payments:       fillPayments,
		function.Members:        fillMembers,
		function.Monitoring:     fillMetricsSource,
		function.HandoffSign:    fillHandoff,
		function.WebhookSign:    fillWebhookSecrets,
		function.WebhookSend:    fillWebhookSender,
		function.ClientsRead:    fillClients,
		function.BackupsRead:    fillBackups,
	}
}

// For implements functions.Opener.
func (o *Clients) For(needs []function.Need) (functions.Dependencies, error) {
	d := functions.Dependencies{Settings: functions.Settings{
		Revision: o.config.Revision,
		Cells:    o.config.Cells.Placement(), Addresses: o.config.Addresses(), Pepper: o.settings.Peppers.Present,
		API: mcproute.API{
			BaseURL: o.settings.APIBaseURL, Vouch: o.settings.voucher().Vouch, Open: o.settings.MCP,
			// An instance that holds all answers, too, has places left for the calls of these requests' tools.
			MaxRequests: o.settings.MaxHeldAnswers / 4,
		},
		HandoffKeys: o.config.HandoffKeys, BillingClock: o.settings.BillingClock, Slots: o.slots,
		CommandSlots: o.commandSlots, Sent: o.sent,
		SignIn: system.SignIn{
			BaseURL: o.settings.APIBaseURL, Issuer: o.config.Issuer, ClientID: o.settings.CLIClientID,
			Scopes: o.settings.CLIScopes,
		},
		WebhookURLs: o.webhookURLs(), BackupForGKE: o.settings.BackupForGKE,
		Console: console.Options{
			Issuer: o.config.Issuer, ClientID: o.settings.ConsoleClientID, Scopes: o.settings.ConsoleScopes,
			Support: o.settings.SupportURL,
		},
	}}
	all := fills()
	for _, need := range needs {
		f, known := all[need]
		if !known {
			return d, fmt.Errorf("unknown need %q: add an entry to fills in functions/cmd/internal/wire", need)
		}
		if err := f(o, &d, needs); err != nil {
			return d, fmt.Errorf("open %s: %w", need, err)
		}
	}
	return d, nil
}

func fillFirestore(o *Clients, d *functions.Dependencies, needs []function.Need) error {
	client, err := o.firestore()
	if err != nil {
		return err
	}
	// A store nudges after its commits if the function may publish.
	if slices.Contains(needs, function.Publish) {
		if err := fillPublish(o, d, needs); err != nil {
			return err
		}
	}
	d.Agents, d.WorkerStore = client.Agents(d.Nudger), client.WorkerStore()
	d.Keys, d.Directory, d.Organizations = client.Keys(), client.Directory(), client.Directory()
	d.Counts, d.Audit, d.Operations = client.Counts(), client.AuditLog(), client.Operations()
	d.Deletions, d.EgressLog, d.Exports = client.Deletions(), client.EgressLog(), client.WorkerStore()
	d.AuditSeals, d.Events = client.AuditSeals(), client.EventLog()
	d.SecretBudget, d.CleanupBudget = client.SecretBudget(), client.SecretBudget()
	d.Accounts, d.MemberRecords = client.Accounts(), client.Members()
	d.Metrics, d.MetricsWorkerStore = client.Metrics(), client.Metrics()
	d.Webhooks, d.WebhookWorkerStore = client.Webhooks(), client.WebhookWorkerStore()
	d.WebhookEvents = client.EventLog()
	d.Images = client.Images()
	d.Releases, d.ReleaseAgents, d.ReleaseImages = client.Releases(), client.WorkerStore(), client.Images()
	return nil
}

func fillFirestoreReads(o *Clients, d *functions.Dependencies, _ []function.Need) error {
	client, err := o.firestore()
	if err != nil {
		return err
	}
	d.RecordIndex = client.WorkerStore()
	d.Checks = []system.Check{{Name: "firestore", Run: client.Ping}}
	return nil
}

func fillPublish(o *Clients, d *functions.Dependencies, _ []function.Need) error {
	publisher, err := o.publisher()
	if err != nil {
		return err
	}
	d.Nudger = publisher
	return nil
}

func fillNudgeWebhooks(o *Clients, d *functions.Dependencies, _ []function.Need) error {
	publisher, err := o.publisher()
	if err != nil {
		return err
	}
	d.WebhookNudger = publisher
	return o.reportEvents()
}

func fillSecretStore(o *Clients, d *functions.Dependencies, _ []function.Need) error {
	secrets, err := o.secrets()
	if err == nil {
		d.SecretStore = secrets
	}
	return err
}

func fillSecretLister(o *Clients, d *functions.Dependencies, _ []function.Need) error {
	secrets, err := o.secrets()
	if err == nil {
		d.SecretLister = secrets
	}
	return err
}

func fillSecretWriter(o *Clients, d *functions.Dependencies, _ []function.Need) error {
	secrets, err := o.secrets()
	if err == nil {
		d.SecretWriter = secrets
	}
	return err
}

func fillCredentials(o *Clients, d *functions.Dependencies, _ []function.Need) error {
	secrets, err := o.secrets()
	if err == nil {
		d.Credentials = secrets
	}
	return err
}

// One client of the cells serves all needs of them. The API servers know which rights the caller has.
func fillCluster(o *Clients, d *functions.Dependencies, _ []function.Need) error {
	clusters, err := o.clusters()
	if err == nil {
		d.Cluster, d.Volumes, d.Readers = clusters, clusters, clusters
	}
	return err
}

func fillPodsAndObjects(o *Clients, d *functions.Dependencies, _ []function.Need) error {
	clusters, err := o.clusters()
	if err == nil {
		d.Pods, d.Objects = clusters, clusters
	}
	return err
}

func fillNamespaces(o *Clients, d *functions.Dependencies, _ []function.Need) error {
	clusters, err := o.clusters()
	if err == nil {
		d.Namespaces = clusters
	}
	return err
}

func fillLogs(o *Clients, d *functions.Dependencies, _ []function.Need) (err error) {
	d.Logs, err = o.logs()
	return err
}

func fillLogKeeper(o *Clients, d *functions.Dependencies, _ []function.Need) error {
	clusters, err := o.clusters()
	if err == nil {
		d.LogKeeper = clusters
	}
	return err
}

func fillCommands(o *Clients, d *functions.Dependencies, _ []function.Need) (err error) {
	d.Commands, err = o.commands()
	return err
}

func fillQuiescer(o *Clients, d *functions.Dependencies, _ []function.Need) (err error) {
	d.Quiescer, err = o.quiescer()
	return err
}

func fillProber(o *Clients, d *functions.Dependencies, _ []function.Need) error {
	d.Prober = agentprobe.New(agentprobe.Options{Addresses: o.config.Addresses(), DialAddress: o.config.RouterAddress})
	return nil
}

func fillPayments(o *Clients, d *functions.Dependencies, _ []function.Need) (err error) {
	d.Payments, err = o.payments()
	return err
}

func fillMembers(o *Clients, d *functions.Dependencies, _ []function.Need) (err error) {
	d.Members, err = o.members()
	return err
}

func fillMetricsSource(o *Clients, d *functions.Dependencies, _ []function.Need) error {
	source, err := o.metricsSource()
	if err == nil {
		d.MetricsSource = source
	}
	return err
}

func fillHandoff(o *Clients, d *functions.Dependencies, _ []function.Need) error {
	d.Handoff = handoff.NewSigner(o.config.HandoffKey)
	return nil
}

// fillClients leaves the port empty without a bucket.
func fillClients(o *Clients, d *functions.Dependencies, _ []function.Need) error {
	if o.settings.ClientsBucket == "" {
		return nil
	}
	published, err := storage.Open(o.ctx, storage.Options{
		Bucket: o.settings.ClientsBucket, EmulatorHost: o.config.Local.Storage,
	})
	if err == nil {
		d.Clients = published
	}
	return err
}

func fillBackups(o *Clients, d *functions.Dependencies, _ []function.Need) (err error) {
	if o.config.Local.FirestoreEmulator != "" {
		d.Backups = emulatedBackups{}
		return nil
	}
	d.Backups, err = o.backups()
	return err
}

// emulatedBackups stands for the backups of an emulator, which makes none.
type emulatedBackups struct{}

func (emulatedBackups) SafeSince(context.Context) (time.Time, error) { return time.Now(), nil }

// webhookURLs says which URLs webhooks may have.
func (o *Clients) webhookURLs() webhook.URLPolicy {
	return webhook.URLPolicy{AllowLoopback: o.config.Local.AllowLoopbackWebhooks}
}

func fillWebhookSecrets(o *Clients, d *functions.Dependencies, _ []function.Need) error {
	d.WebhookSecrets = o.config.WebhookKey.AlsoSigning(o.config.NextWebhookKey, o.config.PreviousWebhookKey)
	return nil
}

func fillWebhookSender(o *Clients, d *functions.Dependencies, _ []function.Need) error {
	d.WebhookSender = webhooksender.New(webhooksender.Options{Policy: o.webhookURLs()})
	return nil
}
