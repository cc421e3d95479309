package gke

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/credential"
	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/egress"
	"agents.example/controlplane/shared/image"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/provisioning"
)

var update = flag.Bool("update", false, "rewrite the golden files in testdata")

const testID = "5b9f8c0a-7d1e-4c53-9a8e-2f64d1a7c3b9"

// ownSnapshot is the id of a snapshot of the agent testID, and foreignSnapshot of another agent's.
const (
	ownSnapshot     = "lopyyct5dzgfhguof5sndj6dxe-k3v7x2ab"
	foreignSnapshot = "bn6cuvdpdvgq5he3c6rtvdu2sa-k3v7x2ab"
)

func testSettings() Settings {
	return Settings{
		Cells: []Cell{
			{Name: "local", Kubeconfig: "unused"},
			{Name: "gke", Endpoint: "https://gke.example"},
		},
		Images: image.BuiltIn{
			Platform: "registry.example/platform@sha256:00",
			Agent:    "registry.example/agent@sha256:11",
			Cells:    map[string]string{"gke": "region.example/agent@sha256:22"},
		},
		Database:        "project-agents-3f2a9c01",
		Addresses:       agent.Addresses{Domain: "agents.example.com", Scheme: "https"},
		RouterNamespace: "agent-gateway",
		KeysURL:         "https://api.example.com/.well-known/jwks.json",
	}
}

func testAgent() agent.Agent {
	return agent.Agent{
		ID: testID, OrganizationID: "org_2abc", Name: "Research agent", Slug: "research-agent", Plan: plan.Starter,
		Region: "us-central1", Cell: "local",
		Env: []agent.EnvVar{{Key: "LOG_LEVEL", Value: "info"}}, Status: agent.Provisioning, CredentialVersion: 1,
	}
}

func testRuntimeInput(secrets ...string) provisioning.RuntimeInput {
	input := provisioning.RuntimeInput{
		Credentials: credential.Credentials{
			DashboardUsername: "admin", DashboardPassword: "golden-password",
			APIKey: "golden-key",
		},
		Secrets: map[string][]byte{},
	}
	for _, key := range secrets {
		input.Secrets[key] = []byte("golden-value")
	}
	return input
}

func testClusters(t *testing.T, s Settings) *Clusters {
	t.Helper()
	c, err := Open(t.Context(), s)
	must(t, err)
	return c
}

// blueprintOf is the blueprint of an agent with the values of some secrets.
func blueprintOf(t *testing.T, a agent.Agent, secrets ...string) blueprint {
	t.Helper()
	b, err := testClusters(t, testSettings()).blueprint(a, testRuntimeInput(secrets...))
	must(t, err)
	return b
}

// toYAML writes an object as YAML.
func toYAML(t *testing.T, o object) []byte {
	t.Helper()
	encoded, err := encode(o)
	must(t, err)
	text, err := yaml.JSONToYAML(encoded)
	must(t, err)
	return text
}

// checkGolden compares objects with a file in testdata.
func checkGolden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		must(t, os.WriteFile(file, got, 0o600))
	}
	want, err := os.ReadFile(file)
	must(t, err)
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("the objects differ from %s; look at the difference, and rewrite it with -update if it is "+
			"wanted (-want +got):\n%s", file, diff)
	}
}

// render writes all objects of an agent as YAML, under the names of their stages.
func render(t *testing.T, b blueprint) []byte {
	t.Helper()
	var out bytes.Buffer
	for _, stage := range agent.StageNames() {
		objects, err := b.objects(stage)
		if err != nil {
			t.Fatalf("%s: %v", stage, err)
		}
		for _, o := range objects {
			out.WriteString("--- # " + string(stage) + "\n")
			out.Write(toYAML(t, o))
		}
	}
	return out.Bytes()
}

