package functions_test

import (
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/functions"
	"agents.example/controlplane/functions/backendtest"
	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/audit/seal"
	"agents.example/controlplane/shared/billing"
	"agents.example/controlplane/shared/egress"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/provisioning"
)

// TestRoutes_NeedFirestoreUnlessPublic fails if the guard of a deployed route would lack the right to read its callers.
func TestRoutes_NeedFirestoreUnlessPublic(t *testing.T) {
	t.Parallel()
	for _, r := range functions.Routes(functions.Dependencies{}) {
		if r.Access.Authenticates() && !slices.Contains(r.Needs, function.Firestore) {
			t.Errorf("%s has access %s without the need firestore: the guard reads the caller there", r.Name, r.Access)
		}
	}
}

// dependencyFields maps the fields of Dependencies to their needs. The fields in Firestore are one entry, as in
// Backend.Uses.
func dependencyFields(t *testing.T) map[string]function.Need {
	t.Helper()
	fields := map[string]function.Need{}
	d := reflect.TypeFor[functions.Dependencies]()
	for i := range d.NumField() {
		f := d.Field(i)
		need := function.Need(f.Tag.Get("need"))
		switch {
		case f.Name == "Settings":
		case need == "":
			t.Errorf("Dependencies.%s has no need: add a tag such as `need:%q`", f.Name, function.Firestore)
		case need == function.Firestore:
			fields[backendtest.Records] = need
		case need == function.FirestoreRead:
			fields[backendtest.RecordReads] = need
		default:
			fields[f.Name] = need
		}
	}
	return fields
}

// TestBackend_HasEveryDependency fails for a new field of Dependencies that the tests below would call as nil.
func TestBackend_HasEveryDependency(t *testing.T) {
	t.Parallel()
	d := reflect.ValueOf(backendtest.New(t).Dependencies)
	for i := range d.NumField() {
		if f := d.Type().Field(i); f.Name != "Settings" && d.Field(i).IsZero() {
			t.Errorf("backendtest.New sets no Dependencies.%s: add a port that records its use", f.Name)
		}
	}
}

// describeField names what a function used, for an advice.
func describeField(field string) string {
	switch field {
	case backendtest.Records:
		return "a port of Dependencies that is stored in Firestore"
	case backendtest.RecordReads:
		return "a port of Dependencies that reads Firestore"
	default:
		return "Dependencies." + field
	}
}

// constant is the name of a need in package function, such as SecretAdd for secret_add.
func constant(n function.Need) string {
	name := ""
	for word := range strings.SplitSeq(string(n), "_") {
		name += strings.ToUpper(word[:1]) + word[1:]
	}
	return "function." + name
}

// checkNeeds compares the needs that a function declares with the dependencies that a call of it used.
func checkNeeds(t *testing.T, name string, declared []function.Need, used []string) {
	t.Helper()
	fields, unused := dependencyFields(t), slices.Clone(declared)
	for _, field := range used {
		need, ok := fields[field]
		if !ok {
			t.Errorf("%s uses %s, which is no field of Dependencies", name, field)
			continue
		}
		unused = slices.DeleteFunc(unused, func(n function.Need) bool { return n == need })
		if !slices.Contains(declared, need) {
			t.Errorf("%s uses %s without the need %s: add %s to its Needs", name, describeField(field), need,
				constant(need))
		}
	}
	for _, need := range unused {
		t.Errorf("%s declares the need %s, and its example does not use it: remove %s from its Needs, or give it a "+
			"case in routeCases or workerCases that reaches the use", name, need, constant(need))
	}
}

// removedAgent deletes the samples' agent, of which a worker then observes everything gone.
func removedAgent(t *testing.T, s *samples) {
	t.Helper()
	now := time.Now()
	a, err := s.WorkerStore.Update(t.Context(), s.Agent(t, s.agentID), func(a *agent.Agent) {
		_ = a.RequestDeletion("user_1", now)
	})
	must(t, err)
	seen := a
	seen.Learn(agent.ClusterDeletionRequested{At: now},
		agent.ClusterDeletionSeen{NamespaceGone: true, VolumeGone: true, At: now},
		agent.SecretsDeletionRequested{At: now}, agent.SecretsGone{At: now})
	must(t, s.WorkerStore.Remove(t.Context(), a, seen.Deletion))
}

