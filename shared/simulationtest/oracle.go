package simulationtest

import (
	"slices"
	"strings"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/secret"
)

// check checks what must hold at any time.
func (w *World) check() {
	if w.violation != "" {
		return
	}
	for _, c := range w.cells() {
		for id := range c.troubles {
			if d := w.Database.agents[id]; d != nil {
				w.checkDeadline(&d.agent)
			}
		}
	}
	for _, id := range w.Database.ids {
		w.checkHalfway(&w.Database.agents[id].agent)
	}
	w.checkDeliveries()
	w.noteDown()
	changes := [3]int64{w.Database.Commits, w.clusterChanges(), w.Secrets.changes}
	if changes == w.checked {
		return
	}
	w.checked = changes
	var used organization.Usage
	for _, id := range w.Database.ids {
		a := &w.Database.agents[id].agent
		used = used.Plus(a.HeldUsage())
		w.checkRecord(a)
		w.checkVolume(a)
		w.checkSnapshots(a)
		w.checkExports(a)
		w.checkMove(a)
		w.checkDeletion(a)
		w.checkCredentials(a)
		w.checkEvents(a)
		if n := w.home(id).namespaces[id]; n != nil && n.terminating && a.Status != agent.Deleting &&
			!w.deletedByHand[id] {
			w.violate("namespaces", "the namespace of agent %s, which is %s, was deleted by %v", short(id), a.Status,
				w.home(id).deletedBy[id])
		}
	}
	w.checkCalls()
	if got := w.Database.Organization(organizationID).Usage; got != used {
		w.violate("usage", "the organization's usage is %+v, and its agents hold %+v", got, used)
	}
	w.checkOperations()
	w.checkReleases()
}

// checkRecord checks the record of one agent against the world.
func (w *World) checkRecord(a *agent.Agent) {
	id := short(a.ID)
	moving := false // an operation needs a new pod
	for _, o := range a.Operations {
		moving = moving || o.Open() && (o.Stage == secret.Bind || o.Stage == secret.Sync || o.Stage == secret.Rollout)
	}
	switch {
	case a.Warming && a.Converged() && !moving:
		w.violate("warming", "agent %s is warming without a reason", id)
	case a.Warming && a.Status != agent.Running && a.Status != agent.Error:
		w.violate("warming", "agent %s is warming and %s", id, a.Status)
	case a.Status == agent.Error && !w.mayFail[a.ID] && !lacksSecret(a) && !w.runsBroken(a):
		w.violate("error", "agent %s is in error although its pod was never disturbed: %+v", id, a.Failure)
	case a.Status != agent.Running || !a.Converged():
	case a.Failure != nil && a.Failure.Code != agent.CodeSandboxUnschedulable:
		w.violate("failure", "agent %s runs, and still shows the failure %+v", id, *a.Failure)
	case len(a.Unfinished()) > 0:
		w.violate("stages", "agent %s runs, and its stages %v are not done", id, a.Unfinished())
	default:
		w.checkPod(a)
		w.checkEgress(a)
	}
	w.checkGate(a)
	if a.Status != agent.Deleting {
		w.checkLive(a)
	}
}

// lacksSecret reports whether an agent failed because the value of a secret is not in the secret store.
func lacksSecret(a *agent.Agent) bool {
	return a.AwaitedSecret() != "" || a.Failure != nil && (a.Failure.Code == "secret_value_unavailable" ||
		strings.Contains(a.Failure.Message, "secret store may not have"))
}

// checkPod checks that the pod of a running agent has the values that the record calls live.
func (w *World) checkPod(a *agent.Agent) {
	n := w.home(a.ID).namespaces[a.ID]
	if n == nil || n.pod == nil || !n.pod.started {
		return
	}
	if lost, ok := w.lostVolume[a.ID]; ok && n.volume() != lost && n.volume() != 0 {
		w.violate("volumes", "agent %s runs with a new, empty volume, and no client started it", short(a.ID))
	}
	w.checkSize(a, n)
	if n.pod.ready && (n.pod.image != a.Image.Reference || n.pod.front != a.Front.Reference) {
		w.violate("images", "agent %s runs %s and %s by its record, and its pod %s and %s", short(a.ID),
			a.Image.Reference, a.Front.Reference, n.pod.image, n.pod.front)
	}
	for _, live := range a.Live {
		if _, brokered := secret.Name(live.Key); brokered {
			continue // the pod has a placeholder
		}
		v, _ := w.Secrets.access(a.ID, live.Key, live.Version)
		if got := n.pod.values[live.Key]; got != v.value {
			w.violate("live values",
				"agent %s has version %d of %s live by its record, which is %q, and its pod has %q",
				short(a.ID),
				live.Version, live.Key, v.value, got)
		}
	}
	for _, e := range a.Env {
		if got := n.pod.values[e.Key]; !e.Secret() && got != e.Value {
			w.violate("live values", "agent %s has %s=%q by its record, and its pod has %q", short(a.ID), e.Key,
				e.Value, got)
		}
	}
	if v, ok := w.Secrets.access(a.ID, secret.CredentialsKey, a.CredentialVersion); !a.RotationPending &&
		(!ok || n.pod.values[passwordVariable] != v.credentials.DashboardPassword) {
		w.violate("live values", "agent %s has other credentials than its record says", short(a.ID))
	}
}

