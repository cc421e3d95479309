package functions_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"agents.example/controlplane/emulators/secretmanageremu"
	"agents.example/controlplane/functions/backendtest"
	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/idempotency"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/member"
	"agents.example/controlplane/shared/page"
	"agents.example/controlplane/shared/secret"
	"agents.example/controlplane/shared/testtier"
	"agents.example/controlplane/shared/webhook"
)

const (
	// roundsPerRoute makes more than 1,000 rounds over all mutating routes, in the full tier.
	roundsPerRoute = 30
	// otherKey is a secret that the rounds set and delete.
	otherKey = "API_TOKEN"
)

// manyReads is a quota for all rounds of a route in one minute. Each client of a round may read twice.
var manyReads = secretmanageremu.Times(4)

// round prepares one round of a route: what the clients send, and a counter that the one effect raises or lowers by 1.
type round func(t *testing.T, s *samples, n int) (request []functiontest.Option, effect func() int)

// TestRoutes_OneKeyHasOneEffect lets 2 to 10 clients send the same call with one key at the same time.
func TestRoutes_OneKeyHasOneEffect(t *testing.T) {
	t.Parallel()
	rounds := oneKeyRounds()
	for _, r := range mutatingRoutes() {
		prepare, own := rounds[r.Name]
		if !own {
			prepare = exampleRound(r)
		}
		t.Run(r.Name, func(t *testing.T) {
			t.Parallel()
			var s *samples
			for n := range testtier.Count(t, 3, 3, roundsPerRoute) {
				if n == 0 || !own { // an example may be impossible to repeat
					s = newSamplesWith(t, backendtest.Options{SecretQuotas: manyReads})
					s.SecretManager.SetLag(0) // the counters read the present versions
				}
				request, effect := prepare(t, s, n)
				c := keyedCall{s, r.Name, request}
				before := effect()
				answers := c.sendTogether(t, fmt.Sprintf("round-%d", n), 2+n%9)
				c.checkRound(t, r, n, answers)
				if delta := effect() - before; delta*delta != 1 {
					t.Fatalf("round %d: the counter moved by %d, want one effect", n, delta)
				}
			}
		})
	}
}

// sendTogether sends a call from several clients, and then the repeat that ends every race.
func (c keyedCall) sendTogether(t *testing.T, key string, clients int) []functiontest.Response {
	t.Helper()
	answers := make([]functiontest.Response, clients)
	start := make(chan struct{})
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() {
			<-start
			answers[i] = c.send(t, key)
		})
	}
	close(start)
	all.Wait()
	return append(answers, c.send(t, key))
}

// checkRound checks that one client got the first answer, and that the others got it again or were told to wait. The
// last call came after all others.
func (c keyedCall) checkRound(t *testing.T, r function.Route, n int, answers []functiontest.Response) {
	t.Helper()
	first := slices.IndexFunc(answers, func(a functiontest.Response) bool {
		return a.Status == r.Status && a.Header.Get(idempotency.ReplayedHeader) == ""
	})
	if first < 0 {
		t.Fatalf("round %d: no client got a first answer: %d %s", n, answers[0].Status, answers[0].Body)
	}
	waiting := 0
	for i, a := range answers {
		switch {
		case i == first:
		case a.Code() == "idempotency_in_progress" && a.Header.Get("Retry-After") != "" && i < len(answers)-1:
			waiting++
		default:
			c.wantReplay(t, fmt.Sprintf("in round %d", n), answers[first], a)
		}
	}
	entries := c.lastAuditEntries(t, c.name, len(answers))
	done := 0
	for _, e := range entries {
		if e.Outcome == audit.Succeeded && !e.Replayed {
			done++
		}
	}
	wantDone := 1
	if runsAgain[c.name] {
		wantDone = len(answers) - waiting
	}
	if len(entries) != len(answers) || done != wantDone {
		t.Errorf("round %d: %d audit entries and %d successes for %d calls, of which %d had to wait", n, len(entries),
			done, len(answers), waiting)
	}
}

// agentRound is a round of an action on an agent that has a status.
func agentRound(status agent.Status) round {
	return func(t *testing.T, s *samples, n int) ([]functiontest.Option, func() int) {
		s.UpdateAgent(t, s.agentID, func(a *agent.Agent) {
			a.Status, a.ObservedGeneration, a.Operations = status, a.Generation, nil
		})
		return s.about(
			functiontest.Body(map[string]any{"name": fmt.Sprintf("round %d", n), "enabled": n%2 == 0}),
		), s.generation(t)
	}
}

func (s *samples) about(more ...functiontest.Option) []functiontest.Option {
	return append([]functiontest.Option{functiontest.Path("agent_id", s.agentID)}, more...)
}

func (s *samples) generation(t *testing.T) func() int {
	return func() int { return int(s.Agent(t, s.agentID).Generation) }
}

// usage counts the organization's agents or keys.
func (s *samples) usage(t *testing.T) (agents, keys int) {
	t.Helper()
	o, err := s.Directory.Organization(t.Context(), org)
	must(t, err)
	return int(o.Usage.Agents), int(o.Usage.APIKeys)
}