func TestObjects_MatchGoldenFiles(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		agent    func(*agent.Agent)
		settings func(*Settings)
		secrets  []string
		cloning  bool
	}{
		"plain": {},
		"full": {
			agent: func(a *agent.Agent) {
				a.Plan, a.Sandbox, a.Rollout, a.CredentialVersion = plan.Hobby, true, 3, 2
				a.OrganizationID = "org_" + strings.Repeat("x", 100)
				a.Env = append(a.Env, agent.EnvVar{Key: "MODEL_API_KEY", SecretVersion: 4})
			},
			settings: func(s *Settings) {
				s.StorageClass, s.Resolvers = "premium-rwo", []string{"10.8.0.10/32"}
				s.Images.Runtime = image.Runtime{
					Auth: dataplane.AuthImage, Port: 8000, APIPort: 8001, HealthPath: "/healthz",
				}
			},
			secrets: []string{"MODEL_API_KEY"},
		},
		"egress": {
			agent: func(a *agent.Agent) {
				a.Egress = egress.Rules{Mode: egress.AllowList, Allow: []string{"*.example.org", "api.openai.example"}}
				a.Injected = []agent.InjectedSecret{{
					Key: "OPENAI_API_KEY", Version: 3,
					Target: egress.Target{Hosts: []string{"api.openai.example"}}.Canonical().Encode(),
				}}
				a.Imports = true
				a.Env = append(a.Env, agent.EnvVar{Key: "GIT_SSL_CAINFO", Value: "/data/ca.pem"},
					agent.EnvVar{Key: dataplane.EnvImportURL, SecretVersion: 1})
			},
			settings: func(s *Settings) { s.GateAddress = "10.8.0.53" },
			secrets:  []string{dataplane.EnvImportURL},
		},
		"sample": {
			agent: func(a *agent.Agent) {
				a.Env = append(a.Env, agent.EnvVar{Key: "OPENAI_API_KEY", SecretVersion: 1})
			},
			settings: func(s *Settings) { s.Images.Agent, s.KeysURL = "", "" },
			secrets:  []string{"OPENAI_API_KEY"},
		},
		"files": {
			agent: func(a *agent.Agent) {
				a.NameAtStart, a.Config = "Ada's $(PORT)", json.RawMessage(`{"team":"support"}`)
				a.Env = append(a.Env, agent.EnvVar{Key: "AGENT_PLAN", Value: "of a former release"},
					agent.EnvVar{Key: "MODEL_API_KEY", SecretVersion: 1})
				a.Image.Choice = image.Choice{ID: "assistant", Version: "1", Reference: "registry.example/a@sha256:1"}
				a.Image.Runtime = image.Runtime{
					DataPath: "/home/node/.assistant", GraceSeconds: 300, Env: image.Env{
						{Name: "AGENT_PLAN", Value: "no"},
						{Name: "GATEWAY_PORT", Value: "$(PORT)"},
						{Name: "LOG_LEVEL", Value: "the client's wins"},
					},
				}
				a.Files = []agent.File{
					{Path: "/config/keys/model", Secret: "MODEL_API_KEY", Mode: 0o600},
					{Path: "/config/prompt.md", Content: "Be brief.", Mode: 0o644},
					{Path: "/data/missing", Secret: "GONE", Mode: 0o644},
					{Path: "/data/run.sh", Content: "exec true", Mode: 0o700},
				}
			},
			secrets: []string{"MODEL_API_KEY"},
		},
		"sleep": {agent: func(a *agent.Agent) {
			a.Sleep = agent.SleepPolicy{AfterSeconds: 1800, WakeOn: []agent.Waker{agent.RequestWakes}}
			a.Image.Choice = image.Choice{ID: "assistant", Version: "1", Reference: "registry.example/a@sha256:1"}
			a.Image.Runtime = image.Runtime{BusyPath: "/busy", DataPath: "/home/node/.assistant"}
		}},
		"gke": {agent: func(a *agent.Agent) { a.Cell, a.Plan = "gke", plan.Enterprise }},
		"restored": {agent: func(a *agent.Agent) {
			a.Snapshots = []agent.Snapshot{{ID: ownSnapshot, Status: agent.SnapshotReady, SizeBytes: 40 << 30}}
			a.Volume = agent.Volume{Number: 1, Source: agent.VolumeSource{SnapshotID: ownSnapshot, Handle: "h"}}
			a.StoppedFor = "held"
		}},
		"clone": {cloning: true, agent: func(a *agent.Agent) {
			a.Volume.Source = agent.VolumeSource{SnapshotID: foreignSnapshot, Handle: "projects/p/global/snapshots/s"}
		}},
		"stopped": {agent: func(a *agent.Agent) { a.Status, a.Env = agent.Stopped, nil }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, s := testAgent(), testSettings()
			if test.agent != nil {
				test.agent(&a)
			}
			if test.settings != nil {
				test.settings(&s)
			}
			b, err := testClusters(t, s).blueprint(a, testRuntimeInput(test.secrets...))
			must(t, err)
			b.cloning = test.cloning
			checkGolden(t, name+".yaml", render(t, b))
		})
	}
}

