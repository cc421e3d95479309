package simulationtest

import (
	"slices"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/testtier"
)

// defect is a planted defect: a guard that is undone.
type defect struct {
	name string
	// undoes says which guard.
	undoes string
	plant  Plant
}

// defects are the planted defects.
func defects() []defect {
	return slices.Concat(outsideDefects(), domainDefects(), billingDefects(), webhookDefects())
}

// outsideDefects undo guards of the adapters.
func outsideDefects() []defect {
	cluster := func(rules ClusterRules) Plant { return Plant{Cluster: rules} }
	storing := func(rules SecretRules) Plant { return Plant{Secrets: rules, Focus: storesValues} }
	secrets := func(rules SecretRules) Plant { return Plant{Secrets: rules} }
	database := func(rules DatabaseRules) Plant { return Plant{Database: rules} }
	return []defect{
		{"one name for all environments", "objects named by content", Plant{
			Cluster: ClusterRules{FixedNames: true}, Focus: stalledWorkers,
		}},
		{"no fence", "refusal of a workload of an older generation", Plant{
			Cluster: ClusterRules{NoFence: true}, Focus: lateCalls(ClusterService, "put", "put"),
		}},
		{"random namespace", "a namespace named after its agent", cluster(ClusterRules{RandomNamespace: true})},
		{"namespace kept", "deletion of the namespace", cluster(ClusterRules{KeepNamespace: true})},
		{"gone too early", "removal only once the namespace is gone", cluster(ClusterRules{GoneAtOnce: true})},
		{"a new volume without a word", "a missing namespace is a failure", cluster(
			ClusterRules{SilentNamespace: true})},
		{"any pod is proof", "readiness of the desired pod only", cluster(ClusterRules{AnyPod: true})},
		{"all environments pruned", "pruning of former objects only", cluster(ClusterRules{PruneAll: true})},
		{"value added again", "no retry after a lost answer", storing(SecretRules{RepeatAdds: true})},
		{"credentials at each call", "first credentials are version 1", secrets(SecretRules{NewCredentials: true})},
		{"one version too many", "destruction of former versions only", secrets(SecretRules{DestroyOneMore: true})},
		{"trust in lists", "destruction by numbers and known keys", secrets(SecretRules{TrustLists: true})},
		{"unknown taken as refused", "wait for a value that may land late", storing(SecretRules{ForgetUnknown: true})},
		{"number guessed", "no number without an answer", storing(SecretRules{GuessVersion: true})},
		{"adoption of an older value", "adoption of versions younger than the operation", Plant{
			Secrets: SecretRules{NoCreationTime: true}, Focus: storesValues,
			Agents: func(_ *World, inner agent.Store) agent.Store { return amnesiac{inner} },
		}},
		{"no preconditions", "commits that fail if a document changed", database(DatabaseRules{NoPreconditions: true})},
		{"first outcome stays", "the audit entry has the outcome of the call", database(
			DatabaseRules{FirstOutcome: true})},
		{"torn history", "operations and record in one commit", database(DatabaseRules{TornHistory: true})},
		{"usage not freed", "usage and record in one commit", database(DatabaseRules{LoseUsage: true})},
		{"events lost", "events and record in one commit", database(DatabaseRules{LoseEvents: true})},
	}
}

