// Package config is the only reader of the environment: one documented struct a role. A missing or bad value fails the
// start with its name and what it should be.
package config

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"strings"
	"time"

	"github.com/sethvargo/go-envconfig"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/handoff"
)

// Common is the configuration of every role.
type Common struct {
	// Target is the name of the function to serve; empty serves all functions of the role.
	Target string `env:"FUNCTION_TARGET"`
	// Host is the address to listen on; empty listens on all.
	Host string `env:"LISTEN_HOST"`
	// Port is the port to listen on.
	Port string `env:"PORT, default=8080"`
	// ProjectID is the Google Cloud project.
	ProjectID string `env:"GOOGLE_CLOUD_PROJECT, required"`
	// Database is the Firestore database.
	Database string `env:"FIRESTORE_DATABASE, default=(default)"`
	// NudgeTopic is the Pub/Sub topic of nudges.
	NudgeTopic string `env:"NUDGE_TOPIC, default=agent-nudges"`
	// SecretRegions keeps secrets in these regions; empty replicates automatically.
	SecretRegions []string `env:"SECRET_REGIONS"`
	// RateLimitFactor multiplies the documented rate limits.
	RateLimitFactor int `env:"RATE_LIMIT_FACTOR, default=1"`
	// Debug logs more.
	Debug bool `env:"LOG_DEBUG"`
	// TraceRatio is the part of requests that is traced, from 0 to 1, the same in all functions.
	TraceRatio float64 `env:"TRACE_RATIO, default=0"`
	// ProxyHops is how many proxies of ours stand before the function, each of which appends an address to
	// X-Forwarded-For.
	ProxyHops int `env:"PROXY_HOPS, default=0"`

	// Issuer is the identity provider's issuer URL, exactly as in its tokens.
	Issuer string `env:"IDENTITY_ISSUER, required"`
	// AuthorizedParties lists the origins whose session tokens are taken, by their azp claim; empty takes all.
	AuthorizedParties []string `env:"IDENTITY_AUTHORIZED_PARTIES"`
	// Pepper is the key of the hash under which API keys are stored: at least 32 bytes, in base64.
	Pepper Pepper `env:"API_KEY_PEPPER, required"`

	// AgentDomain is the domain below which agents have their hostnames.
	AgentDomain string `env:"AGENT_DOMAIN, required"`
	// AgentScheme is the scheme of agents' URLs.
	AgentScheme string `env:"AGENT_SCHEME, default=https"`
	// AgentPort stands in agents' URLs when it is not the scheme's own.
	AgentPort string `env:"AGENT_PORT"`
	// GatewayAddress is dialled for every agent's hostname instead of what DNS says; for networks without that DNS.
	GatewayAddress string `env:"AGENT_GATEWAY_ADDRESS"`
	// HandoffKey signs the links that open an agent's dashboard: a private P-256 key as a JSON Web Key. Without one
	// there are no such links.
	HandoffKey handoff.Key `env:"HANDOFF_SIGNING_KEY"`
	// HandoffKeys are the public keys of all links that are still good, as a JSON Web Key Set.
	HandoffKeys handoff.KeySet `env:"HANDOFF_PUBLIC_KEYS"`
	// Cells lists the clusters that agents are placed on, as a JSON array.
	Cells Cells `env:"CELLS, required"`

	Local Local
}

// Local holds the addresses of local stand-ins for Google Cloud's services. In production all are empty.
type Local struct {
	FirestoreEmulator string `env:"FIRESTORE_EMULATOR_HOST"`
	PubSubEmulator    string `env:"PUBSUB_EMULATOR_HOST"`
	SecretManager     string `env:"SECRET_MANAGER_ENDPOINT"`
	Monitoring        string `env:"MONITORING_ENDPOINT"`
}

// Accounts is the configuration of the accounts role.
type Accounts struct {
	Common
	Providers
}

// Providers says how the payment provider is reached. Without a key nothing can be paid, and the operator sets plans.
type Providers struct {
	// StripeKey is the secret or restricted key of Stripe's API.
	StripeKey Secret `env:"STRIPE_API_KEY"`
	// StripeWebhookSecret is the signing secret of the endpoint that Stripe sends events to.
	StripeWebhookSecret Secret `env:"STRIPE_WEBHOOK_SECRET"`
	// StripeURL is the address of Stripe's API; empty is Stripe's own.
	StripeURL string `env:"STRIPE_URL"`
	// AppURL is the page of the web app that users come back to from the provider's pages.
	AppURL string `env:"APP_URL"`
}

// Secret is a text that never prints.
type Secret string

// Reveal is the secret.
func (s Secret) Reveal() string { return string(s) }

// String keeps the secret out of formatted text.
func (Secret) String() string { return "[redacted]" }

// GoString keeps the secret out of formatted text.
func (Secret) GoString() string { return "[redacted]" }

