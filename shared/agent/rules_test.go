package agent_test

import (
	"encoding/json"
	"strings"
	"testing"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/identity"
)

func TestLooksSecret(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]bool{
		"OPENAI_API_KEY": true, "GITHUB_TOKEN": true, "db_password": true, "MY_SECRET": true, "APIKEY": true,
		"TLS_PRIVATE_KEY": true,
		"AWS_CREDENTIALS": true, "PASSWD": true,
		"MAX_TOKENS": false, "TOKENIZERS_PARALLELISM": false, "KEY": false, "PUBLIC_KEY": false, "API_URL": false,
		"MONKEY": false,
	} {
		if agent.LooksSecret(key) != want {
			t.Errorf("LooksSecret(%q) = %t", key, !want)
		}
	}
}

func TestReservedKeys(t *testing.T) {
	t.Parallel()
	for key, refused := range map[string]bool{
		"DASHBOARD_USERNAME": true, "API_SERVER_KEY": true, "X_DASHBOARD_BASIC_AUTH_USER": true,
		"MY_GATEWAY_TOKEN":        true,
		"KUBERNETES_SERVICE_HOST": true, "PATH": true, "LD_PRELOAD": true, "PORT": true, "1A": true, "A-B": true,
		"":                       true,
		strings.Repeat("A", 129): true, strings.Repeat("A", 128): false, "_A1": false, "MY_PATH": false, "PORTS": false,
	} {
		if (agent.EnvKeyViolation(key) != "") != refused {
			t.Errorf("key %q: %q", key, agent.EnvKeyViolation(key))
		}
	}
}

func TestHostnames(t *testing.T) {
	t.Parallel()
	d := agent.Addresses{Domain: "agents.example.com", Scheme: "https"}
	for name, slug := range map[string]string{
		"My Agent": "my-agent", "  ": "agent", "Äpfel & Birnen": "pfel-birnen", "日本": "agent", "a--b__c": "a-b-c",
		strings.Repeat("x", 40):             strings.Repeat("x", 30),
		"ends with dash at thirty charsx y": "ends-with-dash-at-thirty-chars",
	} {
		if got := agent.Slug(name); got != slug {
			t.Errorf("Slug(%q) = %q, want %q", name, got, slug)
		}
		a := in(agent.Running)
		a.Slug = agent.Slug(name)
		host := a.Hostname(d)
		label, _, _ := strings.Cut(host, ".")
		id, ok := agent.IDFromHostname(strings.ToUpper(host), d)
		if len(label) > 63 || !ok || id != a.ID {
			t.Errorf("%q: hostname %q leads to %q", name, host, id)
		}
	}
	for _, foreign := range []string{"x.other.com", "x." + d.Domain, d.Domain, "", "a-aaaa." + d.Domain} {
		if id, ok := agent.IDFromHostname(foreign, d); ok {
			t.Errorf("%q leads to %q", foreign, id)
		}
	}
}

