package gke

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/credential"
	"agents.example/controlplane/shared/egress"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/image"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/provisioning"
)

// A Secret without a value that the record names would remove the value from the agent.
func TestSecret_NeedsCredentialsAndEveryValue(t *testing.T) {
	t.Parallel()
	a := testAgent()
	a.Env = append(a.Env, agent.EnvVar{Key: "MODEL_API_KEY", SecretVersion: 1})
	noCredentials := testRuntimeInput("MODEL_API_KEY")
	noCredentials.Credentials = credential.Credentials{}
	for name, input := range map[string]provisioning.RuntimeInput{
		"no credentials": noCredentials,
		"no value":       testRuntimeInput(),
	} {
		b, err := testClusters(t, testSettings()).blueprint(a, input)
		must(t, err)
		if _, err := b.objects(agent.StageSecrets); !fault.Is(err, fault.Internal) {
			t.Errorf("%s: error %v, want Internal", name, err)
		}
	}
	b := blueprintOf(t, a)
	objects, err := b.objects(agent.StageIdentity)
	if err != nil || len(objects) != 0 {
		t.Errorf("identity of an agent with secrets: %d objects, error %v, want none", len(objects), err)
	}
}

func TestConfigHash_CoversWhatAPodIsStartedWith(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for name, change := range map[string]func(*agent.Agent){
		"nothing":     func(*agent.Agent) {},
		"plain value": func(a *agent.Agent) { a.Env = []agent.EnvVar{{Key: "LOG_LEVEL", Value: "debug"}} },
		"plain key":   func(a *agent.Agent) { a.Env = []agent.EnvVar{{Key: "LEVEL", Value: "info"}} },
		"no variable": func(a *agent.Agent) { a.Env = nil },
		"secret": func(a *agent.Agent) {
			a.Env = append(slices.Clone(a.Env),
				agent.EnvVar{Key: "K", SecretVersion: 1})
		},
		"secret's version": func(a *agent.Agent) {
			a.Env = append(slices.Clone(a.Env),
				agent.EnvVar{Key: "K", SecretVersion: 2})
		},
		"credential":        func(a *agent.Agent) { a.CredentialVersion++ },
		"rollout":           func(a *agent.Agent) { a.Rollout++ },
		"sandbox":           func(a *agent.Agent) { a.Sandbox = true },
		"plan":              func(a *agent.Agent) { a.Plan = plan.Pro },
		"public path":       func(a *agent.Agent) { a.PublicPaths = []string{"/hooks/"} },
		"public paths":      func(a *agent.Agent) { a.PublicPaths = []string{"/hooks/", "/x"} },
		"sleep":             func(a *agent.Agent) { a.Sleep.AfterSeconds = 300 },
		"egress":            func(a *agent.Agent) { a.Egress.Mode = egress.AllowList },
		"brokered secret":   func(a *agent.Agent) { broker(a, "K", "a.example") },
		"its hosts":         func(a *agent.Agent) { broker(a, "K", "b.example") },
		"its key":           func(a *agent.Agent) { broker(a, "L", "a.example") },
		"later sleep":       func(a *agent.Agent) { a.Sleep.AfterSeconds = 301 },
		"separator in text": func(a *agent.Agent) { a.Env = []agent.EnvVar{{Key: "LOG_LEVEL", Value: `info","K":"1`}} },
	} {
		a := testAgent()
		change(&a)
		hash := configHash(a)
		if other, taken := seen[hash]; taken {
			t.Errorf("%q and %q have the same hash", name, other)
		}
		seen[hash] = name
	}
	same := testAgent()
	same.Status, same.Generation, same.Name, same.Routed = agent.Running, 7, "Renamed", true
	same.Sleep.WakeOn = []agent.Waker{agent.RequestWakes}
	if configHash(same) != configHash(testAgent()) {
		t.Error("what no pod is started with changes the hash")
	}
	first, later := testAgent(), testAgent()
	broker(&first, "K", "a.example")
	broker(&later, "K", "a.example")
	later.Egress.Allow, later.Injected[0].Version = []string{"c.example"}, 2
	if configHash(first) != configHash(later) {
		t.Error("what the gate takes over changes the hash")
	}
}

