package diagnosis_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/shared/client"
	"agents.example/controlplane/shared/client/diagnosis"
)

// row is an agent in a situation, and what its diagnosis has to say.
type row struct {
	facts       diagnosis.Facts
	wantCodes   []string
	wantFirst   diagnosis.Action
	wantSummary string
	wantWaiting string
	wantHealthy bool
}

// agent returns an agent in a status that allows some actions.
func agent(status client.AgentStatus, failure string, allowed ...client.AgentAction) client.Agent {
	a := client.Agent{ID: "a", Status: status, UpdatedAt: time.Unix(100, 0)}
	a.Config.AllowedActions = allowed
	if failure != "" {
		a.Config.Error = &client.AgentFailure{Code: failure, Message: "It failed with " + failure + ".", Stage: "ready"}
	}
	return a
}

func withReason(a client.Agent, r client.AgentStatusReason) client.Agent {
	a.Config.StatusReason = &r
	return a
}

func starting() client.Agent {
	a := agent(client.AgentStatusProvisioning, "", client.AgentActionStop)
	at := time.Unix(50, 0)
	a.Config.ProvisioningStages = []client.AgentStage{
		{Name: client.AgentStageNameNamespace, Status: client.AgentStageStatusSucceeded},
		{Name: client.AgentStageNameSecrets, Status: client.AgentStageStatusSkipped},
		{Name: client.AgentStageNameReady, Status: client.AgentStageStatusRunning, StartedAt: &at},
	}
	return a
}

func operation(key string, status client.SecretOperationStatus, code string) client.SecretOperation {
	return client.SecretOperation{
		ID: "o-" + key, Key: key, Action: client.SecretOperationActionSet, Status: status,
		Stage: client.SecretOperationStageStore, ErrorCode: &code,
	}
}

func rows() map[string]row {
	running := agent(client.AgentStatusRunning, "", client.AgentActionRestart)
	warming := running
	warming.DashboardWarming = true
	failed := client.SecretOperationStatusFailed
	return map[string]row{
		"runs": {
			facts: diagnosis.Facts{Agent: running, Reachability: &client.DashboardReachability{Reachable: true}},

			wantHealthy: true, wantSummary: "It answers, and no problem was found.",
		},
		"runs, not probed": {facts: diagnosis.Facts{Agent: running}, wantHealthy: true, wantSummary: "No problem"},
		"restarts": {facts: diagnosis.Facts{
			Agent: warming,
			Reachability: &client.DashboardReachability{
				Reason: client.DashboardReachabilityReasonConnect, DashboardWarming: true,
			},
		}, wantWaiting: "the new pod to answer", wantSummary: "It waits for the new pod"},
		"does not answer": {facts: diagnosis.Facts{
			Agent:        running,
			Reachability: &client.DashboardReachability{Reason: client.DashboardReachabilityReasonConnect},
		}, wantCodes: []string{"unreachable_connect"}, wantFirst: diagnosis.ReadLogs, wantSummary: "does not accept"},
		"crashes": {
			facts: diagnosis.Facts{
				Agent: agent(client.AgentStatusError, "pod_crash_loop", client.AgentActionRestart),
			},
			wantCodes: []string{"pod_crash_loop"}, wantFirst: diagnosis.ReadLogs,
			wantSummary: "The agent failed and does not run. It failed with pod_crash_loop.",
		},
		"retries": {
			facts:     diagnosis.Facts{Agent: agent(client.AgentStatusPending, "cluster_unavailable")},
			wantCodes: []string{"cluster_unavailable"}, wantFirst: diagnosis.Wait, wantWaiting: "the next attempt",
		},
		"starts": {facts: diagnosis.Facts{Agent: starting()}, wantWaiting: "the agent's pod to become ready"},
		"paused": {
			facts:     diagnosis.Facts{Agent: agent(client.AgentStatusPaused, "", client.AgentActionResume)},
			wantCodes: []string{"agent_paused"}, wantFirst: diagnosis.Resume,
		},
		"stopped": {
			facts:     diagnosis.Facts{Agent: agent(client.AgentStatusStopped, "", client.AgentActionStart)},
			wantCodes: []string{"agent_stopped"}, wantFirst: diagnosis.Start,
		},
		"payment overdue": {facts: diagnosis.Facts{
			Agent:        withReason(agent(client.AgentStatusPaused, ""), client.AgentStatusReasonBilling),
			Organization: &client.Organization{Status: client.OrganizationStatusPastDue},
		}, wantCodes: []string{"subscription_past_due"}, wantFirst: diagnosis.ManageBilling},
		"too large for the plan": {facts: diagnosis.Facts{
			Agent:        withReason(agent(client.AgentStatusPaused, ""), client.AgentStatusReasonBilling),
			Organization: &client.Organization{Status: client.OrganizationStatusActive},
		}, wantCodes: []string{"plan_capacity_exceeded"}, wantFirst: diagnosis.ManageBilling},
		"deleted": {
			facts:     diagnosis.Facts{Agent: agent(client.AgentStatusDeleting, "")},
			wantCodes: []string{"agent_deleting"}, wantFirst: diagnosis.Wait, wantWaiting: "to be gone",
		},
		"secret lost": {facts: diagnosis.Facts{Agent: running, Operations: []client.SecretOperation{
			operation("TOKEN", failed, "secret_value_unavailable"),
		}}, wantCodes: []string{"secret_operation_failed"}, wantFirst: diagnosis.SetSecret},
		"secret not synced": {facts: diagnosis.Facts{Agent: running, Operations: []client.SecretOperation{
			operation("TOKEN", failed, "cluster_unreachable"), operation("TOKEN", failed, "internal_error"),
		}}, wantCodes: []string{"secret_operation_failed"}, wantFirst: diagnosis.Reconcile},
		"secret waits for the start": {facts: diagnosis.Facts{
			Agent: agent(client.AgentStatusStopped, "", client.AgentActionStart),
			Operations: []client.SecretOperation{
				operation("TOKEN", client.SecretOperationStatusPending, "agent_not_running"),
			},
		}, wantCodes: []string{"agent_stopped"}, wantFirst: diagnosis.Start},
	}
}

