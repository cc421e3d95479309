package config

import (
	"net/netip"
	"time"
)

// Gate is the configuration of a cell's gate.
type Gate struct {
	// Address is the address of the gate's Service, which agents have as their name server.
	Address string `env:"GATE_ADDRESS, default=34.118.224.53"`
	// Host is the address to listen on. If empty, all addresses.
	Host string `env:"LISTEN_HOST"`
	// DNSPort, HTTPPort and TLSPort are where the ports 53, 80 and 443 of the Service lead.
	DNSPort  string `env:"DNS_PORT, default=5353"`
	HTTPPort string `env:"HTTP_PORT, default=8081"`
	TLSPort  string `env:"TLS_PORT, default=8443"`
	// MetricsPort is the port of metrics and health checks. No policy lets an agent reach it.
	MetricsPort string `env:"METRICS_PORT, default=9090"`
	// ProjectID is the Google Cloud project of the topic and of the secrets.
	ProjectID string `env:"GOOGLE_CLOUD_PROJECT, required"`
	// Environment is the deployment whose secrets the gate reads.
	Environment string `env:"ENVIRONMENT, required"`
	// EgressTopic is the Pub/Sub topic of what agents used and were refused.
	EgressTopic string `env:"EGRESS_TOPIC, default=egress-reports"`
	// CASecret is the version of the secret from which the CAs of agents follow, as
	// projects/ID/secrets/NAME/versions/VERSION. If empty, the cell has no brokered secrets.
	CASecret string `env:"CA_SECRET"`
	// PubSubEmulator and SecretManagerEmulator are the host:port of local emulators. In production they are empty.
	PubSubEmulator        string `env:"PUBSUB_EMULATOR_HOST"`
	SecretManagerEmulator string `env:"SECRET_MANAGER_EMULATOR_HOST"`
	// AllowedRanges are ranges in which agents may reach hosts although they are not of the internet. They are for
	// local development.
	AllowedRanges []netip.Prefix `env:"ALLOWED_RANGES"`
	// Kubeconfig is the file that gives access to the cell. If empty, the gate runs in the cell.
	Kubeconfig string `env:"KUBECONFIG"`
	// DrainDelay is how long the gate accepts connections after SIGTERM, while nodes learn that it ends.
	DrainDelay time.Duration `env:"DRAIN_DELAY, default=5s"`
	// Debug enables debug logging.
	Debug bool `env:"LOG_DEBUG"`
}
