package cloud

import (
	"encoding/base64"
	"fmt"
	"net"
	"strconv"

	"agents.example/controlplane/emulators/cloudrun"
	"agents.example/controlplane/emulators/dataplane"
	"agents.example/controlplane/emulators/issuer"
	"agents.example/controlplane/shared/handoff"
)

// AgentDomain is the domain of agents on a laptop: browsers resolve every name below localhost to the machine itself.
const AgentDomain = "agents.localhost"

// The only cell. Its cluster has the same name and location in Cloud Monitoring.
const (
	cellName   = "local"
	cellRegion = "us-central1"
)

// pepperVariable is the variable with the key of the hashes of API keys.
const pepperVariable = "API_KEY_PEPPER"

// pushAccount is the service account that signs pushes.
const pushAccount = "pubsub-push@local.iam.gserviceaccount.com"

// limitFactor multiplies the rate limits, because tests send more requests than clients do.
func (c *Cloud) limitFactor() int {
	if c.options.ProductionLimits {
		return 1
	}
	return 100
}

// secretManagerWrites is Google's quota of writes in Secret Manager for a new project, a minute.
const secretManagerWrites = 600

// environment returns the environment variables of every function.
func (c *Cloud) environment() (map[string]string, error) {
	_, routerPort, err := net.SplitHostPort(c.Router.Addr)
	if err != nil {
		return nil, fmt.Errorf("read the router's address: %w", err)
	}
	cells, err := c.cells(allFunctions)
	if err != nil {
		return nil, err
	}
	signing, published, err := handoff.Generate()
	if err != nil {
		return nil, err
	}
	env := map[string]string{
		"HANDOFF_SIGNING_KEY":     signing,
		"HANDOFF_PUBLIC_KEYS":     published,
		"GOOGLE_CLOUD_PROJECT":    c.Ready.ProjectID,
		"ENVIRONMENT":             dataplane.Environment,
		"GATE_ADDRESS":            c.gateAddress(),
		"FIRESTORE_EMULATOR_HOST": c.Ready.FirestoreEmulatorHost,
		pubsubHost:                c.Ready.PubSubEmulatorHost,
		"SECRET_MANAGER_ENDPOINT": c.Secrets.Addr,
		"MONITORING_ENDPOINT":     c.Monitoring.Addr,
		"STORAGE_EMULATOR_HOST":   c.storage,
		"CLIENTS_BUCKET":          clientsBucket,
		"IDENTITY_ISSUER":         c.Issuer.URL(),
		"CONSOLE_CLIENT_ID":       issuer.DefaultClientID,
		"SUPPORT_URL":             "mailto:support@example.com",
		"API_BASE_URL":            c.Ready.BaseURL,
		"CLI_CLIENT_ID":           issuer.CLIClientID,
		"WEBHOOK_SIGNING_KEY":     base64.StdEncoding.EncodeToString(c.webhookKey),
		"WEBHOOK_ALLOW_LOOPBACK":  "true",
		pepperVariable:            c.Ready.APIKeyPepper,
		"AGENT_DOMAIN":            AgentDomain,
		"AGENT_SCHEME":            "http",
		"AGENT_URL_PORT":          routerPort,
		"AGENT_ROUTER_ADDRESS":    c.Router.Addr,
		"PLATFORM_IMAGE":          dataplane.Image,
		"JWKS_URL":                c.Ready.BaseURL + "/.well-known/jwks.json",
		cellsVariable:             cells,
		"PUSH_ISSUER":             c.Issuer.URL(),
		"PUSH_AUDIENCE":           c.Ready.BaseURL,
		"PUSH_SERVICE_ACCOUNT":    pushAccount,
		"LISTEN_HOST":             "127.0.0.1",
		"RATE_LIMIT_FACTOR":       strconv.Itoa(c.limitFactor()),
		"MAX_HELD_ANSWERS":        strconv.Itoa(cloudrun.HeldAnswers * c.limitFactor()),

		"SECRET_MANAGER_WRITES_PER_MINUTE": strconv.Itoa(secretManagerWrites * c.limitFactor()),
	}
	c.useNode(env)
	if c.Stripe != nil {
		env["STRIPE_API_KEY"], env["STRIPE_WEBHOOK_SECRET"], env["STRIPE_URL"] = c.Stripe.Key, c.Stripe.WebhookSecret,
			c.Stripe.URL
		env["APP_URL"] = c.Ready.BaseURL + "/console"
	}
	return env, nil
}