// TestService_SaysWhoStartsAnAgent: an agent that never sleeps has the labels that it had before there was sleep.
func TestService_SaysWhoStartsAnAgent(t *testing.T) {
	t.Parallel()
	always := map[string]string{
		labelManagedBy: fieldManager, labelName: agentName, labelAgent: testID, dataplane.LabelSlug: "research-agent",
	}
	with := func(more map[string]string) map[string]string {
		all := maps.Clone(always)
		maps.Copy(all, more)
		return all
	}
	byOwner := with(map[string]string{dataplane.LabelStarter: dataplane.StarterOwner})
	byRequest := with(map[string]string{
		dataplane.LabelStarter: dataplane.StarterRequest, labelOrganization: "org_2abc",
	})
	withPaths := maps.Clone(byRequest)
	maps.Copy(withPaths, dataplane.PublicPathLabels([]string{"/hooks/", "/telegram"}))
	withoutOrganization := with(map[string]string{dataplane.LabelStarter: dataplane.StarterRequest})
	sleeps := agent.SleepPolicy{AfterSeconds: 300, WakeOn: []agent.Waker{agent.RequestWakes}}
	alarm := agent.SleepPolicy{AfterSeconds: 300, WakeOn: []agent.Waker{agent.ScheduleWakes}}
	for name, row := range map[string]struct {
		agent func(*agent.Agent)
		want  map[string]string
	}{
		"never sleeps":         {agent: func(*agent.Agent) {}, want: always},
		"never sleeps, paths":  {agent: func(a *agent.Agent) { a.PublicPaths = []string{"/x"} }, want: always},
		"never sleeps, paused": {agent: func(a *agent.Agent) { a.Status = agent.Paused }, want: byOwner},
		"awake":                {agent: func(a *agent.Agent) { a.Sleep = sleeps }, want: byRequest},
		"asleep": {
			agent: func(a *agent.Agent) { a.Sleep, a.Status, a.StatusReason = sleeps, agent.Paused, agent.ReasonIdle },
			want:  byRequest,
		},
		"awake, public paths": {
			agent: func(a *agent.Agent) {
				a.Sleep, a.PublicPaths, a.Image.PublicPaths = sleeps, []string{"/telegram"}, []string{"/hooks/"}
				a.Image.Reference = "registry.example/a@sha256:1"
			},
			want: withPaths,
		},
		"of an organization without a name that a label can have": {
			agent: func(a *agent.Agent) { a.Sleep, a.OrganizationID = sleeps, strings.Repeat("x", 100) },
			want:  withoutOrganization,
		},
		"sleeps, paused by its owner": {
			agent: func(a *agent.Agent) { a.Sleep, a.Status = sleeps, agent.Paused }, want: byOwner,
		},
		"sleeps, stopped": {agent: func(a *agent.Agent) { a.Sleep, a.Status = sleeps, agent.Stopped }, want: byOwner},
		"awake, woken by schedules": {
			agent: func(a *agent.Agent) { a.Sleep = alarm }, want: always,
		},
		"asleep, woken by schedules": {
			agent: func(a *agent.Agent) { a.Sleep, a.Status, a.StatusReason = alarm, agent.Paused, agent.ReasonIdle },
			want:  byOwner,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := testAgent()
			row.agent(&a)
			b := blueprintOf(t, a)
			if diff := cmp.Diff(row.want, b.service().GetLabels()); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
		})
	}
}

// The objects depend only on the arguments, and building them does not change the arguments.
func TestObjects_AreDeterministicAndPure(t *testing.T) {
	t.Parallel()
	a := testAgent()
	before, err := json.Marshal(a)
	must(t, err)
	b := blueprintOf(t, a)
	first := render(t, b)
	for range 10 {
		if again := render(t, b); !bytes.Equal(first, again) {
			t.Fatalf("two renderings differ:\n%s", cmp.Diff(string(first), string(again)))
		}
	}
	if after, err := json.Marshal(b.agent); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the agent was changed: %s (%v)", after, err)
	}
}