// domainDefects undo guards of the domain.
func domainDefects() []defect {
	return []defect{
		{"unguarded write", "no write for an older generation", Plant{
			Records: func(_ *World, process string, inner agent.WorkerStore) agent.WorkerStore {
				if process != "worker" {
					return inner
				}
				return unguarded{inner}
			},
		}},
		{"sweep after the end", "no nudge of an agent whose work ended", focused(sweeps, afterWorker("sweep",
			func(w *World, _ agent.Agent, a *agent.Agent) { soonest(w, a) }))},
		{"sweep forgets", "nudges are repeated", Plant{
			Records: func(_ *World, process string, inner agent.WorkerStore) agent.WorkerStore {
				if process != "sweep" {
					return inner
				}
				return forgetful{inner}
			},
		}},
		{"straggler writes", "no progress after another run finished", workerWrites("worker", straggle)},
		{"sticky warming", "warming only while the pod is replaced", afterRequest(
			func(_ *World, _ agent.Agent, a *agent.Agent) {
				a.Warming = a.Warming || a.Status == agent.Running && a.OperationsDue()
			})},
		{"deadline in an outage", "only a look at the pod ends in error", afterWorker("sweep",
			func(w *World, _ agent.Agent, a *agent.Agent) {
				if a.WantsPod() && !a.Converged() && w.Now().Sub(a.UpdatedAt) > agent.ReadinessTimeout {
					giveUp(a, "provisioning_timeout")
				}
			})},
		{"deletion assumed", "a deletion has only what was observed", afterWorker("worker",
			func(_ *World, _ agent.Agent, a *agent.Agent) {
				if a.Status == agent.Deleting {
					a.Learn(agent.ClusterDeletionSeen{NamespaceGone: true, VolumeGone: true, At: a.UpdatedAt})
				}
			})},
		{"deletion forgotten", "the removal stores what was observed", Plant{
			Records: func(_ *World, _ string, inner agent.WorkerStore) agent.WorkerStore {
				return forgetfulRemoval{inner}
			},
		}},
		{"deadline not enforced", "work on a broken pod ends in time", workerWrites("worker", hideDeadline)},
		{"credentials without a fence", "deletion waits for the first credentials", focused(
			lateCalls(SecretService, "create", "delete"), afterWorker("worker",
				func(_ *World, before agent.Agent, a *agent.Agent) { a.StoringUntil = before.StoringUntil }))},
		{"values without a fence", "deletion waits for values of requests", focused(
			lateCalls(SecretService, "put", "delete"), afterRequest(
				func(_ *World, _ agent.Agent, a *agent.Agent) { a.StoringUntil = time.Time{} }))},
		{"concurrent values", "one request adds a value of a key at a time", focused(storesValues, afterRequest(
			func(_ *World, _ agent.Agent, a *agent.Agent) {
				for i := range a.Operations {
					a.Operations[i].StoringUntil = time.Time{}
				}
			}))},
		{"dead letter of an old message", "a dead letter ends no newer work", Plant{
			Focus: func(_ *Scheduler, u *Setup) { u.DeadLetters, u.Steps = 2, 150 },
			Records: func(_ *World, process string, inner agent.WorkerStore) agent.WorkerStore {
				if process != "dead letter" {
					return inner
				}
				return gravedigger{inner}
			},
		}},
		{"a creation without a deadline", "an agent waits for the values of its creation for a limited time", Plant{
			Records: func(_ *World, process string, inner agent.WorkerStore) agent.WorkerStore {
				if process != "worker" {
					return inner
				}
				return patient{inner}
			},
			Focus: func(_ *Scheduler, u *Setup) {
				service := SecretService
				*u = Setup{
					Scripts: [][]string{{"create with secrets"}}, Workers: 1, Faults: 2, FaultRate: 0.5,
					FaultService: &service, Verdicts: []Verdict{Refused, CrashesBefore}, Steps: 150,
				}
			},
		}},
		{"outage remembered", "a stop that an outage delayed shows no failure afterwards", afterWorker("worker",
			func(_ *World, before agent.Agent, a *agent.Agent) {
				if !a.WantsPod() && a.Failure == nil {
					a.Failure = before.Failure
				}
			})},
		{"waiting is a failure", "a deletion that waits is acknowledged", waitingFails()},
		{"waiting fails a push", "a push for an agent that waits is acknowledged", waitingRefused()},
		{"waiting is an attempt", "waiting consumes no attempt", afterWorker("worker",
			func(_ *World, before agent.Agent, a *agent.Agent) {
				if isWaiting(*a) {
					a.Attempts = before.Attempts + 1
				}
			})},
		{"waiting holds the push", "no push waits for a pod", Plant{
			Records: func(_ *World, process string, inner agent.WorkerStore) agent.WorkerStore {
				if process != "worker" {
					return inner
				}
				return lingering{inner}
			},
		}},
		{"waiting without a date", "a waiting agent has a time at which a worker looks again", afterWorker("worker",
			func(_ *World, _ agent.Agent, a *agent.Agent) {
				if isWaiting(*a) {
					a.WorkDueAt = time.Time{}
				}
			})},
		{"a look each minute", "a worker looks less and less often", focused(stuckDeletion, afterWorker("worker",
			func(w *World, _ agent.Agent, a *agent.Agent) {
				if isWaiting(*a) {
					soonest(w, a)
				}
			}))},
		{"a look applies", "a look writes no object", Plant{
			Records: func(_ *World, process string, inner agent.WorkerStore) agent.WorkerStore {
				if process != "worker" {
					return inner
				}
				return oblivion{inner}
			},
		}},
		{"late credentials", "first credentials are recorded before the workload names them", Plant{
			Focus: func(_ *Scheduler, u *Setup) { u.Start, u.Scripts = "", [][]string{{"create"}} },
			Records: func(_ *World, process string, inner agent.WorkerStore) agent.WorkerStore {
				if process != "worker" {
					return inner
				}
				return &hoarder{WorkerStore: inner}
			},
		}},
		{"orphans deleted immediately", "orphans are marked first and need proof", Plant{Collect: collectAll}},
		{"no collector of secrets", "secrets without an agent are deleted", focused(
			lateCalls(SecretService, "create", "delete"), lonelySecrets())},
		{"no drift check", "objects that a person deleted are restored", Plant{
			NoDriftCheck: true, Focus: handiwork,
		}},
		{"no second look at objects", "a second attempt applies all objects again", Plant{
			Records: func(_ *World, process string, inner agent.WorkerStore) agent.WorkerStore {
				if process != "worker" {
					return inner
				}
				return beginner{inner}
			},
			Focus: handiwork,
		}},
		{"leftovers stay", "objects of former generations are deleted", Plant{
			Cluster: ClusterRules{KeepLeftovers: true},
		}},
		{"superseded versions kept at rest", "superseded versions of an agent at rest are destroyed", Plant{
			Records: func(_ *World, process string, inner agent.WorkerStore) agent.WorkerStore {
				if process != "worker" {
					return inner
				}
				return keeper{inner}
			},
			Focus: restingWrites,
		}},
		{"list ends early", "a page without a record is not the last", Plant{
			Records: func(_ *World, process string, inner agent.WorkerStore) agent.WorkerStore {
				if process != "health" {
					return inner
				}
				return shortList{inner}
			},
		}},
	}
}

