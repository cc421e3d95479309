package simulationtest

import (
	"slices"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/plan"
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
	return slices.Concat(outsideDefects(), domainDefects(), sizeDefects(), billingDefects(), webhookDefects(),
		scheduleDefects(), sleepDefects(), snapshotDefects(), moveDefects(),
		egressDefects(), releaseDefects())
}

// outsideDefects undo guards of the adapters.
func outsideDefects() []defect {
	cluster := func(rules ClusterRules) Plant { return Plant{Cluster: rules} }
	storing := func(rules SecretRules) Plant { return Plant{Secrets: rules, Focus: storesValues} }
	secrets := func(rules SecretRules) Plant { return Plant{Secrets: rules} }
	database := func(rules DatabaseRules) Plant { return Plant{Database: rules} }
	return []defect{
		{
			name: "one name for all environments", undoes: "objects named by content", plant: Plant{
				Cluster: ClusterRules{FixedNames: true}, Focus: stalledWorkers,
			},
		},
		{
			name: "no fence", undoes: "refusal of a workload of an older generation", plant: Plant{
				Cluster: ClusterRules{NoFence: true}, Focus: lateCalls(ClusterService, "put", "put"),
			},
		},
		{
			name: "route overlooked", undoes: "repair of a route that a late call of a former generation wrote",
			plant: Plant{
				Cluster: ClusterRules{OverlookRoute: true}, Focus: lateCalls(ClusterService, "stop", "start"),
			},
		},
		{
			name: "random namespace", undoes: "a namespace named after its agent",
			plant: cluster(ClusterRules{RandomNamespace: true}),
		},
		{
			name: "namespace kept", undoes: "deletion of the namespace",
			plant: cluster(ClusterRules{KeepNamespace: true}),
		},
		{
			name: "gone too early", undoes: "removal only once the namespace is gone",
			plant: cluster(ClusterRules{GoneAtOnce: true}),
		},
		{
			name: "a new volume without a word", undoes: "a missing namespace is a failure", plant: cluster(
				ClusterRules{SilentNamespace: true}),
		},
		{
			name: "any pod is proof", undoes: "readiness of the desired pod only",
			plant: cluster(ClusterRules{AnyPod: true}),
		},
		{
			name: "all environments pruned", undoes: "pruning of former objects only",
			plant: cluster(ClusterRules{PruneAll: true}),
		},
		{
			name: "value added again", undoes: "no retry after a lost answer",
			plant: storing(SecretRules{RepeatAdds: true}),
		},
		{
			name: "credentials at each call", undoes: "first credentials are version 1",
			plant: secrets(SecretRules{NewCredentials: true}),
		},
		{
			name: "one version too many", undoes: "destruction of former versions only",
			plant: secrets(SecretRules{DestroyOneMore: true}),
		},
		{
			name: "trust in lists", undoes: "destruction by numbers and known keys",
			plant: secrets(SecretRules{TrustLists: true}),
		},
		{
			name: "unknown taken as refused", undoes: "wait for a value that may land late",
			plant: storing(SecretRules{ForgetUnknown: true}),
		},
		{
			name: "number guessed", undoes: "no number without an answer",
			plant: storing(SecretRules{GuessVersion: true}),
		},
		{
			name: "adoption of an older value", undoes: "adoption of versions younger than the operation",
			plant: Plant{
				Secrets: SecretRules{NoCreationTime: true}, Focus: storesValues,
				Agents: func(_ *World, inner agent.Store) agent.Store { return amnesiac{inner} },
			},
		},
		{
			name: "no preconditions", undoes: "commits that fail if a document changed",
			plant: database(DatabaseRules{NoPreconditions: true}),
		},
		{
			name: "first outcome stays", undoes: "the audit entry has the outcome of the call", plant: database(
				DatabaseRules{FirstOutcome: true}),
		},
		{
			name: "torn history", undoes: "operations and record in one commit",
			plant: database(DatabaseRules{TornHistory: true}),
		},
		{
			name: "usage not freed", undoes: "usage and record in one commit",
			plant: database(DatabaseRules{LoseUsage: true}),
		},
		{
			name: "events lost", undoes: "events and record in one commit",
			plant: database(DatabaseRules{LoseEvents: true}),
		},
	}
}

