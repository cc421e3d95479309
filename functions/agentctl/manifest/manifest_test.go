package manifest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agents.example/controlplane/functions/agentctl/manifest"
)

// canary is a value that no error may repeat.
const canary = "hunter2-canary"

// read reads a text as a file of a folder with a file prompt.md.
func read(t *testing.T, text string) (*manifest.Set, error) {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{"a.yaml": text, "prompt.md": "Be kind.", "image.png": "\xff"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return manifest.Read(filepath.Join(dir, "a.yaml"), nil)
}

func TestRead_SaysWhereAndWhatIsWrong(t *testing.T) {
	t.Parallel()
	const begin = "manifest: m\nagents:\n  a:\n"
	for name, c := range map[string]struct{ text, want string }{
		"no YAML":            {"manifest: [", "a.yaml: line 1"},
		"no manifest":        {"agents: {}", "there is no manifest"},
		"bad manifest":       {"manifest: A B", "a.yaml:1: manifest: want 1 to 63"},
		"unknown at the top": {"manifest: m\nagnts: {}", "a.yaml:2: agnts: there is no such field"},
		"unknown field":      {begin + "    plan: hobby", "a.yaml:4: agents.a.plan: there is no such field"},
		"unknown below": {
			begin + "    sleep: {\n      aftr: 1}",
			"a.yaml:5: agents.a.sleep.aftr: there is no such field",
		},
		"wrong kind": {begin + "    name: 7", "a.yaml:4: agents.a.name: want a text"},
		"wrong kind below": {
			begin + "    schedules:\n    - id: x\n      enabled: " + canary,
			"a.yaml:4: agents.a.schedules.enabled: want true",
		},
		"a number as variable": {
			begin + "    env_vars:\n      VERSION: 1.10",
			"a.yaml:5: agents.a.env_vars.VERSION: want a text: put the value in quotes",
		},
		"a secret's value": {
			begin + "    secrets:\n      KEY: " + canary,
			"a.yaml:5: agents.a.secrets.KEY: a file must not have the value of a secret. Say where it is: env",
		},
		"a secret as variable": {
			begin + "    env_vars:\n      API_KEY: " + canary,
			"a.yaml:5: agents.a.env_vars.API_KEY: this looks like a secret",
		},
		"two sources": {
			begin + "    secrets:\n      KEY: {env: A, file: b}",
			"agents.a.secrets.KEY: want either env",
		},
		"a reserved key": {
			begin + "    secrets:\n      PORT: {env: A}", "a.yaml:5: agents.a.secrets.PORT: the key is reserved",
		},
		"an address": {
			begin + "    import_url: https://example.com/" + canary,
			"a.yaml:4: agents.a.import_url: a file must not have this address, which may be signed. Say where it is",
		},
		"no source":      {begin + "    import_url: {}", "a.yaml:4: agents.a.import_url: want either env"},
		"an inject":      {begin + "    import_url: {env: A, inject: {}}", "import_url.inject: only a secret"},
		"no value":       {begin + "    env_vars:", "a.yaml:4: agents.a.env_vars: there is no value"},
		"the tool's key": {begin + "    config: {agentctl: 1}", "agents.a.config.agentctl: the tool uses this key"},
		"a null":         {begin + "    config: {x: {y: null}}", "agents.a.config: a null cannot be kept"},
		"twice":          {begin + "    name: x\n    name: " + canary, `mapping key "name" already defined`},
		"a tag":          {begin + "    name: !!int " + canary, "a.yaml"},
		"a missing file": {
			begin + "    files:\n    - {path: /data/x, from: nothing}",
			"a.yaml:5: agents.a.files[0].from: ",
		},
		"a file's kind": {begin + "    files:\n    - {path: /data/x, from: image.png}", "the file is no text"},
		"a file, doubly": {
			begin + "    files:\n    - {path: /data/x, from: a, secret: b}",
			"want one of content, from and secret",
		},
		"bad key":       {"manifest: m\nagents:\n  A_B: {}", "a.yaml:3: agents.A_B: want 1 to 63"},
		"two manifests": {"manifest: m\n---\nmanifest: n", "all files must be of one manifest"},
		"twice the agent": {
			"manifest: m\nagents: {a: {}}\n---\nagents: {a: {}}",
			"two files have an agent with this key",
		},
		"growing aliases": {
			"manifest: m\nx-a: &a [1,1,1,1,1,1,1,1,1]\nx-b: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nx-c: &c " +
				"[*b,*b,*b,*b,*b,*b,*b,*b,*b]\nx-d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\nx-e: &e " +
				"[*d,*d,*d,*d,*d,*d,*d,*d]\nx-f: &f [*e,*e,*e,*e,*e,*e,*e]\nx-g: [*f,*f,*f,*f,*f,*f]",
			"excessive aliasing",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := read(t, c.text)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error = %v, want %q", err, c.want)
			}
			if err != nil && strings.Contains(err.Error(), canary) {
				t.Errorf("the error repeats a value: %v", err)
			}
		})
	}
}

