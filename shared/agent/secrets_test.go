package agent_test

import (
	"errors"
	"fmt"
	"testing"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/secret"
)

// withSecret is a running agent with a live secret, whose credentials are there.
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

func begin(t *testing.T, a *agent.Agent, minute int, asked ...secret.Operation) []secret.Operation {
	t.Helper()
	begun, err := a.BeginOperations(a.SecretsRevision, asked, at(minute))
	if err != nil {
		t.Fatal(err)
	}
	return begun
}

func stored(t *testing.T, a *agent.Agent, minute int, id string, version int64) {
	t.Helper()
	if err := a.RecordStored([]agent.Outcome{{OperationID: id, Version: version, Code: "secret_store_denied"}},
		at(minute)); err != nil {
		t.Fatal(err)
	}
}

func standing(a agent.Agent) string {
	text := ""
	for _, o := range a.Operations {
		text += fmt.Sprintf("%s %s %s;", o.ID, o.Stage, o.Status)
	}
	return text
}

func TestBegin(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(*testing.T, *agent.Agent)
		asked   []secret.Operation
		want    string
		err     error
		code    string
	}{
		"a batch": {asked: []secret.Operation{set("a", "A"), set("b", "B")},
			want: "a store pending;b store pending;"},
		"a deletion":                {asked: []secret.Operation{del("d", "TOKEN")}, want: "d bind pending;"},
		"a deletion of nothing":     {asked: []secret.Operation{del("d", "NOTHING")}},
		"a deletion of a plain one": {asked: []secret.Operation{del("d", "MODE")}},
		"a deletion of credentials": {asked: []secret.Operation{del("d", secret.CredentialsKey)}},
		"a rotation":                {asked: []secret.Operation{rotate("r")}, want: "r store pending;"},
		"a rotation of no credentials": {
			prepare: func(_ *testing.T, a *agent.Agent) { a.CredentialVersion = 0 },
			asked:   []secret.Operation{rotate("r")}, code: "credentials_not_ready",
		},
		"a deletion again": {
			prepare: func(t *testing.T, a *agent.Agent) { begin(t, a, 2, del("d", "TOKEN")) },
			asked:   []secret.Operation{del("e", "TOKEN")}, want: "d bind pending;",
		},
		"a rotation again": {
			prepare: func(t *testing.T, a *agent.Agent) { begin(t, a, 2, rotate("r")); stored(t, a, 2, "r", 2) },
			asked:   []secret.Operation{rotate("s")}, want: "r bind pending;",
		},
		"while another stores": {
			prepare: func(t *testing.T, a *agent.Agent) { begin(t, a, 3, set("a", "A")) },
			asked:   []secret.Operation{set("b", "A")}, err: agent.ErrStoring,
		},
		"after another died": {
			prepare: func(t *testing.T, a *agent.Agent) { begin(t, a, 2, set("a", "A")) },
			asked:   []secret.Operation{set("b", "A")},
			want:    "a store superseded;b store pending;",
		},
		"while another is on its way": {
			prepare: func(t *testing.T, a *agent.Agent) { begin(t, a, 2, set("a", "A")); stored(t, a, 2, "a", 1) },
			asked:   []secret.Operation{set("b", "A")}, want: "a bind pending;b store pending;",
		},
		"a deletion of what is on its way": {
			prepare: func(t *testing.T, a *agent.Agent) { begin(t, a, 2, set("a", "A")); stored(t, a, 2, "a", 1) },
			asked:   []secret.Operation{del("d", "A")}, want: "a bind superseded;d bind pending;",
		},
		"of an agent that is deleted": {
			prepare: func(_ *testing.T, a *agent.Agent) { _ = a.Act(agent.Delete, "", at(2)) },
			asked:   []secret.Operation{set("a", "A")}, code: "agent_deleting",
		},
		"too many keys": {asked: func() (many []secret.Operation) {
			for i := range agent.MaxEnvKeys - 1 {
				many = append(many, set(fmt.Sprint(i), fmt.Sprint("K", i)))
			}
			return many
		}(), code: "validation_error"},
		"too many bytes": {asked: []secret.Operation{{ID: "a", Key: "A", Action: secret.Set,
			Bytes: agent.MaxSecretBytes}}, code: "validation_error"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := withSecret()
			if c.prepare != nil {
				c.prepare(t, &a)
			}
			_, err := a.BeginOperations(a.SecretsRevision, c.asked, at(3))
			switch {
			case c.err != nil && !errors.Is(err, c.err), c.code != "" && fault.Code(err) != c.code, c.err == nil &&
				c.code == "" && err != nil:
				t.Fatalf("error %v, want %v %s", err, c.err, c.code)
			case err == nil && standing(a) != c.want:
				t.Errorf("operations %s, want %s", standing(a), c.want)
			}
		})
	}
	a := withSecret()
	if _, err := a.BeginOperations(a.SecretsRevision+1, []secret.Operation{set("a", "A")}, at(3)); !errors.Is(err,
		agent.ErrSecretsChanged) {
		t.Errorf("begun with what was seen at another time: %v", err)
	}
}

