// Package config reads the environment into one documented struct per role. No other package reads the environment. A
// missing or invalid value fails the start with the name of its variable.
package config

import (
	"encoding/json"
	"fmt"
	"strconv"

	"agents.example/controlplane/functions/cmd/internal/environment"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/apikey"
	"agents.example/controlplane/shared/handoff"
	"agents.example/controlplane/shared/image"
	"agents.example/controlplane/shared/webhook"
)

// Common is the configuration of every role.
type Common struct {
	// Target is the name of the function to serve. If empty, all functions of the role are served.
	Target string `env:"FUNCTION_TARGET"`
	// Revision is what Cloud Run runs. It sets the variable.
	Revision string `env:"K_REVISION"`
	// Host is the address to listen on. If empty, all addresses.
	Host string `env:"LISTEN_HOST"`
	// Port is the port to listen on.
	Port string `env:"PORT, default=8080"`
	// ProjectID is the Google Cloud project.
	ProjectID string `env:"GOOGLE_CLOUD_PROJECT, required"`
	// Environment is the deployment, such as "prod". Names of agents' secrets begin with it.
	Environment string `env:"ENVIRONMENT, required"`
	// Database is the Firestore database.
	Database string `env:"FIRESTORE_DATABASE, default=(default)"`
	// NudgeTopic is the Pub/Sub topic of nudges.
	NudgeTopic string `env:"NUDGE_TOPIC, default=agent-nudges"`
	// WebhookTopic is the Pub/Sub topic of nudges of webhooks.
	WebhookTopic string `env:"WEBHOOK_TOPIC, default=webhook-nudges"`
	// SecretRegions are the regions that store secrets. If empty, replication is automatic.
	SecretRegions []string `env:"SECRET_REGIONS"`
	// RateLimitFactor multiplies the documented rate limits.
	RateLimitFactor int `env:"RATE_LIMIT_FACTOR, default=1"`
	// SecretManagerWrites is the project's quota of writes in Secret Manager a minute. The quota of reads must be at
	// least as large.
	SecretManagerWrites SecretManagerWrites `env:"SECRET_MANAGER_WRITES_PER_MINUTE, default=600"`
	// Maintenance refuses every call that needs an outside system with 503, so that no function writes a record. The
	// operator sets it while the database is replaced.
	Maintenance bool `env:"MAINTENANCE"`
	// MaxFreeAgents is how many organizations on free plans may hold an agent, of all organizations. Creations
	// above are refused. 0 sets no limit.
	MaxFreeAgents uint32 `env:"MAX_FREE_AGENTS, default=0"`
	// Debug enables debug logging.
	Debug bool `env:"LOG_DEBUG"`
	// TraceRatio is the share of requests that are traced, from 0 to 1. It must be the same in all functions.
	TraceRatio float64 `env:"TRACE_RATIO, default=0"`

	// Issuer is the identity provider's issuer URL, exactly as in its tokens.
	Issuer string `env:"IDENTITY_ISSUER, required"`
	// AuthorizedParties lists the accepted azp claims (origins) of session tokens. If empty, all are accepted.
	AuthorizedParties []string `env:"IDENTITY_AUTHORIZED_PARTIES"`

	// AgentDomain is the parent domain of the agents' hostnames.
	AgentDomain string `env:"AGENT_DOMAIN, required"`
	// AgentScheme is the scheme of agents' URLs.
	AgentScheme string `env:"AGENT_SCHEME, default=https"`
	// AgentURLPort is the port in agents' URLs, if it is not the default of the scheme.
	AgentURLPort string `env:"AGENT_URL_PORT"`
	// RouterAddress is dialed for every agent instead of its hostname, for networks without the DNS records.
	RouterAddress string `env:"AGENT_ROUTER_ADDRESS"`
	// HandoffKey signs the links that open an agent's dashboard: a private P-256 key as a JSON Web Key. If empty, the
	// links are disabled.
	HandoffKey handoff.Key `env:"HANDOFF_SIGNING_KEY"`
	// HandoffKeys are the public keys of all links that are still valid, as a JSON Web Key Set.
	HandoffKeys handoff.KeySet `env:"HANDOFF_PUBLIC_KEYS"`
	// WebhookKey is the key from which the signing secrets of webhooks derive: at least 32 bytes, in base64. Another
	// key changes the secrets of all webhooks, so NextWebhookKey and PreviousWebhookKey sign, too, during a change.
	WebhookKey         webhook.Secrets `env:"WEBHOOK_SIGNING_KEY"`
	NextWebhookKey     webhook.Secrets `env:"WEBHOOK_SIGNING_KEY_NEXT"`
	PreviousWebhookKey webhook.Secrets `env:"WEBHOOK_SIGNING_KEY_PREVIOUS"`
	// Cells lists the clusters that host agents, as a JSON array.
	Cells Cells `env:"CELLS, required"`
	Images

	Local Local
}

