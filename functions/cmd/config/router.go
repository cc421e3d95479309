package config

import "time"

// Router is the configuration of a cell's router.
type Router struct {
	// CellDomain is the parent of the hostnames of the cell's agents: "<cell>.<agent domain>".
	CellDomain string `env:"CELL_DOMAIN, required"`
	// Host is the address to listen on. If empty, all addresses.
	Host string `env:"LISTEN_HOST"`
	// Port is the port of requests.
	Port string `env:"PORT, default=8080"`
	// MetricsPort is the port of metrics. The load balancer must not lead to it.
	MetricsPort string `env:"METRICS_PORT, default=9090"`
	// Kubeconfig is the file that gives access to the cell. If empty, the router runs in the cell.
	Kubeconfig string `env:"KUBECONFIG"`
	// NotifierURL is where the cell's notifier listens, which wakes agents that sleep. If empty, requests wake none.
	NotifierURL string `env:"NOTIFIER_URL"`
	// DrainDelay is how long the router accepts connections after SIGTERM, while the load balancer learns that it ends.
	// Requests in flight then have another minute. The pod's grace period must be longer than both together.
	DrainDelay time.Duration `env:"DRAIN_DELAY, default=15s"`
	// Debug enables debug logging.
	Debug bool `env:"LOG_DEBUG"`
}
