package config

// Notifier is the configuration of a cell's notifier.
type Notifier struct {
	// Host is the address to listen on for health checks and the router. If empty, all addresses.
	Host string `env:"LISTEN_HOST"`
	// Port is the port to listen on for health checks and the router.
	Port string `env:"PORT, default=8080"`
	// ProjectID is the Google Cloud project of the topic.
	ProjectID string `env:"GOOGLE_CLOUD_PROJECT, required"`
	// NudgeTopic is the Pub/Sub topic of nudges.
	NudgeTopic string `env:"NUDGE_TOPIC, default=agent-nudges"`
	// PubSubEmulator is the host:port of a local Pub/Sub emulator. In production it is empty.
	PubSubEmulator string `env:"PUBSUB_EMULATOR_HOST"`
	// Kubeconfig is the file that gives access to the cell. If empty, the notifier runs in the cell.
	Kubeconfig string `env:"KUBECONFIG"`
	// Debug enables debug logging.
	Debug bool `env:"LOG_DEBUG"`
}
