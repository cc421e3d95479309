package agent_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/secret"
)

// withSecret makes a running agent that has credentials and a live secret.
func withSecret() agent.Agent {
	a := agent.New("3fa85f64-5717-4562-b3fc-2c963f66afa6", "cell-1",
		agent.Draft{Name: "a", Plan: "pro", Env: []agent.EnvVar{
			{Key: "MODE", Value: "fast"}, {Key: "TOKEN", SecretVersion: 1, Bytes: 5, SetAt: at(0)},
		}}, at(0))
	for _, name := range agent.StageNames() {
		a.EndStage(name, agent.StageSucceeded, at(0))
	}
	a.CredentialVersion = 1
	a.BecameReady(at(1))
	return a
}

func set(id, key string) secret.Operation {
	return secret.Operation{ID: id, Key: key, Action: secret.Set, Bytes: 5}
}

func del(id, key string) secret.Operation {
	return secret.Operation{ID: id, Key: key, Action: secret.Delete}
}

func rotate(id string) secret.Operation {
	return secret.Operation{ID: id, Key: secret.CredentialsKey, Action: secret.Rotate}
}

func begin(t *testing.T, a *agent.Agent, minute int, requested ...secret.Operation) {
	t.Helper()
	if _, err := a.BeginOperations(a.SecretsRevision, requested, at(minute)); err != nil {
		t.Fatal(err)
	}
}

func recordStored(t *testing.T, a *agent.Agent, minute int, id string, version int64) {
	t.Helper()
	outcome := agent.Outcome{OperationID: id, Version: version}
	if version == 0 {
		outcome.Refused, outcome.Code = true, "secret_store_denied"
	}
	if err := a.RecordStored([]agent.Outcome{outcome}, at(minute)); err != nil {
		t.Fatal(err)
	}
}

// store makes an agent begin an operation, whose value is stored as a version.
func store(t *testing.T, a *agent.Agent, minute int, version int64, o secret.Operation) {
	t.Helper()
	begin(t, a, minute, o)
	recordStored(t, a, minute, o.ID, version)
}

// operationsOf renders the agent's operations as "id stage status;".
func operationsOf(a agent.Agent) string {
	text := ""
	for _, o := range a.Operations {
		text += fmt.Sprintf("%s %s %s;", o.ID, o.Stage, o.Status)
	}
	return text
}

func TestBeginOperations_RecordsWhatIsNotYetSatisfied(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		given     func(*testing.T, *agent.Agent)
		requested []secret.Operation
		want      string // as operationsOf renders it
		wantErr   error
		wantCode  string
	}{
		"set two secrets": {
			requested: []secret.Operation{set("a", "A"), set("b", "B")}, want: "a store pending;b store pending;",
		},
		"delete a secret":         {requested: []secret.Operation{del("d", "TOKEN")}, want: "d bind pending;"},
		"delete an unknown key":   {requested: []secret.Operation{del("d", "NOTHING")}},
		"delete a plain variable": {requested: []secret.Operation{del("d", "MODE")}},
		"delete the credentials":  {requested: []secret.Operation{del("d", secret.CredentialsKey)}},
		"rotate the credentials":  {requested: []secret.Operation{rotate("r")}, want: "r store pending;"},
		"rotate before they exist": {
			given:     func(_ *testing.T, a *agent.Agent) { a.CredentialVersion = 0 },
			requested: []secret.Operation{rotate("r")}, wantCode: "credentials_not_ready",
		},
		"delete during a deletion": {
			given:     func(t *testing.T, a *agent.Agent) { begin(t, a, 2, del("d", "TOKEN")) },
			requested: []secret.Operation{del("e", "TOKEN")}, want: "d bind pending;",
		},
		"rotate during a rotation": {
			given:     func(t *testing.T, a *agent.Agent) { store(t, a, 2, 2, rotate("r")) },
			requested: []secret.Operation{rotate("s")}, want: "r bind pending;",
		},
		"set while another request stores": {
			given:     func(t *testing.T, a *agent.Agent) { begin(t, a, 3, set("a", "A")) },
			requested: []secret.Operation{set("b", "A")}, wantErr: agent.ErrStoring,
		},
		"set after another request died": {
			given:     func(t *testing.T, a *agent.Agent) { begin(t, a, 2, set("a", "A")) },
			requested: []secret.Operation{set("b", "A")}, want: "a store superseded;b store pending;",
		},
		"set after an earlier value was stored": {
			given:     func(t *testing.T, a *agent.Agent) { store(t, a, 2, 1, set("a", "A")) },
			requested: []secret.Operation{set("b", "A")}, want: "a bind pending;b store pending;",
		},
		"delete after a value was stored": {
			given:     func(t *testing.T, a *agent.Agent) { store(t, a, 2, 1, set("a", "A")) },
			requested: []secret.Operation{del("d", "A")}, want: "a bind superseded;d bind pending;",
		},
		"set for a deleting agent": {
			given:     func(_ *testing.T, a *agent.Agent) { _ = a.Act(agent.Delete, "", at(2)) },
			requested: []secret.Operation{set("a", "A")}, wantCode: "agent_deleting",
		},
		"too many keys": {requested: func() (many []secret.Operation) {
			for i := range agent.MaxEnvKeys - 1 {
				many = append(many, set(fmt.Sprint(i), fmt.Sprint("K", i)))
			}
			return many
		}(), wantCode: "validation_error"},
		"too many bytes": {
			requested: []secret.Operation{{ID: "a", Key: "A", Action: secret.Set, Bytes: agent.MaxSecretBytes}},
			wantCode:  "validation_error",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := withSecret()
			if c.given != nil {
				c.given(t, &a)
			}
			_, err := a.BeginOperations(a.SecretsRevision, c.requested, at(3))
			switch {
			case c.wantErr != nil:
				if !errors.Is(err, c.wantErr) {
					t.Errorf("error = %v, want %v", err, c.wantErr)
				}
			case c.wantCode != "":
				equal(t, "code of the error", fault.Code(err), c.wantCode)
			case err != nil:
				t.Errorf("error = %v, want none", err)
			default:
				equal(t, "operations", operationsOf(a), c.want)
			}
		})
	}
}