// versions counts the versions of a secret.
func (s *samples) versions(t *testing.T, key string) func() int {
	return func() int {
		latest, err := s.SecretWriter.LatestVersion(t.Context(), s.agentID, key)
		must(t, err)
		return int(latest)
	}
}

// oneKeyRounds are the rounds that count an effect by more than the audit log.
func oneKeyRounds() map[string]round {
	rounds := map[string]round{
		"CreateAgent": createAgentRound, "CreateAPIKey": createKeyRound, "RevokeAPIKey": revokeKeyRound,
		"UpdateAgent": updateRound, "DeleteAgent": deleteAgentRound, "RevealCredentials": revealRound,
		"PutSecrets": putSecretsRound, "DeleteSecret": deleteSecretRound,
		"ReconcileSecretOperation": reconcileRound, "RotateCredentials": rotateRound,
		"SetMember": memberRound(identity.RoleAdmin), "RemoveMember": memberRound(identity.RoleMember),
		"CreateCheckoutSession": paymentRound, "CreatePortalSession": paymentRound,
		"CreateWebhook": createWebhookRound, "UpdateWebhook": updateWebhookRound,
		"DeleteWebhook": deleteWebhookRound, "TestWebhook": requestRound, "RedeliverWebhookDelivery": requestRound,
		"RotateWebhookSecret": rotateWebhookRound, "ExecInAgent": execRound,
	}
	for name, status := range map[string]agent.Status{
		"RestartAgent": agent.Running, "PauseAgent": agent.Running, "ResumeAgent": agent.Paused,
		"StopAgent": agent.Running, "StartAgent": agent.Stopped, "MigrateAgentSandbox": agent.Running,
	} {
		rounds[name] = agentRound(status)
	}
	return rounds
}

// execRound counts the commands that run.
func execRound(t *testing.T, s *samples, n int) ([]functiontest.Option, func() int) {
	return s.about(functiontest.Body(map[string]any{"command": []string{"ls", fmt.Sprint(n)}})),
		func() int { return len(s.Containers.Opened()) }
}

// createAgentRound creates an agent with a secret. It removes the agents of former rounds, so that the plan has room.
func createAgentRound(t *testing.T, s *samples, n int) ([]functiontest.Option, func() int) {
	ctx := call.As(t.Context(), identity.Caller{OrganizationID: org})
	all, err := agent.ListAll(ctx, s.Agents)
	must(t, err)
	for _, a := range all {
		if a.ID == s.agentID {
			continue
		}
		if latest, err := s.SecretWriter.LatestVersion(ctx, a.ID, otherKey); err != nil || latest != 1 {
			t.Errorf("round %d: the secret of the new agent has version %d, %v, want 1", n-1, latest, err)
		}
		must(t, s.WorkerStore.Remove(ctx, s.Agent(t, a.ID), agent.Deletion{}))
	}
	request := []functiontest.Option{functiontest.Body(map[string]any{
		"name": "new", "resource_plan": "hobby", "env_vars": map[string]string{otherKey: fmt.Sprint(n)},
	})}
	return request, func() int { agents, _ := s.usage(t); return agents }
}

func updateRound(t *testing.T, s *samples, n int) ([]functiontest.Option, func() int) {
	return s.about(functiontest.Body(map[string]any{"env_vars": map[string]string{"ROUND": fmt.Sprint(n)}})),
		s.generation(t)
}

func deleteAgentRound(t *testing.T, s *samples, _ int) ([]functiontest.Option, func() int) {
	id := s.newAgent(t)
	return []functiontest.Option{functiontest.Path("agent_id", id)},
		func() int { agents, _ := s.usage(t); return agents }
}

func createKeyRound(t *testing.T, s *samples, _ int) ([]functiontest.Option, func() int) {
	return []functiontest.Option{functiontest.Body(map[string]string{"name": "round"})},
		func() int { _, keys := s.usage(t); return keys }
}

func revokeKeyRound(t *testing.T, s *samples, _ int) ([]functiontest.Option, func() int) {
	id, _ := s.CreateKey(t, org)
	return []functiontest.Option{functiontest.Path("key_id", id)}, func() int { _, keys := s.usage(t); return keys }
}

// revealRound: each client is shown the credentials, and each has an entry in the audit log.
func revealRound(_ *testing.T, s *samples, _ int) ([]functiontest.Option, func() int) {
	return s.about(), auditedOnly()
}

// auditedOnly counts nothing: that the effect is one commit follows from its audit entry, which is in the same commit.
func auditedOnly() func() int {
	calls := 0
	return func() int { calls++; return calls }
}

// exampleRound is the round of a route that oneKeyRounds does not list: its example.
func exampleRound(r function.Route) round {
	return func(t *testing.T, s *samples, _ int) ([]functiontest.Option, func() int) {
		for _, need := range r.Needs {
			if need != function.Firestore && need != function.Publish && need != function.NudgeWebhooks {
				t.Fatalf("%s has an effect outside the records: add a round to oneKeyRounds that counts it", r.Name)
			}
		}
		return newKeyedCall(t, s, r).options, auditedOnly()
	}
}