// Images say what agents run when the catalog does not.
type Images struct {
	// PlatformImage is the control plane's own image, by digest. It runs the front of every agent.
	PlatformImage string `env:"PLATFORM_IMAGE, required"`
	// AgentImage is the image "default", by digest. If empty, it is the sample agent of PLATFORM_IMAGE.
	AgentImage string `env:"AGENT_IMAGE"`
	// AgentPort is the $PORT on which a container of AgentImage listens.
	AgentPort AgentPort `env:"AGENT_PORT, default=3000"`
	// AgentAPIPort is the port on which it serves /v1, if it is not AGENT_PORT.
	AgentAPIPort AgentPort `env:"AGENT_API_PORT"`
	// AgentHealthPath is a path that it answers with status 200 once it serves. If empty, a container that accepts
	// connections serves.
	AgentHealthPath HealthPath `env:"AGENT_HEALTH_PATH"`
	// AgentAuth says who checks the credentials of requests to an agent: "front", or "image" for an image that checks
	// them itself and finds them in its environment.
	AgentAuth AgentAuth `env:"AGENT_AUTH, default=front"`
	// AgentRegistries are the beginnings of references that custom images may have. If empty, no agent may have one.
	AgentRegistries Registries `env:"AGENT_REGISTRIES"`
}

// BuiltInImages returns the images that the configuration names.
func (c Common) BuiltInImages() image.BuiltIn {
	b := image.BuiltIn{
		Platform: c.PlatformImage, Agent: c.AgentImage, Cells: map[string]string{}, Registries: c.AgentRegistries,
		Runtime: image.Runtime{
			Port: int(c.AgentPort), APIPort: int(c.AgentAPIPort), HealthPath: string(c.AgentHealthPath),
			Auth: string(c.AgentAuth),
		},
	}
	for _, cell := range c.Cells {
		if cell.Image != "" {
			b.Cells[cell.Name] = cell.Image
		}
	}
	return b
}

// Local holds the addresses of local stand-ins for Google Cloud services. In production all are empty.
type Local struct {
	FirestoreEmulator string `env:"FIRESTORE_EMULATOR_HOST"`
	PubSubEmulator    string `env:"PUBSUB_EMULATOR_HOST"`
	SecretManager     string `env:"SECRET_MANAGER_ENDPOINT"`
	Monitoring        string `env:"MONITORING_ENDPOINT"`
	Storage           string `env:"STORAGE_EMULATOR_HOST"`
	// AllowLoopbackWebhooks lets webhooks have receivers on this machine.
	AllowLoopbackWebhooks bool `env:"WEBHOOK_ALLOW_LOOPBACK"`
}

