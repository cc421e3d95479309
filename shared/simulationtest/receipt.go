package simulationtest

import (
	"time"

	"agents.example/controlplane/shared/agent"
)

// checkDeletion checks that a deleting agent's record calls nothing gone that still exists. A namespace that a slower
// worker made again was gone in between.
func (w *World) checkDeletion(a *agent.Agent) {
	id, d := short(a.ID), a.Deletion
	if a.Status != agent.Deleting && d != (agent.Deletion{}) {
		w.violate("receipt", "agent %s is %s and has a deletion: %+v", id, a.Status, d)
	}
	seen := !d.NamespaceGoneAt.IsZero() || !d.VolumeGoneAt.IsZero()
	if seen && w.left(a.ID) {
		w.violate("receipt", "the namespace of agent %s is called gone and was never removed", id)
	}
	if !d.SecretsGoneAt.IsZero() {
		w.checkSecretsGone(a.ID)
	}
}

// checkReceipt checks what is stored of a deletion when the agent's record is removed.
func (w *World) checkReceipt(id string, d agent.Deletion) {
	for name, at := range map[string]time.Time{
		"request": d.RequestedAt, "request of the cluster": d.ClusterRequestedAt, "namespace": d.NamespaceGoneAt,
		"volume": d.VolumeGoneAt, "request of the secret store": d.SecretsRequestedAt, "secrets": d.SecretsGoneAt,
	} {
		if at.IsZero() {
			w.violate("receipt", "the receipt of agent %s has no time for %s", short(id), name)
		}
	}
	for _, c := range w.cells() {
		if c.namespaces[id] != nil && !c.removed[id] {
			w.violate("receipt", "agent %s is called gone, and the cell %s has its namespace", short(id), c.name)
		}
	}
	w.checkSecretsGone(id)
}

func (w *World) checkSecretsGone(id string) {
	for _, found := range w.Secrets.secrets {
		if found.agentID == id {
			w.violate("receipt", "the secret %s of agent %s is called gone and exists", found.key, short(id))
		}
	}
}
