package agent_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agent/agenttest"
	"agents.example/controlplane/shared/fault"
)

func TestLooksSecret_FindsTheNamesOfSecrets(t *testing.T) {
	t.Parallel()
	for key, want := range agenttest.SecretKeys() {
		if got := agent.LooksSecret(key); got != want {
			t.Errorf("LooksSecret(%q) = %t, want %t", key, got, want)
		}
	}
}

func TestLooksSecretValue_FindsTheFormsOfSecrets(t *testing.T) {
	t.Parallel()
	for name, row := range agenttest.SecretValues() {
		if got := agent.LooksSecretValue(row.Value); got != row.Want {
			t.Errorf("%s: LooksSecretValue(%q) = %t, want %t", name, row.Value, got, row.Want)
		}
	}
}

// TestEnv_SplitsSecretsFromPlainVariables checks that a variable is a secret by its key or by its value, and that none
// is both or neither.
func TestEnv_SplitsSecretsFromPlainVariables(t *testing.T) {
	t.Parallel()
	env := map[string]string{
		"MODE": "fast", "PGPASSWORD": "x", "DATABASE_URL": "postgres://app:hunter2@db/app",
		"REDIS_URL": "redis://cache",
	}
	wantSecrets := map[string]string{"PGPASSWORD": "x", "DATABASE_URL": "postgres://app:hunter2@db/app"}
	if diff := cmp.Diff(wantSecrets, agent.SecretEnv(env)); diff != "" {
		t.Errorf("SecretEnv (-want +got):\n%s", diff)
	}
	wantPlain := []agent.EnvVar{{Key: "MODE", Value: "fast"}, {Key: "REDIS_URL", Value: "redis://cache"}}
	if diff := cmp.Diff(wantPlain, agent.PlainEnv(env)); diff != "" {
		t.Errorf("PlainEnv (-want +got):\n%s", diff)
	}
}

// TestApply_KeepsPlainVariablesThatAreNamedLikeSecrets checks agents of releases that knew fewer names of secrets.
func TestApply_KeepsPlainVariablesThatAreNamedLikeSecrets(t *testing.T) {
	t.Parallel()
	text := func(s string) *string { return &s }
	for name, c := range map[string]struct {
		patch        map[string]*string
		wantEnv      string
		wantReplaced bool
		wantRefused  bool
	}{
		"another variable": {
			patch:   map[string]*string{"MODE": text("slow")},
			wantEnv: "DATABASE_URL=postgres://a:b@c/d MODE=slow PGPASSWORD=x", wantReplaced: true,
		},
		"the placeholders sent back": {
			patch: map[string]*string{
				"PGPASSWORD": text("configured"), "DATABASE_URL": text("configured"), "MODE": text("configured"),
			},
			wantEnv: "DATABASE_URL=postgres://a:b@c/d MODE=fast PGPASSWORD=x",
		},
		"removal": {
			patch: map[string]*string{"PGPASSWORD": nil, "DATABASE_URL": nil}, wantEnv: "MODE=fast", wantReplaced: true,
		},
		"another value":               {patch: map[string]*string{"PGPASSWORD": text("y")}, wantRefused: true},
		"the same value":              {patch: map[string]*string{"PGPASSWORD": text("x")}, wantRefused: true},
		"the placeholder of a secret": {patch: map[string]*string{"PGPASSWORD": text("gsm")}, wantRefused: true},
		"a value with a password":     {patch: map[string]*string{"MODE": text("http://a:b@c")}, wantRefused: true},
		"a new secret":                {patch: map[string]*string{"DB_PASS": text("y")}, wantRefused: true},
		"a placeholder of no key":     {patch: map[string]*string{"DB_PASS": text("configured")}, wantRefused: true},
		"removal of an unknown key":   {patch: map[string]*string{"DB_PASS": nil}, wantRefused: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := in(agent.Running)
			a.Env = []agent.EnvVar{
				{Key: "DATABASE_URL", Value: "postgres://a:b@c/d"},
				{Key: "MODE", Value: "fast"},
				{Key: "PGPASSWORD", Value: "x"},
			}
			before := a.Generation
			err := patchEnv(&a, c.patch)
			if c.wantRefused {
				if !fault.Is(err, fault.Invalid) {
					t.Fatalf("error = %v, want kind Invalid", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var env []string
			for _, e := range a.Env {
				env = append(env, e.Key+"="+e.Value)
			}
			equal(t, "Env", strings.Join(env, " "), c.wantEnv)
			equal(t, "generation changed", a.Generation != before, c.wantReplaced)
		})
	}
}

// patchEnv changes the environment as the route does: it checks the body, then merges it.
func patchEnv(a *agent.Agent, env map[string]*string) error {
	body := map[string]any{}
	for key, value := range env {
		body[key] = nil
		if value != nil {
			body[key] = *value
		}
	}
	if found := agent.UpdateViolations(map[string]any{"env_vars": body}); len(found) > 0 {
		return fault.Validation(found...)
	}
	return a.Apply(agent.Patch{Env: env}, at(1))
}