// webhookDefects undo guards of the deliveries of events.
func webhookDefects() []defect {
	frozen := func(kind string) Plant {
		return Plant{
			Focus: arrangeWebhooks,
			Report: func(_ *World, process string, nudge func()) {
				if process != kind {
					nudge()
				}
			},
		}
	}
	return []defect{
		{"nudges after the answer", "the nudges of webhooks are published before the answer", frozen("api")},
		{"a worker nudges no webhook", "every function that writes events may nudge webhooks", frozen("worker")},
	}
}

// maxSeeds bounds the search for a planted defect.
const maxSeeds = 60_000

func TestSimulation_FindsPlantedDefects(t *testing.T) {
	t.Parallel()
	testtier.RequireFull(t, "searches for all planted defects")
	if testtier.RaceDetector {
		t.Skip("schedules take ten times as long with the race detector")
	}
	for _, d := range defects() {
		t.Run(d.name, func(t *testing.T) {
			sums, seed, bad := explore(t, 1, maxSeeds, d.plant)
			if bad.Violation == "" {
				t.Fatalf("%d schedules do not find the defect that undoes: %s", len(sums), d.undoes)
			}
			t.Logf("found after %d schedules (seed %d): %.160s", len(sums), seed, bad.Violation)
		})
	}
}

// handiwork makes a person delete an object of the agent.
func handiwork(_ *Scheduler, u *Setup) { u.Start, u.DeletedObjects, u.Stalls = agent.Running, 1, 0 }

// stalledWorkers makes workers of several requests overtake each other.
func stalledWorkers(s *Scheduler, u *Setup) {
	*u = Setup{
		Start: agent.Running, Scripts: [][]string{{"put", "put"}, {"put"}}, Workers: 3, Stalls: 3, Faults: 1,
		Steps:    200,
		Verdicts: []Verdict{Late}, Restarts: s.Choose(2),
	}
}

// storesValues makes answers of the secret store get lost while a client sets values.
func storesValues(_ *Scheduler, u *Setup) {
	service := SecretService
	*u = Setup{
		Start: agent.Running, Scripts: [][]string{{"put", "put", "reconcile"}}, Workers: 1, Faults: 3, Lags: 2,
		FaultRate: 0.4, FaultService: &service, Verdicts: []Verdict{Refused, Late, Lost}, Steps: 150,
	}
}

// restingWrites sets values of an agent that rests while workers fail to destroy versions.
func restingWrites(_ *Scheduler, u *Setup) {
	service := SecretService
	*u = Setup{
		Start: agent.Running, Scripts: [][]string{{"stop", "put", "put", "put"}}, Workers: 2, Stalls: 1, Faults: 2,
		FaultRate: 0.3, FaultService: &service, Verdicts: []Verdict{Refused, Lost}, Steps: 150, Restarts: 1,
	}
}

// lateCalls makes calls of one service take place late while a client sends two requests.
func lateCalls(service Service, first, second string) func(*Scheduler, *Setup) {
	return func(_ *Scheduler, u *Setup) {
		start := agent.Running
		if first == "create" {
			start = ""
		}
		*u = Setup{
			Start: start, Scripts: [][]string{{first, second}}, Workers: 3, Stalls: 1, Faults: 2, FaultRate: 0.2,
			FaultService: &service, Verdicts: []Verdict{Late}, Steps: 150,
		}
	}
}

// sweeps makes sweeps and stalled workers overlap.
func sweeps(_ *Scheduler, u *Setup) {
	*u = Setup{
		Start: agent.Running, Scripts: [][]string{{"restart"}}, Workers: 1, Stalls: 4, Ticks: 10, Steps: 200,
	}
}

// focused gives a planted defect another setup.
func focused(focus func(*Scheduler, *Setup), p Plant) Plant {
	p.Focus = focus
	return p
}
