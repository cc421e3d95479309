package secretmanager_test

import (
	"strings"
	"testing"

	"agents.example/controlplane/infra/secretmanager"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/secret"
)

// TestEnvironments_ShareNoSecret holds in the worst case: staging runs on a copy of prod's database, so both have the
// same agents.
func TestEnvironments_ShareNoSecret(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	prod := openWith(t, secretmanager.Options{Environment: "prod", Endpoint: w.server.Addr, Database: database})
	staging := openWith(t, secretmanager.Options{Environment: "staging", Endpoint: w.server.Addr, Database: database})
	put(t, prod, w.agent, "TOKEN", secret.BrokeredKey("TOKEN"))
	if _, err := staging.Read(t.Context(), w.agent, "TOKEN", 1); fault.Code(err) != "secret_value_unavailable" {
		t.Errorf("Read in the other environment = %v, want secret_value_unavailable", err)
	}
	first, _, err := prod.EnsureCredentials(t.Context(), w.agent, "admin")
	if err != nil {
		t.Fatal(err)
	}
	other, _, err := staging.EnsureCredentials(t.Context(), w.agent, "admin")
	if err != nil {
		t.Fatal(err)
	}
	if first == other {
		t.Error("both environments have the same credentials")
	}
	for environment, s := range map[string]*secretmanager.Store{"prod": prod, "staging": staging} {
		for _, listed := range owner(t, s).Secrets {
			if !strings.Contains(listed.Name, "/secrets/"+environment+"-agent-"+w.agent+"-") &&
				!strings.Contains(listed.Name, "/secrets/"+environment+"-inject-"+w.agent+"-") {
				t.Errorf("%s lists %s", environment, listed.Name)
			}
		}
	}
	if err := staging.Destroy(t.Context(), w.agent, nil); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"TOKEN", secret.BrokeredKey("TOKEN")} {
		if _, err := prod.Read(t.Context(), w.agent, key, 1); err != nil {
			t.Errorf("%s, after the other environment destroyed its secrets: %v", key, err)
		}
	}
}

func TestOpen_RefusesEnvironmentsThatNamesCannotTellApart(t *testing.T) {
	t.Parallel()
	for _, environment := range []string{"", "p", "Prod", "prod-agent", "production", "1prod"} {
		_, err := secretmanager.Open(t.Context(), secretmanager.Options{
			ProjectID: project, Environment: environment, Endpoint: "127.0.0.1:1",
		})
		if err == nil || !strings.Contains(err.Error(), "environment") {
			t.Errorf("Open in the environment %q = %v, want an error about the environment", environment, err)
		}
	}
}
