package cloud_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"agents.example/controlplane/emulators/cloud"
	"agents.example/controlplane/emulators/dataplane"
	ports "agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/image"
	"agents.example/controlplane/shared/testtier"
)

// TestAgents_GetFilesConfigAndTheImagesVariables starts an agent of an image of the catalog, whose variables refer to
// those of the platform, with a config and files, and changes them. It also renames the agent.
func TestAgents_GetFilesConfigAndTheImagesVariables(t *testing.T) {
	t.Parallel()
	testtier.RequireFull(t, "compiles a program")
	dir, err := dataplane.BuildPackages(t.Context(),
		"agents.example/controlplane/emulators/cloud/testdata/webserver/entrypoint")
	if err != nil {
		t.Fatal(err)
	}
	d := start(t, false, func(o *cloud.Options) { o.Images = map[string]string{webServerImage: dir} })
	entry, err := json.Marshal(image.Image{
		ID: "webserver", Name: "Web server", DefaultVersion: "1",
		Runtime: image.Runtime{
			Auth: ports.AuthImage, DataPath: "/home/node/.web", GraceSeconds: 60, Env: image.Env{
				{Name: "OPENCLAW_GATEWAY_PORT", Value: "$(PORT)"},
				{Name: "OPENCLAW_GATEWAY_TOKEN", Value: "$(API_SERVER_KEY)"},
			},
		},
		Versions: []image.Version{{Version: "1", Reference: webServerImage, State: image.Available}},
	})
	if err != nil {
		t.Fatal(err)
	}
	newOperator(t, d).run(string(entry), "images", "put", "-")
	h := d.host(t, `{"name": "with files", "resource_plan": "hobby", "image": "webserver",
		"env_vars": {"MODEL_API_KEY": "the value", "MODE": "$(API_SERVER_KEY)"},
		"config": {"team": "support", "limit": 1.50},
		"files": [{"path": "/data/deep/settings.json", "content": "{\"a\": 1}"},
		{"path": "/config/prompt.md", "content": "Be brief."},
		{"path": "/config/key", "secret": "MODEL_API_KEY", "mode": "0600"},
		{"path": "/data/key", "secret": "MODEL_API_KEY"}]}`)
	variable := func(name string) string {
		t.Helper()
		_, text := d.get(t, h.dashboard+"variable?name="+name, h.signIn)
		return text
	}
	wantFile := func(name, want string) {
		t.Helper()
		status, text := d.get(t, h.dashboard+"file?name="+url.QueryEscape(name), h.signIn)
		if want == "" && status != http.StatusNotFound || want != "" && text != want {
			t.Errorf("%s is %d %q, want %q", name, status, text, want)
		}
	}
	for name, want := range map[string]string{
		"AGENT_ID": h.id, "AGENT_NAME": "with files", "AGENT_URL": h.dashboard, "AGENT_PLAN": "hobby",
		"AGENT_MEMORY_BYTES": "1073741824", "OPENCLAW_GATEWAY_PORT": variable("PORT"),
		"OPENCLAW_GATEWAY_TOKEN": h.credentials.key, "MODE": "$(API_SERVER_KEY)", "HOME": variable("DATA_DIR"),
	} {
		if got := variable(name); got != want || got == "" {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
	wantFile("$AGENT_CONFIG_FILE", `{"limit":1.50,"team":"support"}`)
	wantFile("$HOME/deep/settings.json", `{"a": 1}`)
	wantFile("$HOME/key", "the value")

	d.must(t, http.StatusOK, http.MethodPatch, "/api/v1/agents/"+h.id, `{"name": "renamed",
		"files": [{"path": "/data/deep/settings.json", "content": "{\"a\": 2}"}, {"path": "/config/key"}]}`)
	d.await(t, h.id, "started with the change", func(a answer) bool {
		return a.body["status"] == "running" && a.body["dashboard_warming"] == false
	})
	wantFile("$HOME/deep/settings.json", `{"a": 2}`)
	wantFile("$HOME/key", "the value") // of a file that was taken away: it stays on the volume
	if got := variable("AGENT_NAME"); got != "renamed" {
		t.Errorf("AGENT_NAME = %q, want the name at the last start", got)
	}
	if config := variable("AGENT_CONFIG_FILE"); !strings.HasSuffix(config, "/agent.json") {
		t.Errorf("AGENT_CONFIG_FILE = %q", config)
	}
	wantFile(strings.TrimSuffix(variable("AGENT_CONFIG_FILE"), "agent.json")+"key", "the value")
	wantFile(strings.TrimSuffix(variable("AGENT_CONFIG_FILE"), "agent.json")+"prompt.md", "")
}