// routeCases prepare what the examples of some routes are about; other routes take the samples as they are.
func routeCases() map[string]func(t *testing.T, s *samples) {
	pressed := func(action string) func(*testing.T, *samples) {
		return func(t *testing.T, s *samples) {
			s.CallNamed(t, action, functiontest.AsAdmin(org), functiontest.Path("agent_id", s.agentID)).Want(t, 200, "")
		}
	}
	return map[string]func(t *testing.T, s *samples){
		"StartAgent":               pressed("StopAgent"),
		"ResumeAgent":              pressed("PauseAgent"),
		"ReconcileSecretOperation": func(t *testing.T, s *samples) { s.reopenOperation(t) },
		"GetDeletion":              removedAgent,
		"IntrospectHandoff": func(t *testing.T, s *samples) {
			link := s.CallNamed(t, "GetAgent", functiontest.AsAdmin(org), functiontest.Path("agent_id", s.agentID)).
				Want(t, 200, "").Text("dashboard_handoff_url")
			_, token, _ := strings.Cut(link, "token=")
			s.body = `{"token": "` + token + `"}`
		},
		"ReceiveStripeEvent": func(_ *testing.T, s *samples) {
			paid := s.Stripe.Subscriptions["sub_1"]
			paid.Subscription.Plan = plan.Pro
			s.Stripe.Subscriptions["sub_1"] = paid
		},
		"VerifyAuditLog": func(t *testing.T, s *samples) {
			later := time.Now().Add(time.Hour)
			sealer := &seal.Sealer{Store: s.AuditSeals, Now: func() time.Time { return later }}
			must(t, sealer.Run(t.Context()))
		},
		"GetConsoleAsset": func(t *testing.T, s *samples) {
			page := s.CallNamed(t, "GetConsole").Want(t, 200, "")
			s.path["asset"] = string(regexp.MustCompile(`main-\w+\.js`).Find(page.Body))
		},
	}
}

// answeredStatus is the status of the answer to the example of a route. A call in this process cannot become a
// WebSocket; the tests of its package open some.
func answeredStatus(r function.Route) int {
	if r.WebSocket {
		return http.StatusBadRequest
	}
	return r.Status
}

// TestRoutes_DeclareWhatTheyUse calls every route with its example and compares what it used with its needs.
func TestRoutes_DeclareWhatTheyUse(t *testing.T) {
	t.Parallel()
	for i, r := range functions.Routes(functions.Dependencies{}) {
		t.Run(r.Name, func(t *testing.T) {
			t.Parallel()
			s := newSamplesFor(t, r.Name)
			s.ForgetUses()
			res := s.Call(t, functions.Routes(s.Dependencies)[i], append(s.request(t, r), functiontest.AsAdmin(org))...)
			if res.Status != answeredStatus(r) {
				t.Errorf("%s answers its example with %d %s, want %d", r.Name, res.Status, res.Body, r.Status)
			}
			used := s.Uses()
			if strings.Contains(string(res.Body), "/handoff?token=") ||
				strings.Contains(string(res.Body), `"statement":"`) ||
				strings.Contains(string(res.Body), `"receipt":"`) {
				used = append(used, "Handoff")
			}
			if r.Access == function.Bearer {
				used = nil // by the routes that it called; TestAccess calls it without their dependencies
			}
			if r.WebSocket {
				used = append(used, "Commands")
			}
			if r.Access.Authenticates() && !slices.Contains(used, backendtest.Records) {
				used = append(used, backendtest.Records) // by the guard
			}
			checkNeeds(t, r.Name, r.Needs, used)
		})
	}
}

