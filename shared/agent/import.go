package agent

import "agents.example/controlplane/shared/dataplane"

// importURL is the key of the secret from which the agent's volume is filled. Clients cannot set it, do not see it, and
// the agent's container does not get it: the URL of an archive may be signed.
const importURL = dataplane.EnvImportURL

// dropImport forgets the archive with which the agent began, when its pod is replaced after the agent has run: its
// volume is its own by then.
func (a *Agent) dropImport() {
	if a.LastReadyIsolation != "" {
		a.Imports = false
	}
}