// domainDefects undo guards of the domain.
func domainDefects() []defect {
	return []defect{
		{
			name: "unguarded write", undoes: "no write for an older generation",
			plant: stores("worker", func(s agent.WorkerStore) agent.WorkerStore { return unguarded{s} }),
		},
		{
			name: "sweep after the end", undoes: "no nudge of an agent whose work ended",
			plant: focused(sweeps, afterWorker("sweep",
				func(w *World, _ agent.Agent, a *agent.Agent) { soonest(w, a) })),
		},
		{
			name: "sweep forgets", undoes: "nudges are repeated",
			plant: stores("sweep", func(s agent.WorkerStore) agent.WorkerStore { return forgetful{s} }),
		},
		{
			name: "straggler writes", undoes: "no progress after another run finished",
			plant: workerWrites("worker", straggle),
		},
		{
			name: "sticky warming", undoes: "warming only while the pod is replaced", plant: afterRequest(
				func(_ *World, _ agent.Agent, a *agent.Agent) {
					a.Warming = a.Warming || a.Status == agent.Running && a.OperationsDue()
				}),
		},
		{
			name: "deadline in an outage", undoes: "only a look at the pod ends in error", plant: afterWorker("sweep",
				func(w *World, _ agent.Agent, a *agent.Agent) {
					if a.WantsPod() && !a.Converged() && w.Now().Sub(a.UpdatedAt) > agent.ReadinessTimeout {
						giveUp(a, "provisioning_timeout")
					}
				}),
		},
		{
			name: "deletion assumed", undoes: "a deletion has only what was observed", plant: afterWorker("worker",
				func(_ *World, _ agent.Agent, a *agent.Agent) {
					if a.Status == agent.Deleting {
						a.Learn(agent.ClusterDeletionSeen{NamespaceGone: true, VolumeGone: true, At: a.UpdatedAt})
					}
				}),
		},
		{
			name: "deletion forgotten", undoes: "the removal stores what was observed", plant: Plant{
				Records: func(_ *World, _ string, inner agent.WorkerStore) agent.WorkerStore {
					return forgetfulRemoval{inner}
				},
			},
		},
		{
			name: "deadline not enforced", undoes: "work on a broken pod ends in time",
			plant: workerWrites("worker", hideDeadline),
		},
		{
			name: "credentials without a fence", undoes: "deletion waits for the first credentials", plant: focused(
				lateCalls(SecretService, "create", "delete"), afterWorker("worker",
					func(_ *World, before agent.Agent, a *agent.Agent) { a.StoringUntil = before.StoringUntil })),
		},
		{
			name: "values without a fence", undoes: "deletion waits for values of requests", plant: focused(
				lateCalls(SecretService, "put", "delete"), afterRequest(
					func(_ *World, _ agent.Agent, a *agent.Agent) { a.StoringUntil = time.Time{} })),
		},
		{
			name: "concurrent values", undoes: "one request adds a value of a key at a time",
			plant: focused(storesValues, afterRequest(
				func(_ *World, _ agent.Agent, a *agent.Agent) {
					for i := range a.Operations {
						a.Operations[i].StoringUntil = time.Time{}
					}
				})),
		},
		{
			name: "dead letter of an old message", undoes: "a dead letter ends no newer work",
			plant: focused(func(_ *Scheduler, u *Setup) { u.DeadLetters, u.Steps = 2, 150 },
				stores("dead letter", func(s agent.WorkerStore) agent.WorkerStore { return gravedigger{s} })),
		},
		{
			name:   "a creation without a deadline",
			undoes: "an agent waits for the values of its creation for a limited time",
			plant: focused(valuesOfACreation,
				stores("worker", func(s agent.WorkerStore) agent.WorkerStore { return patient{s} })),
		},
		{
			name: "outage remembered", undoes: "a stop that an outage delayed shows no failure afterwards",
			plant: afterWorker("worker",
				func(_ *World, before agent.Agent, a *agent.Agent) {
					if !a.WantsPod() && a.Failure == nil {
						a.Failure = before.Failure
					}
				}),
		},
		{name: "waiting is a failure", undoes: "a deletion that waits is acknowledged", plant: waitingFails()},
		{
			name: "waiting fails a push", undoes: "a push for an agent that waits is acknowledged",
			plant: waitingRefused(),
		},
		{
			name: "waiting is an attempt", undoes: "waiting consumes no attempt", plant: afterWorker("worker",
				func(_ *World, before agent.Agent, a *agent.Agent) {
					if isWaiting(*a) {
						a.Attempts = before.Attempts + 1
					}
				}),
		},
		{
			name: "waiting holds the push", undoes: "no push waits for a pod",
			plant: stores("worker", func(s agent.WorkerStore) agent.WorkerStore { return lingering{s} }),
		},
		{
			name: "waiting without a date", undoes: "a waiting agent has a time at which a worker looks again",
			plant: afterWorker("worker",
				func(_ *World, _ agent.Agent, a *agent.Agent) {
					if isWaiting(*a) {
						a.WorkDueAt = time.Time{}
					}
				}),
		},
		{
			name: "a look each minute", undoes: "a worker looks less and less often",
			plant: focused(stuckDeletion, afterWorker("worker",
				func(w *World, _ agent.Agent, a *agent.Agent) {
					if isWaiting(*a) {
						soonest(w, a)
					}
				})),
		},
		{
			name: "a look applies", undoes: "a look writes no object",
			plant: loads("worker", func(a *agent.Agent) { a.AppliedAt = time.Time{} }),
		},
		{
			name: "late credentials", undoes: "first credentials are recorded before the workload names them",
			plant: focused(func(_ *Scheduler, u *Setup) { u.Start, u.Scripts = "", [][]string{{"create"}} },
				stores("worker", func(s agent.WorkerStore) agent.WorkerStore { return &hoarder{WorkerStore: s} })),
		},
		{
			name: "orphans deleted immediately", undoes: "orphans are marked first and need proof",
			plant: Plant{Collect: collectAll},
		},
		{
			name: "no collector of secrets", undoes: "secrets without an agent are deleted", plant: focused(
				lateCalls(SecretService, "create", "delete"), lonelySecrets()),
		},
		{
			name: "no drift check", undoes: "objects that a person deleted are restored", plant: Plant{
				NoDriftCheck: true, Focus: handiwork,
			},
		},
		{
			name: "no second look at objects", undoes: "a second attempt applies all objects again",
			plant: focused(handiwork, loads("worker", asFirstAttempt)),
		},
		{
			name: "leftovers stay", undoes: "objects of former generations are deleted", plant: Plant{
				Cluster: ClusterRules{KeepLeftovers: true},
			},
		},
		{
			name: "superseded versions kept at rest", undoes: "superseded versions of an agent at rest are destroyed",
			plant: focused(restingWrites, shows("worker", withoutSuperseded)),
		},
		{
			name: "list ends early", undoes: "a page without a record is not the last",
			plant: stores("health", func(s agent.WorkerStore) agent.WorkerStore { return shortList{s} }),
		},
	}
}

