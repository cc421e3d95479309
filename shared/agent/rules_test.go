package agent_test

import (
	"encoding/json"
	"strings"
	"testing"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/secret"
)

func TestEnvKeyViolation_RefusesReservedAndMalformedKeys(t *testing.T) {
	t.Parallel()
	for key, wantRefused := range map[string]bool{
		"DASHBOARD_USERNAME": true, "API_SERVER_KEY": true, "X_DASHBOARD_BASIC_AUTH_USER": true,
		"MY_GATEWAY_TOKEN":        true,
		"KUBERNETES_SERVICE_HOST": true, "PATH": true, "LD_PRELOAD": true, "PORT": true, "1A": true, "A-B": true,
		"":                       true,
		strings.Repeat("A", 129): true, strings.Repeat("A", 128): false, "_A1": false, "MY_PATH": false, "PORTS": false,
	} {
		if got := agent.EnvKeyViolation(key); (got != "") != wantRefused {
			t.Errorf("EnvKeyViolation(%q) = %q, want a violation: %t", key, got, wantRefused)
		}
	}
}

func TestHostname_LeadsBackToTheAgent(t *testing.T) {
	t.Parallel()
	d := agent.Addresses{Domain: "agents.example.com", Scheme: "https"}
	for name, wantSlug := range map[string]string{
		"My Agent": "my-agent", "  ": "agent", "Äpfel & Birnen": "pfel-birnen", "日本": "agent", "a--b__c": "a-b-c",
		strings.Repeat("x", 40):             strings.Repeat("x", 30),
		"ends with dash at thirty charsx y": "ends-with-dash-at-thirty-chars",
	} {
		if got := agent.Slug(name); got != wantSlug {
			t.Errorf("Slug(%q) = %q, want %q", name, got, wantSlug)
		}
		a := in(agent.Running)
		a.Slug = agent.Slug(name)
		host := a.Hostname(d)
		label, _, _ := strings.Cut(host, ".")
		if len(label) > 63 {
			t.Errorf("the label of %q has %d characters, want at most 63", host, len(label))
		}
		if want := "." + a.Cell + "." + d.Domain; "."+strings.SplitN(host, ".", 2)[1] != want {
			t.Errorf("the hostname is %s, want one below %s", host, want)
		}
		if id, ok := agent.IDFromHostname(strings.ToUpper(host), d.CellDomain(a.Cell)); !ok || id != a.ID {
			t.Errorf("IDFromHostname(%q) = %q, %t, want %q", strings.ToUpper(host), id, ok, a.ID)
		}
	}
}

func TestIDFromHostname_RefusesOtherNames(t *testing.T) {
	t.Parallel()
	// The last character holds three bits of the id: b, c and d in its place decode to the same id.
	const id = "kyse7bmbhzbuncybdkvqkytvda"
	const suffix = "us-central1-1.agents.example.com"
	if _, ok := agent.IDFromHostname("bot-"+id+"."+suffix, suffix); !ok {
		t.Errorf("IDFromHostname(bot-%s.%s) has no id, want one", id, suffix)
	}
	for name, host := range map[string]string{
		"empty": "", "the suffix": suffix, "another domain": "bot-" + id + ".other.com",
		"another cell":                "bot-" + id + ".europe-west1-1.agents.example.com",
		"a cell that ends like it":    "bot-" + id + ".x" + suffix,
		"no cell":                     "bot-" + id + ".agents.example.com",
		"a trailing dot":              "bot-" + id + "." + suffix + ".",
		"a port":                      "bot-" + id + "." + suffix + ":443",
		"another label":               "evil.bot-" + id + "." + suffix,
		"a short id":                  "bot-aaaa." + suffix,
		"an id without a slug":        id + "." + suffix,
		"an empty slug":               "-" + id + "." + suffix,
		"the same id, spelled with b": "bot-" + id[:25] + "b." + suffix,
		"a character of no id":        "bot-" + id[:25] + "1." + suffix,
		"a line break in the id":      "bot-" + id[:10] + "\n" + id[10:] + "." + suffix,
	} {
		if got, ok := agent.IDFromHostname(host, suffix); ok {
			t.Errorf("%s: IDFromHostname(%q) = %q, want none", name, host, got)
		}
	}
}

func TestHostname_IsEmptyWithoutACell(t *testing.T) {
	t.Parallel()
	a := in(agent.Running)
	a.Cell = ""
	if got := a.Hostname(agent.Addresses{Domain: "agents.example.com"}); got != "" {
		t.Errorf("Hostname of an agent without a cell = %q, want none", got)
	}
}