// Worker is the configuration of the worker role.
type Worker struct {
	Common
	// AgentImage is the image of agents, by digest.
	AgentImage string `env:"AGENT_IMAGE, required"`
	// GatewayNamespace and GatewayName name the Gateway that routes to agents.
	GatewayNamespace string `env:"GATEWAY_NAMESPACE, default=agent-gateway"`
	GatewayName      string `env:"GATEWAY_NAME, default=agents"`
	// GatewaySources lists ranges (CIDR) that requests to agents come from beside the load balancer's usual ones.
	GatewaySources []string `env:"GATEWAY_SOURCES"`
	// Resolvers lists ranges (CIDR) of DNS servers beside those of a GKE Autopilot cluster.
	Resolvers []string `env:"AGENT_RESOLVERS"`
	// StorageClass is the class of agents' volumes; empty takes the cluster's default.
	StorageClass string `env:"AGENT_STORAGE_CLASS"`
	// MonitoringProject is the project whose metrics are those of the cells; empty is the Google Cloud project.
	MonitoringProject string `env:"MONITORING_PROJECT"`
	// PushIssuer is the issuer of the tokens that pushes are signed with.
	PushIssuer string `env:"PUSH_ISSUER, default=https://accounts.google.com"`
	// PushServiceAccount is the service account that pushes are signed as.
	PushServiceAccount string `env:"PUSH_SERVICE_ACCOUNT, required"`
	// PushAudience is the audience of the tokens that pushes are signed with.
	PushAudience string `env:"PUSH_AUDIENCE, required"`
	// WatchTimeout is how long one push may watch a cluster. It has to be shorter than the subscription's ack deadline.
	WatchTimeout time.Duration `env:"WATCH_TIMEOUT, default=8m"`
}

// Cell is one cluster.
type Cell struct {
	Name   string `json:"name"`
	Region string `json:"region"`
	// Cluster and Location are what metrics name the cluster; empty is the cell's name and its region.
	Cluster  string `json:"cluster,omitempty"`
	Location string `json:"location,omitempty"`
	// Endpoint is the DNS endpoint of a GKE cluster, reached with the function's own Google identity.
	Endpoint string `json:"endpoint,omitempty"`
	// Kubeconfig is the path of a kubeconfig file, instead of an endpoint.
	Kubeconfig string `json:"kubeconfig,omitempty"`
	// Closed cells take no new agents.
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

// Placement is the cells as routes know them.
func (c Cells) Placement() agent.Cells {
	cells := make(agent.Cells, len(c))
	for i, cell := range c {
		cells[i] = agent.Cell{Name: cell.Name, Region: cell.Region, Closed: cell.Closed}
	}
	return cells
}

// Pepper is a secret key. It never prints.
type Pepper []byte

const minPepper = 32

// EnvDecode implements envconfig.Decoder. The error never quotes the value.
func (p *Pepper) EnvDecode(value string) error {
	b, err := base64.StdEncoding.DecodeString(value)
	if err != nil || len(b) < minPepper {
		return fmt.Errorf("want at least %d bytes in standard base64", minPepper)
	}
	*p = b
	return nil
}

// String keeps the key out of formatted text.
func (Pepper) String() string { return "[redacted]" }

// GoString keeps the key out of formatted text.
func (Pepper) GoString() string { return "[redacted]" }

// Addresses says where agents are reached.
func (c Common) Addresses() agent.Addresses {
	return agent.Addresses{Domain: c.AgentDomain, Scheme: c.AgentScheme, Port: c.AgentPort}
}

// Read fills a role's configuration from a lookuper: the environment, or a map.
func Read[T any](ctx context.Context, from envconfig.Lookuper) (T, error) {
	var c T
	err := envconfig.ProcessWith(ctx, &envconfig.Config{Target: &c, Lookuper: withFormerNames{from}})
	if err != nil {
		return c, fmt.Errorf("configuration: %w", err)
	}
	return c, nil
}

// Variables lists the environment variables that the binary of a role reads in production, and whether each is
// required.
func Variables(role function.Role) map[string]bool {
	switch role {
	case function.RoleWorker:
		return variablesOf(reflect.TypeFor[Worker]())
	case function.RoleAccounts:
		return variablesOf(reflect.TypeFor[Accounts]())
	default:
		return variablesOf(reflect.TypeFor[Common]())
	}
}

func variablesOf(t reflect.Type) map[string]bool {
	all := map[string]bool{}
	for f := range t.Fields() {
		name, rest, _ := strings.Cut(f.Tag.Get("env"), ",")
		switch {
		case f.Type == reflect.TypeFor[Local](): // for local stand-ins only
		case name != "":
			all[name] = strings.Contains(rest, "required")
		case f.Type.Kind() == reflect.Struct:
			maps.Copy(all, variablesOf(f.Type))
		}
	}
	return all
}

// formerNames maps variables to the names that they had in the release before.
func formerNames() map[string]string { return map[string]string{"WATCH_TIMEOUT": "WORKER_PATIENCE"} }

// withFormerNames reads a variable under its former name, with a warning, where only that is set.
type withFormerNames struct{ envconfig.Lookuper }

// Lookup implements envconfig.Lookuper.
func (l withFormerNames) Lookup(key string) (string, bool) {
	value, found := l.Lookuper.Lookup(key)
	former := formerNames()[key]
	if found || former == "" {
		return value, found
	}
	if value, found = l.Lookuper.Lookup(former); found {
		slog.Warn("environment variable was renamed; the former name works in this release only", "former", former,
			"name", key)
	}
	return value, found
}