func TestRead_ReadsYAMLAndJSON(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"YAML": "manifest: m\nx-all: &all {resource_plan: pro, env_vars: {A: b}}\nagents:\n  a:\n    <<: *all\n" +
			"    resource_plan: hobby\n    config: {n: 12345678901234567890}\n" +
			"    files: [{path: /config/p, from: prompt.md}]\n" +
			"    sleep: {after_seconds: null}\n    maintenance_window: null\n",
		"JSON": `{"manifest": "m", "agents": {"a": {"resource_plan": "hobby", "env_vars": {"A": "b"}, "config": ` +
			`{"n": 12345678901234567890}, "files": [{"path": "/config/p", "from": "prompt.md"}], "sleep": ` +
			`{"after_seconds": null}, "maintenance_window": null}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := read(t, text)
			if err != nil {
				t.Fatal(err)
			}
			a := s.Agents[0]
			if s.Name != "m" || len(s.Agents) != 1 || a.Key != "a" || *a.Plan != "hobby" || a.Env["A"] != "b" {
				t.Errorf("set = %+v, agent = %+v", s, a)
			}
			if n, ok := a.Config["n"].(interface{ String() string }); !ok || n.String() != "12345678901234567890" {
				t.Errorf("the number is %v, and lost digits", a.Config["n"])
			}
			if *(*a.Files)[0].Content != "Be kind." || !a.Sleep.Never || !a.NoWindow {
				t.Errorf("agent = %+v, want the file's content, no sleep and no window", a)
			}
		})
	}
}

// TestRead_BoundsWhatHasNoSize reads manifests through pipes.
func TestRead_BoundsWhatHasNoSize(t *testing.T) {
	t.Parallel()
	const text = "manifest: m\nagents: {a: {}}\n#"
	for name, c := range map[string]struct {
		bytes int
		want  string
	}{
		"the largest": {bytes: manifest.MaxBytes},
		"too large":   {bytes: manifest.MaxBytes + 1, want: "standard input is larger than 1 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := manifest.Read("-", strings.NewReader(text+strings.Repeat("x", c.bytes-len(text))))
			if got := fmt.Sprint(err); c.want != "" && got != c.want || c.want == "" && err != nil {
				t.Errorf("error = %v, want %q", err, c.want)
			}
		})
	}
}

func TestRead_ReadsAFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"a.yaml": "manifest: m\nagents: {a: {}}", "b.json": `{"manifest": "m", "agents": {"b": {}}}`, "c.txt": "manifest: n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, err := manifest.Read(dir, nil)
	if err != nil || len(s.Agents) != 2 || s.Agents[1].Key != "b" {
		t.Errorf("set = %+v, %v, want a and b", s, err)
	}
	if _, err := manifest.Read(t.TempDir(), nil); err == nil {
		t.Error("an empty folder is no error")
	}
}