func TestApply_MergesThePatch(t *testing.T) {
	t.Parallel()
	text := func(s string) *string { return &s }
	start := func() agent.Agent {
		a := in(agent.Running)
		a.Env = []agent.EnvVar{{Key: "GITHUB_TOKEN", SecretVersion: 1}, {Key: "MODE", Value: "fast"}}
		a.Config = json.RawMessage(`{"tags":["a"],"theme":{"color":"red","size":1}}`)
		return a
	}
	cases := map[string]struct {
		env          []agent.EnvVar // in addition to those of every case
		patch        agent.Patch
		wantEnv      string
		wantConfig   string // "" means unchecked
		wantReplaced bool   // the pod
		wantRefused  bool
	}{
		"empty patch": {
			patch:   agent.Patch{},
			wantEnv: "GITHUB_TOKEN=gsm MODE=fast", wantConfig: `{"tags":["a"],"theme":{"color":"red","size":1}}`,
		},
		"placeholders sent back": {
			patch:   agent.Patch{Env: map[string]*string{"GITHUB_TOKEN": text("gsm"), "MODE": text("configured")}},
			wantEnv: "GITHUB_TOKEN=gsm MODE=fast",
		},
		"add a variable": {
			patch:   agent.Patch{Env: map[string]*string{"A": text("1")}},
			wantEnv: "A=1 GITHUB_TOKEN=gsm MODE=fast", wantReplaced: true,
		},
		"add an empty variable": {
			patch:   agent.Patch{Env: map[string]*string{"A": text("")}},
			wantEnv: "A= GITHUB_TOKEN=gsm MODE=fast", wantReplaced: true,
		},
		"same value again": {
			patch: agent.Patch{Env: map[string]*string{"MODE": text("fast")}}, wantEnv: "GITHUB_TOKEN=gsm MODE=fast",
		},
		"remove a variable": {
			patch:   agent.Patch{Env: map[string]*string{"MODE": nil, "UNKNOWN": nil}},
			wantEnv: "GITHUB_TOKEN=gsm", wantReplaced: true,
		},
		"overwrite a secret": {
			patch: agent.Patch{Env: map[string]*string{"GITHUB_TOKEN": text("plain")}}, wantRefused: true,
		},
		"remove a secret": {patch: agent.Patch{Env: map[string]*string{"GITHUB_TOKEN": nil}}, wantRefused: true},
		"merge config": {
			patch: agent.Patch{Config: map[string]any{
				"theme": map[string]any{"color": nil, "font": "b"}, "tags": []any{"c"},
			}},
			wantEnv: "GITHUB_TOKEN=gsm MODE=fast", wantConfig: `{"tags":["c"],"theme":{"font":"b","size":1}}`,
			wantReplaced: true,
		},
		"reserved key of config": {
			patch:      agent.Patch{Config: map[string]any{"error": "x", "n": json.Number("1")}},
			wantEnv:    "GITHUB_TOKEN=gsm MODE=fast",
			wantConfig: `{"n":1,"tags":["a"],"theme":{"color":"red","size":1}}`, wantReplaced: true,
		},
		"config as it is": {
			patch:   agent.Patch{Config: map[string]any{"tags": []any{"a"}, "status_reason": "x"}},
			wantEnv: "GITHUB_TOKEN=gsm MODE=fast",
		},
		"leave a variable of a former release": {
			env:     []agent.EnvVar{{Key: "AGENT_URL", Value: "x"}},
			patch:   agent.Patch{Env: map[string]*string{"A": text("1"), "AGENT_URL": text("configured")}},
			wantEnv: "A=1 AGENT_URL=x GITHUB_TOKEN=gsm MODE=fast", wantReplaced: true,
		},
		"remove a variable of a former release": {
			env:     []agent.EnvVar{{Key: "AGENT_URL", Value: "x"}},
			patch:   agent.Patch{Env: map[string]*string{"AGENT_URL": nil}},
			wantEnv: "GITHUB_TOKEN=gsm MODE=fast", wantReplaced: true,
		},
		"change a variable of a former release": {
			env:         []agent.EnvVar{{Key: "AGENT_URL", Value: "x"}},
			patch:       agent.Patch{Env: map[string]*string{"AGENT_URL": text("y")}},
			wantRefused: true,
		},
		"name a reserved variable with the placeholder": {
			patch: agent.Patch{Env: map[string]*string{"AGENT_URL": text("configured")}}, wantRefused: true,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := start()
			a.Env = append(c.env, a.Env...)
			before := a.Generation
			err := a.Apply(c.patch, at(1))
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
				value := e.Value
				if e.Secret() {
					value = agent.EnvIsSecret
				}
				env = append(env, e.Key+"="+value)
			}
			equal(t, "Env", strings.Join(env, " "), c.wantEnv)
			if c.wantConfig != "" {
				equal(t, "Config", string(a.Config), c.wantConfig)
			}
			equal(t, "generation changed", a.Generation != before, c.wantReplaced)
			equal(t, "Warming", a.Warming, c.wantReplaced)
		})
	}
}