func TestPatch(t *testing.T) {
	t.Parallel()
	text := func(s string) *string { return &s }
	start := func() agent.Agent {
		a := in(agent.Running)
		a.Env = []agent.EnvVar{{Key: "GITHUB_TOKEN", SecretVersion: 1}, {Key: "MODE", Value: "fast"}}
		a.Config = json.RawMessage(`{"theme":{"color":"red","size":1},"tags":["a"]}`)
		return a
	}
	cases := map[string]struct {
		patch    agent.Patch
		env      string
		config   string
		replaced bool
		refused  bool
	}{
		"nothing": {patch: agent.Patch{}, env: "GITHUB_TOKEN=gsm MODE=fast",
			config: `{"theme":{"color":"red","size":1},"tags":["a"]}`, replaced: false, refused: false},
		"round trip": {patch: agent.Patch{Env: map[string]*string{"GITHUB_TOKEN": text("gsm"),
			"MODE": text("configured")}}, env: "GITHUB_TOKEN=gsm MODE=fast", config: "", replaced: false,
			refused: false},
		"add": {patch: agent.Patch{Env: map[string]*string{"A": text("1")}},
			env: "A=1 GITHUB_TOKEN=gsm MODE=fast", config: "", replaced: true, refused: false},
		"add an empty one": {patch: agent.Patch{Env: map[string]*string{"A": text("")}},
			env: "A= GITHUB_TOKEN=gsm MODE=fast", config: "", replaced: true, refused: false},
		"same value": {patch: agent.Patch{Env: map[string]*string{"MODE": text("fast")}},
			env: "GITHUB_TOKEN=gsm MODE=fast", config: "", replaced: false, refused: false},
		"remove": {patch: agent.Patch{Env: map[string]*string{"MODE": nil, "UNKNOWN": nil}},
			env: "GITHUB_TOKEN=gsm", config: "", replaced: true, refused: false},
		"overwrite a secret": {patch: agent.Patch{Env: map[string]*string{"GITHUB_TOKEN": text("plain")}}, env: "",
			config: "", replaced: false, refused: true},
		"remove a secret": {patch: agent.Patch{Env: map[string]*string{"GITHUB_TOKEN": nil}}, env: "",
			config: "", replaced: false, refused: true},
		"merge config": {patch: agent.Patch{Config: map[string]any{"theme": map[string]any{"color": nil,
			"font": "b"}, "tags": []any{"c"}}}, env: "GITHUB_TOKEN=gsm MODE=fast",
			config: `{"tags":["c"],"theme":{"font":"b","size":1}}`, replaced: false, refused: false},
		"ignored keys of config": {patch: agent.Patch{Config: map[string]any{"error": "x", "n": json.Number("1")}},
			env: "GITHUB_TOKEN=gsm MODE=fast", config: `{"n":1,"tags":["a"],"theme":{"color":"red","size":1}}`,
			replaced: false, refused: false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := start()
			before := a.Generation
			err := a.Apply(c.patch, at(1))
			if c.refused {
				if !fault.Is(err, fault.Invalid) {
					t.Fatalf("not refused: %v", err)
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
			if got := strings.Join(env, " "); got != c.env {
				t.Errorf("env %q, want %q", got, c.env)
			}
			if c.config != "" && string(a.Config) != c.config {
				t.Errorf("config %s, want %s", a.Config, c.config)
			}
			if (a.Generation != before) != c.replaced || a.Warming != c.replaced {
				t.Errorf("generation %d after %d, warming %t", a.Generation, before, a.Warming)
			}
		})
	}
}

func TestMembersSeeNoEnvironment(t *testing.T) {
	t.Parallel()
	a := in(agent.Running)
	a.Env, a.CredentialVersion,
		a.Routed = []agent.EnvVar{{Key: "A", Value: "plain-value"}, {Key: "B_TOKEN", SecretVersion: 2}}, 1, true
	a.Config = json.RawMessage(`{"mine":1,"error":"forged","provisioning_stages":"forged"}`)
	d := agent.Addresses{Domain: "agents.localhost", Scheme: "http", Port: "8443"}
	render := func(role identity.Role) map[string]any {
		b, err := json.Marshal(a.Show(identity.Caller{OrganizationID: "o", Role: role}, d))
		if err != nil || strings.Contains(string(b), "plain-value") {
			t.Fatalf("%v: %s", err, b)
		}
		var v map[string]any
		if err := json.Unmarshal(b, &v); err != nil {
			t.Fatal(err)
		}
		return v
	}
	member, admin := render(identity.RoleMember), render(identity.RoleAdmin)
	if len(member["env_vars"].(map[string]any)) != 0 || member["dashboard_username"] != nil {
		t.Errorf("a member sees %v, %v", member["env_vars"], member["dashboard_username"])
	}
	if env := admin["env_vars"].(map[string]any); env["A"] != "configured" || env["B_TOKEN"] != "gsm" {
		t.Errorf("an admin sees %v", env)
	}
	config := admin["config"].(map[string]any)
	if config["mine"] != 1.0 || config["error"] != nil || len(config["provisioning_stages"].([]any)) != 8 {
		t.Errorf("config %v", config)
	}
	if host := admin["hostname"].(string); strings.Contains(host, "8443") || admin["api_url"] != "http://"+host+
		":8443/v1" {
		t.Errorf("hostname %v, api_url %v", host, admin["api_url"])
	}
}