func putSecretsRound(t *testing.T, s *samples, n int) ([]functiontest.Option, func() int) {
	s.UpdateAgent(t, s.agentID, func(a *agent.Agent) { endOperations(a, otherKey) })
	return s.about(functiontest.Body(map[string]any{"secrets": map[string]string{otherKey: fmt.Sprint(n)}})),
		s.versions(t, otherKey)
}

// endOperations makes a record what it is after a worker: the operations have ended, and former versions are destroyed.
func endOperations(a *agent.Agent, key string) {
	a.MarkPruned([]agent.VersionSpan{{Key: key, Before: a.HighestVersion(key)}})
	a.Operations, a.RotationPending = nil, false
}

func deleteSecretRound(t *testing.T, s *samples, _ int) ([]functiontest.Option, func() int) {
	s.UpdateAgent(t, s.agentID, func(a *agent.Agent) {
		a.Operations, a.Env = nil, []agent.EnvVar{{Key: otherKey, SecretVersion: 1}}
	})
	return s.about(functiontest.Path("key", otherKey)), func() int { return len(s.Agent(t, s.agentID).Operations) }
}

func reconcileRound(t *testing.T, s *samples, _ int) ([]functiontest.Option, func() int) {
	s.reopenOperation(t)
	return s.about(functiontest.Path("operation_id", s.path["operation_id"])), func() int {
		a := s.Agent(t, s.agentID)
		o := a.Operation(s.path["operation_id"])
		if o == nil || o.Stage == secret.Store {
			return 0
		}
		return 1
	}
}

func rotateRound(t *testing.T, s *samples, _ int) ([]functiontest.Option, func() int) {
	s.UpdateAgent(t, s.agentID, func(a *agent.Agent) { endOperations(a, secret.CredentialsKey) })
	return s.about(), s.versions(t, secret.CredentialsKey)
}

// memberRound takes a role away from a member.
func memberRound(role identity.Role) round {
	return func(t *testing.T, s *samples, _ int) ([]functiontest.Option, func() int) {
		s.Firebase.Persons["ada"] = member.Person{ID: "ada", OrganizationID: org, Role: identity.RoleAdmin}
		s.Firebase.Persons[userID] = member.Person{ID: userID, OrganizationID: org, Role: role}
		must(t, s.MemberRecords.RecordMember(t.Context(), org, "ada"))
		return []functiontest.Option{
			functiontest.Path("user_id", userID), functiontest.Body(map[string]string{"role": "member"}),
		}, func() int { return len(s.Firebase.Revoked) }
	}
}

func paymentRound(_ *testing.T, s *samples, _ int) ([]functiontest.Option, func() int) {
	order := map[string]string{"plan": "startup", "interval": "month"}
	return []functiontest.Option{functiontest.Body(order)}, s.Stripe.Pages
}

func (s *samples) webhooks(t *testing.T) []webhook.Webhook {
	t.Helper()
	all, err := s.Webhooks.List(call.As(t.Context(), identity.Caller{OrganizationID: org}), page.Request{})
	must(t, err)
	return all.Items
}

// createWebhookRound removes the webhooks of former rounds, so that the plan has room.
func createWebhookRound(t *testing.T, s *samples, _ int) ([]functiontest.Option, func() int) {
	for _, w := range s.webhooks(t) {
		s.CallNamed(t, "DeleteWebhook", functiontest.AsAdmin(org), functiontest.Path("webhook_id", w.ID)).
			Want(t, 204, "")
	}
	return []functiontest.Option{functiontest.Body(map[string]string{"url": "https://hooks.example.com/"})},
		func() int { return len(s.webhooks(t)) }
}

func deleteWebhookRound(t *testing.T, s *samples, _ int) ([]functiontest.Option, func() int) {
	return []functiontest.Option{functiontest.Path("webhook_id", s.newWebhook(t))},
		func() int { return len(s.webhooks(t)) }
}

// updateWebhookRound disables the webhook in one round, and enables it in the next one.
func updateWebhookRound(t *testing.T, s *samples, n int) ([]functiontest.Option, func() int) {
	return []functiontest.Option{
		functiontest.Path("webhook_id", s.path["webhook_id"]),
		functiontest.Body(map[string]bool{"enabled": n%2 == 1}),
	}, func() int {
		if s.webhooks(t)[0].Status == webhook.Enabled {
			return 1
		}
		return 0
	}
}

func rotateWebhookRound(t *testing.T, s *samples, _ int) ([]functiontest.Option, func() int) {
	return []functiontest.Option{functiontest.Path("webhook_id", s.path["webhook_id"])},
		func() int { return int(s.webhooks(t)[0].SecretVersion) }
}

// requestRound asks for a delivery, after those of former rounds were made.
func requestRound(t *testing.T, s *samples, _ int) ([]functiontest.Option, func() int) {
	s.deliver(t)
	return []functiontest.Option{
		functiontest.Path("webhook_id", s.path["webhook_id"]),
		functiontest.Path("delivery_id", s.path["delivery_id"]),
	}, func() int { return len(s.webhooks(t)[0].Requests) }
}