func TestBeginOperations_RefusesAnOutdatedRevision(t *testing.T) {
	t.Parallel()
	a := withSecret()
	_, err := a.BeginOperations(a.SecretsRevision+1, []secret.Operation{set("a", "A")}, at(3))
	if !errors.Is(err, agent.ErrSecretsChanged) {
		t.Errorf("error = %v, want ErrSecretsChanged", err)
	}
}

// TestSecrets_ShowTheProgressOfAValue follows a secret from its request into the pod and out of it again.
func TestSecrets_ShowTheProgressOfAValue(t *testing.T) {
	t.Parallel()
	a := withSecret()
	// show renders each secret as "key latest/live in-sync".
	show := func() string {
		text := fmt.Sprintf("warming %t due %t:", a.Warming, a.OperationsDue())
		for _, s := range a.Secrets() {
			latest, live := int64(0), int64(0)
			if s.LatestVersion != nil {
				latest = *s.LatestVersion
			}
			if s.LiveVersion != nil {
				live = *s.LiveVersion
			}
			text += fmt.Sprintf(" %s %d/%d %t", s.Key, latest, live, s.InSync)
		}
		return text
	}
	generation := a.Generation
	for i, step := range []struct {
		do   func()
		want string
	}{
		{do: func() {}, want: "warming false due false: TOKEN 1/1 true"},
		{
			do:   func() { begin(t, &a, 2, set("a", "A"), set("b", "TOKEN")) },
			want: "warming false due false: A 0/0 false TOKEN 1/1 false",
		},
		{
			do:   func() { recordStored(t, &a, 2, "a", 1); recordStored(t, &a, 2, "b", 2) },
			want: "warming true due true: A 1/0 false TOKEN 2/1 false",
		},
		{do: func() { a.BindSecrets(at(3)) }, want: "warming true due true: A 1/0 false TOKEN 2/1 false"},
		{do: func() { a.MarkSecretsSynced(at(3)) }, want: "warming true due true: A 1/0 false TOKEN 2/1 false"},
		{do: func() { a.BecameReady(at(4)) }, want: "warming false due true: A 1/1 true TOKEN 2/2 true"},
		{
			do:   func() { a.FinishOperations([]string{"a", "b"}, at(4)) },
			want: "warming false due false: A 1/1 true TOKEN 2/2 true",
		},
		{do: func() { begin(t, &a, 5, del("d", "A")) }, want: "warming true due true: A 0/1 false TOKEN 2/2 true"},
		{do: func() { a.BindSecrets(at(5)) }, want: "warming true due true: A 0/1 false TOKEN 2/2 true"},
		{
			do:   func() { a.MarkSecretsSynced(at(5)); a.BecameReady(at(6)) },
			want: "warming false due true: A 0/0 false TOKEN 2/2 true",
		},
		{do: func() { a.FinishOperations([]string{"d"}, at(6)) }, want: "warming false due false: TOKEN 2/2 true"},
	} {
		if step.do(); show() != step.want {
			t.Fatalf("after step %d:\n got %s\nwant %s", i, show(), step.want)
		}
	}
	equal(t, "number of new generations", a.Generation-generation, 2)
	equal(t, "WorkDueAt", a.WorkDueAt, time.Time{})
}

