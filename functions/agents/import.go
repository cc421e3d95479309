package agents

import (
	"github.com/google/jsonschema-go/jsonschema"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/webhook"
)

// importURL is where the archive of a volume is. It may be signed, so it is stored as a secret is.
type importURL string

// JSONSchema implements function.Schemer.
func (importURL) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{
		Type: "string", MinLength: new(1), MaxLength: new(webhook.MaxURLBytes),
		Examples: []any{"https://storage.example.com/archives/agent.tar?signature=..."},
		Description: "The URL of an archive that GET /agents/{agent_id}/snapshots/{snapshot_id}/export has sent. The " +
			"new agent's volume begins with the files in it; everything else in the archive is left to the request. " +
			"The URL must begin with https://, its host must have public addresses, and redirects are not followed. " +
			"It may be signed: it is stored as secrets are, and never shown. If the archive cannot be fetched for a " +
			"reason that may pass, it is tried again; otherwise the agent ends in error with the code import_failed. " +
			"Not together with from_snapshot.",
	}
}

// importViolations checks import_url by the rules for the URLs that the control plane calls. No violation quotes it.
func importViolations(urls webhook.URLPolicy) func(body map[string]any) []fault.Violation {
	return func(body map[string]any) []fault.Violation {
		raw, ok := body["import_url"].(string)
		if !ok {
			return nil // the schema reports it
		}
		why := urls.Violation(raw)
		if _, both := body["from_snapshot"]; both {
			why = "an agent begins with the data of a snapshot or of an archive: leave out from_snapshot or import_url"
		}
		if why == "" {
			return nil
		}
		return []fault.Violation{fault.ValueError([]any{"body", "import_url"}, why)}
	}
}

// secrets are the values of the request that belong in the secret store.
func (in createInput) secrets() map[string]string {
	secrets := agent.SecretEnv(in.Body.Env)
	if in.Body.ImportURL != "" {
		secrets[dataplane.EnvImportURL] = string(in.Body.ImportURL)
	}
	return secrets
}
