package config

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/sethvargo/go-envconfig"
)

// Operator is the configuration of the operator command.
type Operator struct {
	// ProjectID, Database and the topics are the same as in Common.
	ProjectID    string `env:"GOOGLE_CLOUD_PROJECT, required"`
	Database     string `env:"FIRESTORE_DATABASE, default=(default)"`
	NudgeTopic   string `env:"NUDGE_TOPIC, default=agent-nudges"`
	WebhookTopic string `env:"WEBHOOK_TOPIC, default=webhook-nudges"`
	// Peppers are those of the functions. Only commands about API keys need them.
	Peppers
	// Cells lists the clusters as in Common. Only commands that change the catalog of images, which call the clusters
	// with the operator's Google credentials, and those that move agents need them.
	Cells Cells `env:"CELLS"`
	// Note is what audit log entries say about the operator in addition to the identity.
	Note string `env:"OPERATOR, default=operator"`

	Local
}

// ReadyFile returns the environment of the functions of a local cloud, from the file that it wrote with -ready.
func ReadyFile(path string) (envconfig.Lookuper, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the ready file of a local cloud: %w; start one with -ready", err)
	}
	var facts struct {
		ProjectID string `json:"project_id"`
		Firestore string `json:"firestore_emulator_host"`
		PubSub    string `json:"pubsub_emulator_host"`
		// Kubeconfig is the administrator's. The cluster is the only cell.
		Kubeconfig string `json:"kubeconfig"`
		Pepper     string `json:"api_key_pepper"`
	}
	if err := json.Unmarshal(b, &facts); err != nil || facts.ProjectID == "" {
		return nil, fmt.Errorf("%s is not the ready file of a local cloud; start one with -ready", path)
	}
	env := map[string]string{
		"GOOGLE_CLOUD_PROJECT": facts.ProjectID, "FIRESTORE_EMULATOR_HOST": facts.Firestore,
		"PUBSUB_EMULATOR_HOST": facts.PubSub,
	}
	if facts.Pepper != "" {
		env["API_KEY_PEPPER"] = facts.Pepper
	}
	if facts.Kubeconfig != "" {
		cells, err := json.Marshal(Cells{{Name: "local", Region: "local", Kubeconfig: facts.Kubeconfig}})
		if err != nil {
			return nil, err
		}
		env["CELLS"] = string(cells)
	}
	return envconfig.MapLookuper(env), nil
}