// broker gives an agent a brokered secret for one host.
func broker(a *agent.Agent, key, host string) {
	a.Egress = egress.Rules{Mode: egress.AllowList, Allow: []string{host}}
	target := egress.Target{Hosts: []string{host}}.Canonical()
	a.Injected = []agent.InjectedSecret{{Key: key, Version: 1, Target: target.Encode()}}
}

// A release that knows the plan goes on with the agent.
func TestBlueprint_UnknownPlanIsUnavailable(t *testing.T) {
	t.Parallel()
	a := testAgent()
	a.Plan = "gone"
	_, err := testClusters(t, testSettings()).blueprint(a, provisioning.RuntimeInput{})
	wantUnavailable(t, err, "plan_unknown")
}

// A wrong setting must not end the work on agents.
func TestClient_UnknownCellIsUnavailable(t *testing.T) {
	t.Parallel()
	c, a := testClusters(t, testSettings()), testAgent()
	a.Cell = "gone"
	wantUnavailable(t, c.Apply(t.Context(), a, agent.StageNamespace, provisioning.RuntimeInput{}), "cell_unknown")
	wantUnavailable(t, c.CheckReady(t.Context(), a), "cell_unknown")
	wantUnavailable(t, c.Delete(t.Context(), a), "cell_unknown")
	_, err := c.CheckGone(t.Context(), a)
	wantUnavailable(t, err, "cell_unknown")
}