// TestAValueOnItsWay follows a secret from its request into the pod, and what clients are shown meanwhile.
func TestAValueOnItsWay(t *testing.T) {
	t.Parallel()
	a := withSecret()
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
		{do: func() { begin(t, &a, 2, set("a", "A"), set("b", "TOKEN")) },
			want: "warming false due false: A 0/0 false TOKEN 1/1 false"},
		{do: func() { stored(t, &a, 2, "a", 1); stored(t, &a, 2, "b", 2) },
			want: "warming true due true: A 1/0 false TOKEN 2/1 false"},
		{do: func() { a.BindSecrets(at(3)) }, want: "warming true due true: A 1/0 false TOKEN 2/1 false"},
		{do: func() { a.MarkSecretsSynced(at(3)) }, want: "warming true due true: A 1/0 false TOKEN 2/1 false"},
		{do: func() { a.BecameReady(at(4)) }, want: "warming false due true: A 1/1 true TOKEN 2/2 true"},
		{do: func() { a.FinishOperations([]string{"a", "b"}, at(4)) },
			want: "warming false due false: A 1/1 true TOKEN 2/2 true"},
		{do: func() { begin(t, &a, 5, del("d", "A")) }, want: "warming true due true: A 0/1 false TOKEN 2/2 true"},
		{do: func() { a.BindSecrets(at(5)) }, want: "warming true due true: A 0/1 false TOKEN 2/2 true"},
		{do: func() { a.MarkSecretsSynced(at(5)); a.BecameReady(at(6)) },
			want: "warming false due true: A 0/0 false TOKEN 2/2 true"},
		{do: func() { a.FinishOperations([]string{"d"}, at(6)) }, want: "warming false due false: TOKEN 2/2 true"},
	} {
		if step.do(); show() != step.want {
			t.Fatalf("step %d: %s\nwant %s", i, show(), step.want)
		}
	}
	if a.Generation != generation+2 || !a.WorkDueAt.IsZero() {
		t.Errorf("%d rollouts, due at %v", a.Generation-generation, a.WorkDueAt)
	}
}

// TestWhatHindersAnOperation has an agent fail in every way while a secret is brought to it.
func TestWhatHindersAnOperation(t *testing.T) {
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
		"pod_unschedulable": "pod_unschedulable", "gateway_unhealthy": "gateway_unhealthy",
		"anything": "internal_error",
	} {
		for _, final := range []bool{false, true} {
			a := withSecret()
			begin(t, &a, 2, set("a", "A"))
			stored(t, &a, 2, "a", 1)
			a.BindSecrets(at(3))
			status := secret.Pending
			f := agent.Failure{Code: failure, Stage: agent.StageSecrets, Message: "m"}
			if a.Retry(f, at(4)); final {
				a.GiveUp(f, at(4))
				status = secret.Failed
			}
			o := a.Operation("a")
			if o.ErrorCode != want || o.Status != status || o.Stage != secret.Sync {
				t.Errorf("%s, final %t: %s %s %s, want %s %s", failure, final, o.Stage, o.Status, o.ErrorCode, status,
					want)
			}
			if a.OperationsDue() == final {
				t.Errorf("%s, final %t: due %t", failure, final, a.OperationsDue())
			}
			if err := a.RetryOperation("a", at(5)); err != nil || a.Operation("a").Status != secret.Pending ||
				a.Operation("a").Attempts != 2 || !a.OperationsDue() || a.Converged() {
				t.Errorf("%s, final %t: retried with %v, %+v", failure, final, err, a.Operation("a"))
			}
		}
	}
}