// Peppers are the hash keys for stored API keys: at least 32 bytes each, in base64. Package apikey says how one
// replaces another.
type Peppers struct {
	// Pepper is the one under which keys are created. Package wire refuses to serve a route that authenticates its
	// callers without it.
	Pepper apikey.Pepper `env:"API_KEY_PEPPER"`
	// NextPepper is accepted, because the next deployment makes it the present one.
	NextPepper apikey.Pepper `env:"API_KEY_PEPPER_NEXT"`
	// PreviousPepper is accepted, because keys may not have been used since it was the present one.
	PreviousPepper apikey.Pepper `env:"API_KEY_PEPPER_PREVIOUS"`
}

// AcceptedPeppers returns the peppers as authentication needs them.
func (p Peppers) AcceptedPeppers() apikey.Peppers {
	return apikey.Peppers{Present: p.Pepper, Next: p.NextPepper, Previous: p.PreviousPepper}
}

// Routes is the configuration of every role that serves routes.
type Routes struct {
	Common
	Peppers
	// MaxHeldAnswers is how many answers an instance holds open for clients that wait: 70 % of the requests that it
	// serves at the same time, so that Cloud Run adds an instance before all are held.
	MaxHeldAnswers int `env:"MAX_HELD_ANSWERS, default=175"`
	// EdgeSecrets are the secrets of the load balancer, which sends the first of them with every request. Only requests
	// with one of them may report their client's address.
	EdgeSecrets EdgeSecrets `env:"EDGE_SECRETS"`
	// APIBaseURL is the address of the API for its clients. If empty, clients cannot discover how to sign in, and the
	// tools of /mcp cannot call it.
	APIBaseURL BaseURL `env:"API_BASE_URL"`
	// CLIClientID is the OAuth client of the command line tool at the identity provider. If empty, the tool accepts
	// API keys only.
	CLIClientID string `env:"CLI_CLIENT_ID"`
	// CLIScopes are the scopes that the command line tool asks the identity provider for.
	CLIScopes string `env:"CLI_SCOPES, default=openid profile email offline_access"`
	// BackupForGKE says whether the cells have backup plans: if so, plans name daily backups among what they include.
	BackupForGKE bool `env:"BACKUP_FOR_GKE"`
	// ClientsBucket is the bucket with the published clients of the API. If empty, /clients has none.
	ClientsBucket string `env:"CLIENTS_BUCKET"`
	// ConsoleClientID is the OAuth client of the console at the identity provider. If empty, the console offers only to
	// paste a token or an API key.
	ConsoleClientID string `env:"CONSOLE_CLIENT_ID"`
	// ConsoleScopes are the scopes that the console asks the identity provider for.
	ConsoleScopes string `env:"CONSOLE_SCOPES, default=openid profile email offline_access"`
	// SupportURL is where the console sends people who need support. If empty, it names no address.
	SupportURL SupportURL `env:"SUPPORT_URL"`
}

// Accounts is the configuration of the accounts role.
type Accounts struct {
	Routes
	Providers
}

// Providers configures the payment provider. Without a key, payments are disabled and the operator sets plans.
type Providers struct {
	// StripeKey is the secret or restricted key of Stripe's API.
	StripeKey environment.Secret `env:"STRIPE_API_KEY"`
	// StripeWebhookSecret is the signing secret of the endpoint that Stripe sends events to.
	StripeWebhookSecret environment.Secret `env:"STRIPE_WEBHOOK_SECRET"`
	// StripeURL is the base URL of Stripe's API. If empty, it is the real one.
	StripeURL string `env:"STRIPE_URL"`
	// AppURL is the page of the web app to which the provider's pages redirect.
	AppURL string `env:"APP_URL"`
}