func TestOpen_RefusesInvalidSettings(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*Settings){
		"at least one cluster": func(s *Settings) { s.Cells = nil },
		"of the database":      func(s *Settings) { s.Database = "" },
		"value of a label":     func(s *Settings) { s.Database = "project/(default)" },
		"name is missing":      func(s *Settings) { s.Cells[0].Name = "" },
		"another cell":         func(s *Settings) { s.Cells[1].Name = s.Cells[0].Name },
		"either an endpoint":   func(s *Settings) { s.Cells[0].Kubeconfig = "" },
		"no https address":     func(s *Settings) { s.Cells[1].Endpoint = "http://gke.example" },
		"platform image":       func(s *Settings) { s.Images.Platform = "" },
		"of the router":        func(s *Settings) { s.RouterNamespace = "" },
		`auth "none"`:          func(s *Settings) { s.Images.Runtime.Auth = "none" },
		"listens on 8080":      func(s *Settings) { s.Images.Runtime.Port = 8080 },
		"listens on 9091":      func(s *Settings) { s.Images.Runtime.APIPort = 9091 },
		"that of its Service":  func(s *Settings) { s.GateAddress = "gate.example" },
		"CIDR notation":        func(s *Settings) { s.Resolvers = []string{"10.0.0.1"} },
		"10.0.0.1/8":           func(s *Settings) { s.Resolvers = []string{"10.0.0.1/8"} },
	} {
		s := testSettings()
		change(&s)
		if _, err := Open(t.Context(), s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

func TestObjects_SecretValuesAreInTheSecretOnly(t *testing.T) {
	t.Parallel()
	a := testAgent()
	a.Env = append(a.Env, agent.EnvVar{Key: "MODEL_API_KEY", SecretVersion: 1})
	b := blueprintOf(t, a, "MODEL_API_KEY")
	secrets := 0
	for _, stage := range agent.StageNames() {
		objects, err := b.objects(stage)
		must(t, err)
		for _, o := range objects {
			if _, ok := o.(*corev1.Secret); ok {
				secrets++
				continue
			}
			encoded, err := encode(o)
			must(t, err)
			if bytes.Contains(encoded, []byte("golden-")) || bytes.Contains(encoded, []byte("Z29sZGVuL")) {
				t.Errorf("%s holds a secret", targetOf(o))
			}
		}
	}
	if secrets != 1 {
		t.Errorf("%d Secrets, want 1", secrets)
	}
}

// An earlier release accepted plain variables that are now named like secrets. The record decides what they are, so
// that a release restarts no agent.
func TestEnvironment_HoldsPlainVariablesThatAreNamedLikeSecrets(t *testing.T) {
	t.Parallel()
	a := testAgent()
	a.Env = []agent.EnvVar{{Key: "PGPASSWORD", Value: "x"}, {Key: "URL", Value: "postgres://a:b@c/d"}}
	b := blueprintOf(t, a)
	for _, e := range a.Env {
		if !agent.LooksSecret(e.Key) && !agent.LooksSecretValue(e.Value) {
			t.Errorf("%s looks like no secret: the test proves nothing", e.Key)
		}
	}
	objects, err := b.environment()
	must(t, err)
	want := map[string]string{"PGPASSWORD": "x", "URL": "postgres://a:b@c/d"}
	if plain := objects[1].(*corev1.ConfigMap); !maps.Equal(plain.Data, want) {
		t.Errorf("the ConfigMap holds %v, want %v", plain.Data, want)
	}
	if hasSecrets(a) {
		t.Errorf("secret keys = %v, want none", secretKeys(a))
	}
}

// TestConfigHash_CoversTheImages: a build and how it is run are part of the configuration, and the registry is not.
func TestConfigHash_CoversTheImages(t *testing.T) {
	t.Parallel()
	a := testAgent()
	former := configHash(a) // of a record that names no image
	a.Image.Choice = image.Choice{ID: "assistant", Version: "1", Reference: "registry.example/a@sha256:1"}
	a.Front.Choice = image.Choice{ID: image.FrontID, Version: "1", Reference: "registry.example/p@sha256:1"}
	same := configHash(a)
	if same == former {
		t.Error("the hash does not cover the images")
	}
	for name, row := range map[string]struct {
		change func(*agent.Agent)
		other  bool
	}{
		"another build": {
			change: func(a *agent.Agent) { a.Image.Reference = "registry.example/a@sha256:2" }, other: true,
		},
		"another front": {
			change: func(a *agent.Agent) { a.Front.Reference = "registry.example/p@sha256:2" }, other: true,
		},
		"another port":    {change: func(a *agent.Agent) { a.Image.Port = 8000 }, other: true},
		"another command": {change: func(a *agent.Agent) { a.Image.Command = []string{"x"} }, other: true},
		"another default": {
			change: func(a *agent.Agent) { a.Image.Env = image.Env{{Name: "A", Value: "1"}} }, other: true,
		},
		"another registry":       {change: func(a *agent.Agent) { a.Image.Reference = "mirror.example/a@sha256:1" }},
		"another version's name": {change: func(a *agent.Agent) { a.Image.Version = "1.0" }},
	} {
		changed := a.Clone()
		row.change(&changed)
		if got := configHash(changed); (got != same) != row.other {
			t.Errorf("%s changes the hash: %t, want %t", name, got != same, row.other)
		}
	}
}

// TestPod_RunsTheImageOfTheRecord: the settings of the deployment are for records that name none.
func TestPod_RunsTheImageOfTheRecord(t *testing.T) {
	t.Parallel()
	a := testAgent()
	a.Image.Choice = image.Choice{
		ID:        "assistant",
		Version:   "1",
		Reference: "registry.example/a@sha256:1",
		Runtime: image.Runtime{
			Port: 8000, HealthPath: "/healthz", Command: []string{"serve"}, Args: []string{"-v"},
			Env: image.Env{{Name: "LOG_LEVEL", Value: "debug"}, {Name: "MODE", Value: "agent"}},
		},
	}
	a.Front.Choice = image.Choice{ID: image.FrontID, Version: "1", Reference: "registry.example/p@sha256:1"}
	spec := podOf(t, a).Spec
	c := spec.Containers[0]
	if c.Image != a.Image.Reference || spec.InitContainers[0].Image != a.Front.Reference {
		t.Errorf("the pod runs %s behind %s", c.Image, spec.InitContainers[0].Image)
	}
	if !slices.Equal(c.Command, []string{"serve"}) || !slices.Equal(c.Args, []string{"-v"}) ||
		c.StartupProbe.HTTPGet.Path != "/healthz" || c.StartupProbe.HTTPGet.Port.IntValue() != 8000 {
		t.Errorf("the container runs %v %v, asked at %+v", c.Command, c.Args, c.StartupProbe.HTTPGet)
	}
	values := map[string]string{}
	for _, e := range c.Env {
		values[e.Name] = e.Value
	}
	// LOG_LEVEL is the client's, which its ConfigMap has.
	if _, set := values["LOG_LEVEL"]; set || values["MODE"] != "agent" || values["PORT"] != "8000" {
		t.Errorf("the container's variables are %v", values)
	}
}