// TestFailure_ReachesTheSecretOperation makes an agent fail with each code while it syncs a secret.
func TestFailure_ReachesTheSecretOperation(t *testing.T) {
	t.Parallel()
	for failure, want := range map[string]string{
		"secret_store_unavailable": "secret_store_unavailable", "secret_store_denied": "secret_store_denied",
		"secret_quota_exceeded": "secret_quota_exceeded", "secret_value_unavailable": "secret_value_unavailable",
		"namespace_missing": "namespace_missing", "namespace_terminating": "namespace_missing",
		"cluster_unavailable": "cluster_unreachable",
		"object_rejected":     "sync_conflict", "readiness_timeout": "rollout_timeout",
		"provisioning_timeout": "rollout_timeout",
		"image_pull_failed":    "rollout_timeout", "pod_crash_loop": "pod_crash_loop",
		"out_of_memory":     "pod_crash_loop",
		"scratch_full":      "pod_crash_loop",
		"pod_unschedulable": "pod_unschedulable", "gateway_unhealthy": "gateway_unhealthy",
		"anything": "internal_error",
	} {
		for _, final := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, final %t", failure, final), func(t *testing.T) {
				t.Parallel()
				a := withSecret()
				store(t, &a, 2, 1, set("a", "A"))
				a.BindSecrets(at(3))
				wantStatus := secret.Pending
				f := agent.Failure{Code: failure, Stage: agent.StageSecrets, Message: "m"}
				a.Retry(f, at(4))
				if final {
					a.GiveUp(f, at(4))
					wantStatus = secret.Failed
				}
				o := a.Operation("a")
				equal(t, "stage", o.Stage, secret.Sync)
				equal(t, "status", o.Status, wantStatus)
				equal(t, "error code", o.ErrorCode, want)
				equal(t, "OperationsDue", a.OperationsDue(), !final)

				if err := a.RetryOperation("a", at(5)); err != nil {
					t.Errorf("RetryOperation: %v", err)
				}
				equal(t, "status after the retry", a.Operation("a").Status, secret.Pending)
				equal(t, "attempts after the retry", a.Operation("a").Attempts, 2)
				equal(t, "OperationsDue after the retry", a.OperationsDue(), true)
				equal(t, "Converged after the retry", a.Converged(), false)
			})
		}
	}
}

// TestAwaitedSecret_StaysUntilAReplacementIsStored sets a secret again whose first value did not reach the secret
// store. A worker that looks between the two records of the new operation must not start the agent.
func TestAwaitedSecret_StaysUntilAReplacementIsStored(t *testing.T) {
	t.Parallel()
	a := agent.New("3fa85f64-5717-4562-b3fc-2c963f66afa6", "cell-1", agent.Draft{Name: "a", Plan: "pro"}, at(0))
	creation := set("first", "TOKEN")
	creation.RequiredToStart = true
	begin(t, &a, 0, creation)
	recordStored(t, &a, 1, "first", 0)
	for _, id := range []string{"second", "third"} {
		begin(t, &a, 2, set(id, "TOKEN"))
		if key := a.AwaitedSecret(); key != "TOKEN" {
			t.Errorf("AwaitedSecret while the %s value is being stored = %q, want TOKEN", id, key)
		}
		recordStored(t, &a, 3, id, map[string]int64{"second": 0, "third": 1}[id])
	}
	if key := a.AwaitedSecret(); key != "" {
		t.Errorf("AwaitedSecret after a value was stored = %q, want none", key)
	}
	begin(t, &a, 4, set("other", "OTHER"))
	if key := a.AwaitedSecret(); key != "" {
		t.Errorf("AwaitedSecret while a secret is added later = %q, want none", key)
	}
}