// workerCases prepare something to do for workers, and return the messages about it. Other workers are sent a tick.
func workerCases() map[string]func(t *testing.T, s *samples) []function.Message {
	past := time.Now().Add(-time.Hour)
	return map[string]func(*testing.T, *samples) []function.Message{
		// One agent has ended before, and another has a snapshot that its image's program makes quiet.
		"ReconcileAgent": func(t *testing.T, s *samples) []function.Message {
			crashed := s.newAgent(t)
			s.UpdateAgent(t, crashed, func(a *agent.Agent) { a.PodRestarts.Pod = "pod-1" })
			quiet := s.RunningAgent(t, org, nil)
			s.UpdateAgent(t, quiet.ID, func(a *agent.Agent) {
				a.Image.Quiesce = "/quiesce"
				request := agent.SnapshotRequest{Consistency: agent.ConsistentByHook}
				if _, err := a.RequestSnapshot(request, past); err != nil {
					t.Error(err)
				}
			})
			return []function.Message{backendtest.Nudge(t, crashed), backendtest.Nudge(t, quiet.ID)}
		},
		// The work on one agent goes on, and that on another was tried too often.
		"DeadLetterAgent": func(t *testing.T, s *samples) []function.Message {
			exhausted := s.newAgent(t)
			s.UpdateAgent(t, exhausted, func(a *agent.Agent) { a.Attempts = agent.MaxAttempts })
			return []function.Message{backendtest.Nudge(t, s.newAgent(t)), backendtest.Nudge(t, exhausted)}
		},
		"SweepAgents": func(t *testing.T, s *samples) []function.Message {
			s.UpdateAgent(t, s.newAgent(t), func(a *agent.Agent) { a.WorkDueAt = past })
			s.newWebhook(t) // is due
			return tick()
		},
		// One agent lost its pod, and another recovered from an error.
		"ObserveAgents": func(t *testing.T, s *samples) []function.Message {
			s.UpdateAgent(t, s.agentID, func(a *agent.Agent) { a.UpdatedAt = past })
			recovered := s.RunningAgent(t, org, nil)
			s.Kubernetes.Healthy = []string{recovered.ID}
			s.UpdateAgent(t, recovered.ID, func(a *agent.Agent) {
				a.Break(agent.Failure{Code: "pod_crash_loop"}, past)
				a.UpdatedAt = past
			})
			return tick()
		},
		// One agent lost an object, and another has one that a former generation left.
		"CheckDrift": func(t *testing.T, s *samples) []function.Message {
			pruned := s.RunningAgent(t, org, nil)
			s.Kubernetes.Drifted = map[string]provisioning.Problem{
				s.agentID: provisioning.Missing, pruned.ID: provisioning.Leftover,
			}
			for id := range s.Kubernetes.Drifted {
				s.UpdateAgent(t, id, func(a *agent.Agent) { a.UpdatedAt = past })
			}
			return tick()
		},
		"EnforceAccounts": func(t *testing.T, s *samples) []function.Message {
			s.receiveSubscription(t, billing.PastDue)
			s.BillingClock = func() time.Time { return time.Now().Add(2 * billing.Grace) }
			return tick()
		},
		// A gate has refused an agent a host.
		"RecordEgress": func(t *testing.T, s *samples) []function.Message {
			now := time.Now().UTC()
			return []function.Message{backendtest.Message(t, egress.Reports{
				Gate: "gate-1", Reports: []egress.Report{{
					AgentID: s.agentID, Day: now.Format(egress.DayFormat), Hosts: []egress.Count{{
						Host: "api.example.com", Refused: 1, Reason: egress.NotListed, FirstAt: now, LastAt: now,
						RefusedAt: now,
					}},
				}},
			})}
		},
		// The receiver takes longer than a run may.
		"DeliverWebhook": func(t *testing.T, s *samples) []function.Message {
			s.CallNamed(t, "TestWebhook", s.asAdmin("webhook_id")...).Want(t, 202, "")
			begun := time.Now()
			s.WebhookClock = func() time.Time {
				if slices.Contains(s.Uses(), "WebhookSender") {
					return begun.Add(time.Minute)
				}
				return begun
			}
			return []function.Message{s.webhookNudge()}
		},
		"CollectOrphans": func(_ *testing.T, s *samples) []function.Message {
			s.Kubernetes.Orphans = []string{unknownID}
			return tick()
		},
	}
}

// tick is what Cloud Scheduler publishes.
func tick() []function.Message { return []function.Message{{}} }

// TestWorkers_DeclareWhatTheyUse runs every worker with something to do and compares what it used with its needs.
func TestWorkers_DeclareWhatTheyUse(t *testing.T) {
	t.Parallel()
	for i, w := range functions.Workers(functions.Dependencies{}) {
		t.Run(w.Name, func(t *testing.T) {
			t.Parallel()
			s, messages := newSamples(t), tick()
			if prepare := workerCases()[w.Name]; prepare != nil {
				messages = prepare(t, s)
			} else if w.Schedule == "" {
				t.Fatalf("%s has no case: add one to workerCases that returns messages on its topic", w.Name)
			}
			s.ForgetUses()
			for _, m := range messages {
				if err := functions.Workers(s.Dependencies)[i].Handle(t.Context(), m); err != nil {
					t.Errorf("%s fails: %v", w.Name, err)
				}
			}
			checkNeeds(t, w.Name, w.Needs, s.Uses())
		})
	}
}