// TestApply_TakesBackWhatItShows: a client may change one variable and send all that it read.
func TestApply_TakesBackWhatItShows(t *testing.T) {
	t.Parallel()
	setting, brokering, replacing := in(agent.Running), restricted(), in(agent.Running)
	begin(t, &setting, 2, secret.Operation{ID: "s", Key: "API_KEY", Action: secret.Set, Bytes: 5})
	begin(t, &brokering, 2, broker("k", "KEY", "a.example"))
	replacing.Env = []agent.EnvVar{{Key: "MODE", Value: "fast"}}
	begin(t, &replacing, 2, secret.Operation{ID: "s", Key: "MODE", Action: secret.Set, Bytes: 5})
	failed := setting.Clone()
	recordStored(t, &failed, 2, "s", 0)
	for name, a := range map[string]agent.Agent{
		"a secret": withSecret(), "one that is being set": setting, "one that could not be set": failed,
		"a brokered secret": brokered(t), "one that is being brokered": brokering,
		"one that replaces a plain variable": replacing,
	} {
		shown := a.Show(identity.Caller{OrganizationID: "o", Role: identity.RoleAdmin}, agent.Addresses{}).EnvVars
		echo := map[string]*string{}
		for key, source := range shown {
			echo[key] = new(string(source))
		}
		equal(t, name+": shows variables", len(shown) > 0, true)
		before := a.Clone()
		equal(t, name+": error", patchEnv(&a, echo), nil)
		equal(t, name+": unchanged", a.Equal(before), true)
	}
}

func TestShow_HidesTheEnvironmentFromMembers(t *testing.T) {
	t.Parallel()
	a := in(agent.Running)
	a.Env, a.CredentialVersion,
		a.Routed = []agent.EnvVar{{Key: "A", Value: "plain-value"}, {Key: "B_TOKEN", SecretVersion: 2}}, 1, true
	a.Config = json.RawMessage(`{"mine":1,"error":"forged","provisioning_stages":"forged"}`)
	d := agent.Addresses{Domain: "agents.localhost", Scheme: "http", Port: "8443"}
	render := func(role identity.Role) map[string]any {
		b, err := json.Marshal(a.Show(identity.Caller{OrganizationID: "o", Role: role}, d))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(b), "plain-value") {
			t.Errorf("role %s sees a value of the environment: %s", role, b)
		}
		var v map[string]any
		if err := json.Unmarshal(b, &v); err != nil {
			t.Fatal(err)
		}
		return v
	}
	member, admin := render(identity.RoleMember), render(identity.RoleAdmin)
	equal(t, "number of env_vars of a member", len(member["env_vars"].(map[string]any)), 0)
	equal(t, "dashboard_username of a member", member["dashboard_username"], nil)
	env := admin["env_vars"].(map[string]any)
	equal(t, "env_vars.A of an admin", env["A"], "configured")
	equal(t, "env_vars.B_TOKEN of an admin", env["B_TOKEN"], "gsm")
	config := admin["config"].(map[string]any)
	equal(t, "config.mine", config["mine"], 1.0)
	equal(t, "config.error", config["error"], nil)
	equal(t, "number of config.provisioning_stages", len(config["provisioning_stages"].([]any)), 8)
	host := admin["hostname"].(string)
	if strings.Contains(host, "8443") {
		t.Errorf("hostname = %q, want it without the port", host)
	}
	equal(t, "api_url", admin["api_url"], any("http://"+host+":8443/v1"))
}

func TestIDFromNamespace_RefusesOtherNames(t *testing.T) {
	t.Parallel()
	const id = "3fa85f64-5717-4562-b3fc-2c963f66afa6"
	if got, ok := agent.IDFromNamespace(agent.Namespace(id)); !ok || got != id {
		t.Errorf("IDFromNamespace(%q) = %q, %t, want %q", agent.Namespace(id), got, ok, id)
	}
	for _, name := range []string{
		"", id, "agent-", "agent-gateway", "agents-" + id, "agent-" + strings.ToUpper(id),
		"agent-" + strings.ReplaceAll(id, "-", ""), "agent-{" + id + "}", "agent-" + id + "-2",
	} {
		if got, ok := agent.IDFromNamespace(name); ok {
			t.Errorf("IDFromNamespace(%q) = %q, want none", name, got)
		}
	}
}
