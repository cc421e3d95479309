package environment

import (
	"errors"
	"io"
	"log/slog"
	"net/netip"

	"agents.example/controlplane/shared/dataplane"
)

// Front is the configuration of the front. The pod template sets it.
type Front struct {
	// Host is the address to listen on. If empty, all addresses.
	Host string `env:"LISTEN_HOST"`
	// Port is the container's $PORT, and APIPort the port of /v1, if that is another port.
	Port    int `env:"AGENT_PORT, default=3000"`
	APIPort int `env:"AGENT_API_PORT"`
	// HealthPath is the container's health check. If empty, a container that accepts a connection is ready.
	HealthPath string `env:"AGENT_HEALTH_PATH"`
	// Auth is "front", or "image" for images that check credentials themselves, and get them for that.
	Auth Auth `env:"AGENT_AUTH, default=front"`
	// PublicPaths need no credential.
	PublicPaths []string `env:"AGENT_PUBLIC_PATHS"`
	// Hostname is the agent's hostname.
	Hostname string `env:"AGENT_HOSTNAME"`
	// KeysURL serves the keys that verify dashboard links. If empty, links are refused.
	KeysURL string `env:"JWKS_URL"`
	// Username and Password are the credentials of the dashboard, and APIKey the key of the API.
	Username string `env:"DASHBOARD_USERNAME, required"`
	Password Secret `env:"DASHBOARD_PASSWORD, required"`
	APIKey   Secret `env:"API_SERVER_KEY, required"`
	// SleepAfter is how many seconds without use put the agent to sleep; 0 is never. BusyPath is where the container
	// says that it must not sleep, and DataDir the volume, with a file that may say so, too. AgentID names the agent
	// to the control plane.
	SleepAfter int64  `env:"AGENT_SLEEP_AFTER"`
	BusyPath   string `env:"AGENT_BUSY_PATH"`
	DataDir    string `env:"DATA_DIR"`
	AgentID    string `env:"AGENT_ID"`
	// Metrics serves the memory of the sandbox on port 9091.
	Metrics bool `env:"FRONT_METRICS"`
}

// Seed is the configuration of the front's program where it writes the agent's files to the volume.
type Seed struct {
	// SeedDir has the files, and DataDir is the volume.
	SeedDir string `env:"SEED_DIR, required"`
	DataDir string `env:"DATA_DIR, required"`
}

// Export is the configuration of the front's program where it writes an archive of a volume.
type Export struct {
	DataDir string `env:"DATA_DIR, required"`
}

// Import is the configuration of the front's program where it fills the agent's volume from an archive.
type Import struct {
	// URL has the archive.
	URL     Secret `env:"AGENT_IMPORT_URL, required"`
	DataDir string `env:"DATA_DIR, required"`
	// MaxBytes bounds the files of the archive.
	MaxBytes int64 `env:"IMPORT_MAX_BYTES, required"`
	// AllowLoopback lets this machine have the archive. It is for local development.
	AllowLoopback bool `env:"IMPORT_ALLOW_LOOPBACK"`
	// Gate is the address of the agent's only way out; empty for an agent without one.
	Gate netip.Addr `env:"EGRESS_GATE"`
}

// Trust is the configuration of the front's program where it writes the certificates that the agent trusts.
type Trust struct {
	// Host is the pod's address. If empty, the system chooses one.
	Host string `env:"LISTEN_HOST"`
	// CAURL has the certificate of the agent's CA, and CAFile is where the certificates go.
	CAURL  string `env:"EGRESS_CA_URL, required"`
	CAFile string `env:"EGRESS_CA_FILE, required"`
	// RootsFile has the certificates that the system trusts. If empty, the usual places are tried.
	RootsFile string `env:"SSL_CERT_FILE"`
}

// Auth says who checks credentials.
type Auth string

// EnvDecode implements envconfig.Decoder.
func (a *Auth) EnvDecode(value string) error {
	switch *a = Auth(value); value {
	case dataplane.AuthFront, dataplane.AuthImage:
		return nil
	default:
		return errors.New("it must be front or image")
	}
}

// SampleAgent is the configuration of the sample agent: an agent's variables.
type SampleAgent struct {
	// Host is the address to listen on. If empty, all addresses.
	Host string `env:"LISTEN_HOST"`
	// Port is the port to listen on.
	Port int `env:"PORT, default=3000"`
	// DataDir keeps the notes.
	DataDir string `env:"DATA_DIR, default=/data"`
	// OpenAIURL is the base URL of an OpenAI-compatible API, which gets the chats if OpenAIKey is set.
	OpenAIURL string `env:"OPENAI_BASE_URL, default=https://api.openai.com/v1"`
	OpenAIKey Secret `env:"OPENAI_API_KEY"`
	// OpenAIModel answers chats that name no model.
	OpenAIModel string `env:"OPENAI_MODEL, default=gpt-4o-mini"`
}

// PodLogger is the log of the binaries in agents' pods. It writes one JSON object a line, as Cloud Logging reads it.
func PodLogger(out io.Writer) *slog.Logger {
	return slog.New(slog.NewJSONHandler(out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		switch a.Key {
		case slog.LevelKey:
			a.Key = "severity"
		case slog.MessageKey:
			a.Key = "message"
		}
		return a
	}}))
}