// Worker is the configuration of the worker role.
type Worker struct {
	Common
	Providers
	// KeysURL is the address of the control plane's /.well-known/jwks.json. Fronts verify dashboard links with it. If
	// empty, they refuse every link.
	KeysURL string `env:"JWKS_URL"`
	// RouterNamespace is the namespace of the router. Only its pods may send requests to agents.
	RouterNamespace string `env:"ROUTER_NAMESPACE, default=agent-gateway"`
	// GateAddress is the address of the gate's Service in every cell, perhaps with the port of HTTP. If empty, it is
	// 34.118.224.53.
	GateAddress string `env:"GATE_ADDRESS"`
	// Resolvers lists further ranges (CIDR) of DNS servers, in addition to those of a GKE Autopilot cluster. Cells
	// refuse others than their policies name.
	Resolvers []string `env:"AGENT_RESOLVERS"`
	// StorageClass is the storage class of agents' volumes. If empty, it is the cluster's default.
	StorageClass string `env:"AGENT_STORAGE_CLASS"`
	// MonitoringProject is the project with the metrics of the cells. If empty, it is the Google Cloud project.
	MonitoringProject string `env:"MONITORING_PROJECT"`
	// PushIssuer is the issuer of the tokens in Pub/Sub pushes.
	PushIssuer string `env:"PUSH_ISSUER, default=https://accounts.google.com"`
	// PushServiceAccount is the service account in the tokens of pushes.
	PushServiceAccount string `env:"PUSH_SERVICE_ACCOUNT, required"`
	// PushAudience is the audience of the tokens in pushes.
	PushAudience string `env:"PUSH_AUDIENCE, required"`
}

// Cell is one cluster.
type Cell struct {
	Name   string `json:"name"`
	Region string `json:"region"`
	// Cluster and Location identify the cluster in metrics. If empty, they are the cell's name and region.
	Cluster  string `json:"cluster,omitempty"`
	Location string `json:"location,omitempty"`
	// Endpoint is the DNS endpoint of a GKE cluster, called with the function's service account.
	Endpoint string `json:"endpoint,omitempty"`
	// Kubeconfig is the path of a kubeconfig file, instead of an endpoint.
	Kubeconfig string `json:"kubeconfig,omitempty"`
	// Closed means that the cell accepts no new agents.
	Closed bool `json:"closed,omitempty"`
	// Image overrides AGENT_IMAGE.
	Image string `json:"image,omitempty"`
}

// Cells is a list of cells, decoded from JSON.
type Cells []Cell

// EnvDecode implements envconfig.Decoder.
func (c *Cells) EnvDecode(value string) error {
	if value == "" {
		return nil
	}
	var cells []Cell
	if err := json.Unmarshal([]byte(value), &cells); err != nil {
		return fmt.Errorf(`want a JSON array such as [{"name": "us-central1-1", "region": "us-central1", "endpoint": "https://..."}]: %w`, err)
	}
	for i, cell := range cells {
		if cell.Name == "" || cell.Region == "" || (cell.Endpoint == "") == (cell.Kubeconfig == "") {
			return fmt.Errorf("cell %d: name, region and either endpoint or kubeconfig are required", i)
		}
	}
	*c = cells
	return nil
}

// Placement returns the cells as routes need them.
func (c Cells) Placement() agent.Cells {
	cells := make(agent.Cells, len(c))
	for i, cell := range c {
		cells[i] = agent.Cell{Name: cell.Name, Region: cell.Region, Closed: cell.Closed}
	}
	return cells
}

// SecretManagerWrites is a quota of writes a minute.
type SecretManagerWrites int

// minSecretManagerWrites is the quota of a new project. A smaller one would not allow the largest request.
const minSecretManagerWrites = 600

// EnvDecode implements envconfig.Decoder.
func (w *SecretManagerWrites) EnvDecode(value string) error {
	n, err := strconv.Atoi(value)
	if err != nil || n < minSecretManagerWrites {
		return fmt.Errorf("want a whole number of at least %d", minSecretManagerWrites)
	}
	*w = SecretManagerWrites(n)
	return nil
}

// Addresses returns the settings of agent URLs.
func (c Common) Addresses() agent.Addresses {
	return agent.Addresses{Domain: c.AgentDomain, Scheme: c.AgentScheme, Port: c.AgentURLPort}
}
