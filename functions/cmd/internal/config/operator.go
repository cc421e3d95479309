package config

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/sethvargo/go-envconfig"
)

// Operator is the configuration of the operator's command.
type Operator struct {
	// ProjectID, Database and NudgeTopic are as for every role.
	ProjectID  string `env:"GOOGLE_CLOUD_PROJECT, required"`
	Database   string `env:"FIRESTORE_DATABASE, default=(default)"`
	NudgeTopic string `env:"NUDGE_TOPIC, default=agent-nudges"`
	// Name says in the audit log who the operator is.
	Name string `env:"OPERATOR, default=operator"`

	Local
}

// ReadyFile looks up in the file that a local cloud wrote what its functions find in their environment.
func ReadyFile(path string) (envconfig.Lookuper, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the facts of a local cloud: %w; start one with -ready", err)
	}
	var facts struct {
		ProjectID string `json:"project_id"`
		Firestore string `json:"firestore_emulator_host"`
		PubSub    string `json:"pubsub_emulator_host"`
	}
	if err := json.Unmarshal(b, &facts); err != nil || facts.ProjectID == "" {
		return nil, fmt.Errorf("%s is not a file that a local cloud wrote with -ready", path)
	}
	return envconfig.MapLookuper(map[string]string{
		"GOOGLE_CLOUD_PROJECT": facts.ProjectID, "FIRESTORE_EMULATOR_HOST": facts.Firestore,
		"PUBSUB_EMULATOR_HOST": facts.PubSub,
	}), nil
}