// TestOf_NamesTheCauseAndWhatToDo covers each situation that an agent can be in.
func TestOf_NamesTheCauseAndWhatToDo(t *testing.T) {
	t.Parallel()
	for name, row := range rows() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := diagnosis.Of(row.facts)
			var codes []string
			for _, c := range d.Causes {
				codes = append(codes, c.Code)
				if c.Message == "" || len(c.Evidence) == 0 || len(c.YouCan) == 0 {
					t.Errorf("incomplete cause %+v", c)
				}
			}
			if !slices.Equal(codes, row.wantCodes) {
				t.Fatalf("causes = %q, want %q", codes, row.wantCodes)
			}
			if len(d.Causes) > 0 && d.Causes[0].YouCan[0].Action != row.wantFirst {
				t.Errorf("first step = %q, want %q", d.Causes[0].YouCan[0].Action, row.wantFirst)
			}
			if !strings.Contains(d.Summary, row.wantSummary) {
				t.Errorf("summary = %q, want %q in it", d.Summary, row.wantSummary)
			}
			if (d.WaitingFor == "") != (row.wantWaiting == "") || !strings.Contains(d.WaitingFor, row.wantWaiting) {
				t.Errorf("waiting for %q, want %q", d.WaitingFor, row.wantWaiting)
			}
			if d.Healthy != row.wantHealthy {
				t.Errorf("healthy = %t, want %t", d.Healthy, row.wantHealthy)
			}
		})
	}
}

// TestOf_OffersNoActionThatTheStatusRefuses diagnoses every failure in a status that allows nothing.
func TestOf_OffersNoActionThatTheStatusRefuses(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"pod_crash_loop", "namespace_missing", "readiness_timeout", "of a later release"} {
		d := diagnosis.Of(diagnosis.Facts{Agent: agent(client.AgentStatusPending, code)})
		for _, s := range d.Causes[0].YouCan {
			if s.Action == diagnosis.Restart || s.Action == diagnosis.Start || s.Action == diagnosis.Resume {
				t.Errorf("%s: the step %q is offered, which the status refuses", code, s.Text)
			}
		}
	}
}

// TestOf_SaysSinceWhenAnAgentStarts takes the time from the stage that runs.
func TestOf_SaysSinceWhenAnAgentStarts(t *testing.T) {
	t.Parallel()
	if got := diagnosis.Of(diagnosis.Facts{Agent: starting()}).Since; got == nil || !got.Equal(time.Unix(50, 0)) {
		t.Errorf("since = %v, want the start of the stage", got)
	}
}