// checkLive checks that no version that an agent needs is destroyed.
func (w *World) checkLive(a *agent.Agent) {
	need := func(key string, version int64, why string) {
		if version == 0 {
			return
		}
		if v, ok := w.Secrets.access(a.ID, key, version); !ok || v.destroyed {
			w.violate("destroyed", "version %d of %s of agent %s is destroyed, and %s", version, key, short(a.ID), why)
		}
	}
	for _, e := range a.Env {
		need(e.Key, e.SecretVersion, "is part of its environment")
	}
	for _, s := range a.Injected {
		need(secret.BrokeredKey(s.Key), s.Version, "the gate adds it to requests")
	}
	need(secret.CredentialsKey, a.CredentialVersion, "holds its credentials")
	for _, o := range a.Operations {
		if o.Open() && (o.Stage == secret.Bind || o.Stage == secret.Sync || o.Stage == secret.Rollout) {
			need(o.Key, o.Version, "an operation needs it")
		}
	}
}

// checkOperations checks that each operation names the value that its own request brought, and that no value was added
// twice.
func (w *World) checkOperations() {
	owners := map[string]string{}
	for _, id := range w.Database.Order {
		o := w.Database.Operations[id]
		w.checkOperationEvents(o)
		if o.Version == 0 {
			continue
		}
		v, ok := w.Secrets.access(o.AgentID, o.Key, o.Version)
		if !ok || v.destroyed {
			continue
		}
		want := w.Database.Calls[id]
		if o.Action == secret.Set {
			name, _ := secret.Name(o.Key)
			want += "/" + name
		}
		if v.value != want {
			w.violate("operations", "the operation of %q has version %d of %s, which holds %q", want, o.Version, o.Key,
				v.value)
		}
	}
	for ref, found := range w.Secrets.secrets {
		for _, v := range found.versions {
			if v.value == "" {
				continue
			}
			if _, twice := owners[ref+v.value]; twice {
				w.violate("added twice", "the value %q was added twice to %s", v.value, found.key)
			}
			owners[ref+v.value] = ref
		}
	}
}

// overtime is how much longer than its deadline an agent with a broken pod may take to fail.
const overtime = 4 * time.Minute

// checkHalfway checks that an agent whose creation ended halfway waits for its values only as long as a start may take.
func (w *World) checkHalfway(a *agent.Agent) {
	if !w.quiet || slices.Contains(w.down[:], true) || !a.BeingProvisioned() || a.AwaitedSecret() == "" {
		return
	}
	limit := agent.ProvisioningTimeout + overtime + maxBackOff // until a run first finds that a value is missing
	if w.clocksJumped {
		limit += maxJumps
	}
	if waited := w.Elapsed() - max(w.quietSince, a.CreatedAt.Sub(epoch)-w.jumped); waited > limit {
		w.violate("deadline", "agent %s has waited for %v for the values of its creation", short(a.ID), waited)
	}
}

// checkDeadline checks that work on a broken pod ends in time.
func (w *World) checkDeadline(a *agent.Agent) {
	n := w.home(a.ID).namespaces[a.ID]
	if a.Converged() || !a.WantsPod() || w.home(a.ID).troubles[a.ID] == healthy || n == nil || n.set == nil ||
		n.set.generation != a.Generation || !w.quiet {
		return
	}
	limit := agent.ReadinessTimeout
	if a.Status != agent.Running {
		limit = agent.ProvisioningTimeout
	}
	if w.clocksJumped {
		limit += maxJumps
	}
	if waited := w.Elapsed() - max(n.set.appliedAt, w.quietSince); waited > limit+overtime {
		w.violate("deadline", "agent %s is %s although its pod was not ready for %v", short(a.ID), a.Status, waited)
	}
}

// The limits of the work that the agents of a schedule make: deliveries in an hour for one agent, and messages that are
// delivered again.
const (
	maxHourlyDeliveries = 90
	maxFailing          = 10
)

// checkLoad counts a delivery and checks that work does not multiply.
func (w *World) checkLoad(id string) {
	hour := int(w.Elapsed() / time.Hour)
	if hour != w.hour {
		w.hour = hour
		clear(w.delivered)
	}
	if w.delivered[id]++; w.delivered[id] > maxHourlyDeliveries {
		w.violate("load", "more than %d deliveries in an hour: %s", maxHourlyDeliveries, w.describe())
	}
	failed := 0
	for _, m := range w.Queue.messages {
		if m.attempts > 1 && !m.observed {
			failed++
		}
	}
	if failed > maxFailing {
		w.violate("load", "%d messages are delivered again: %s", failed, w.describe())
	}
}