// sizeDefects undo guards of an agent's size.
func sizeDefects() []defect {
	resizing := func(_ *Scheduler, u *Setup) {
		*u = Setup{Start: agent.Running, Scripts: [][]string{{"resize", "resize", "resize"}}, Workers: 2, Steps: 150}
	}
	return []defect{
		{
			name: "a size for free", undoes: "a new size and what it takes up in one commit",
			plant: Plant{Database: DatabaseRules{FreeSizes: true}, Focus: resizing},
		},
		{
			name: "any size", undoes: "a new size has room in the organization's plan",
			plant: Plant{Database: DatabaseRules{AnySize: true}, Focus: resizing},
		},
		{
			name: "a smaller size", undoes: "no plan with a smaller volume",
			plant: focused(resizing, afterRequest(func(_ *World, before agent.Agent, a *agent.Agent) {
				if a.Plan != before.Plan {
					a.Plan = plan.Hobby
				}
			})),
		},
		{
			name: "the quota of the first size", undoes: "the quota follows the size",
			plant: Plant{Cluster: ClusterRules{FixedQuota: true}, Focus: resizing},
		},
		{
			name: "the volume of the first size", undoes: "a new size begins the stage of the volume again",
			plant: focused(resizing, afterRequest(func(_ *World, before agent.Agent, a *agent.Agent) {
				if a.Plan != before.Plan {
					a.EndStage(agent.StageStorage, agent.StageSucceeded, a.UpdatedAt)
				}
			})),
		},
		{
			name: "a volume that grows too early", undoes: "a volume that is not made yet grows later",
			plant: Plant{
				Cluster: ClusterRules{ForgetGrowth: true},
				Focus: func(_ *Scheduler, u *Setup) {
					*u = Setup{
						Scripts: [][]string{{"create", "resize"}, {"resize"}}, Workers: 2, Steps: 150, Restarts: 1,
					}
				},
			},
		},
		{
			name:   "a lost volume made again",
			undoes: "the volume of an agent that ran is made only if its client starts it",
			plant: Plant{
				Cluster: ClusterRules{SilentVolume: true},
				Focus: func(_ *Scheduler, u *Setup) {
					*u = Setup{
						Start: agent.Running, Scripts: [][]string{{"resize"}}, Workers: 2, Steps: 150, LostVolume: true,
					}
				},
			},
		},
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
		{
			name: "nudges after the answer", undoes: "the nudges of webhooks are published before the answer",
			plant: frozen("api"),
		},
		{
			name: "a worker nudges no webhook", undoes: "every function that writes events may nudge webhooks",
			plant: frozen("worker"),
		},
	}
}

// maxSeeds bounds the search for a planted defect.
const maxSeeds = 10_000

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
		Steps: 200, Verdicts: []Verdict{Late}, Restarts: s.Choose(2),
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

// valuesOfACreation makes the secret store refuse values of a creation.
func valuesOfACreation(_ *Scheduler, u *Setup) {
	service := SecretService
	*u = Setup{
		Scripts: [][]string{{"create with secrets"}}, Workers: 1, Faults: 2, FaultRate: 0.5, FaultService: &service,
		Verdicts: []Verdict{Refused, CrashesBefore}, Steps: 150,
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
