package image_test

import (
	"fmt"
	"strings"
	"testing"

	"agents.example/controlplane/shared/image"
)

func entry() image.Image {
	return image.Image{
		ID: "assistant", Name: "Assistant", Description: "d", DocsURL: "https://docs.example.com", MinPlan: "startup",
		DefaultVersion: "1.0.0",
		Runtime: image.Runtime{
			Port: 3000, APIPort: 3001, HealthPath: "/healthz", BusyPath: "/busy?short", Auth: "image",
			Command: []string{"run"},
			Args:    []string{"-v"}, Env: image.Env{{Name: "A", Value: "b"}},
		},
		Versions: []image.Version{version("1.0.0", "1", image.Available), version("0.9+rc.1", "2", image.Withdrawn)},
	}
}

func TestImage_FollowsTheRules(t *testing.T) {
	t.Parallel()
	if err := entry().Check(); err != nil {
		t.Fatalf("a good entry: %v", err)
	}
	least := image.Image{
		ID: "a", Name: "A", DefaultVersion: "1", Versions: []image.Version{version("1", "1", image.Deprecated)},
	}
	if err := least.Check(); err != nil {
		t.Errorf("an entry with what is required: %v", err)
	}
	names := entry()
	names.Env = image.Env{
		{Name: "OPENCLAW_GATEWAY_PORT", Value: "$(PORT)"}, {Name: "X_GATEWAY_TOKEN", Value: "$(API_SERVER_KEY)"},
	}
	if err := names.Check(); err != nil {
		t.Errorf("an image's own names for its port and its key: %v", err)
	}
	names.Auth, names.Env[1].Value = "front", "$$(API_SERVER_KEY)"
	if err := names.Check(); err != nil {
		t.Errorf("a text that is no reference: %v", err)
	}
	for name, c := range map[string]struct {
		change func(i *image.Image)
		want   string
	}{
		"no id":         {func(i *image.Image) { i.ID = "" }, `id ""`},
		"a capital":     {func(i *image.Image) { i.ID = "Assistant" }, "lower-case"},
		"a digit first": {func(i *image.Image) { i.ID = "1a" }, "beginning with a letter"},
		"a hyphen last": {func(i *image.Image) { i.ID = "a-" }, "id"},
		"a long id":     {func(i *image.Image) { i.ID = strings.Repeat("a", 41) }, "1 to 40"},
		"a path":        {func(i *image.Image) { i.ID = "a/b" }, "id"},
		"the custom id": {func(i *image.Image) { i.ID = image.CustomID }, "reserved"},
		"no name":       {func(i *image.Image) { i.Name = "" }, "name is missing"},
		"long texts": {
			func(i *image.Image) { i.Description = strings.Repeat("d", image.MaxTextBytes) }, "bytes",
		},
		"a page in clear": {func(i *image.Image) { i.DocsURL = "http://docs.example.com" }, "https"},
		"an unknown plan": {func(i *image.Image) { i.MinPlan = "huge" }, "min_plan"},
		"no version":      {func(i *image.Image) { i.Versions = nil }, "default_version"},
		"an unknown one":  {func(i *image.Image) { i.DefaultVersion = "2" }, `default_version "2"`},
		"a withdrawn one": {func(i *image.Image) { i.DefaultVersion = "0.9+rc.1" }, "default_version"},
		"an odd version":  {func(i *image.Image) { i.Versions[1].Version = "1@2" }, `version "1@2"`},
		"a long version":  {func(i *image.Image) { i.Versions[1].Version = strings.Repeat("1", 65) }, "1 to 64"},
		"a version twice": {func(i *image.Image) { i.Versions[1].Version = "1.0.0" }, "twice"},
		"a tag": {
			func(i *image.Image) { i.Versions[1].Reference = "r.example.com/a:latest" }, "a tag can move",
		},
		"no repository": {
			func(i *image.Image) { i.Versions[1].Reference = "a@sha256:" + strings.Repeat("1", 64) }, "repository",
		},
		"a short digest": {
			func(i *image.Image) { i.Versions[1].Reference = "r.example.com/a@sha256:1" }, "64 digits",
		},
		"no state":         {func(i *image.Image) { i.Versions[1].State = "" }, "state"},
		"an unknown state": {func(i *image.Image) { i.Versions[1].State = "new" }, `state "new"`},
		"long notes": {
			func(i *image.Image) { i.Versions[1].Notes = strings.Repeat("n", image.MaxTextBytes+1) }, "notes",
		},
		"many versions": {
			func(i *image.Image) { i.Versions = manyVersions(image.MaxVersions + 1) }, "more than 100",
		},
		"a low port":           {func(i *image.Image) { i.Port = 80 }, "port: want a port"},
		"a high port":          {func(i *image.Image) { i.Port = 65536 }, "port: want a port"},
		"the front's port":     {func(i *image.Image) { i.Port = 8080 }, "port: the front"},
		"its metrics' port":    {func(i *image.Image) { i.APIPort = 9091 }, "api_port: the front"},
		"a relative path":      {func(i *image.Image) { i.HealthPath = "healthz" }, "health_path"},
		"a relative busy path": {func(i *image.Image) { i.BusyPath = "busy" }, "busy_path"},
		"an unknown auth":      {func(i *image.Image) { i.Auth = "none" }, `auth "none"`},
		"many words":           {func(i *image.Image) { i.Args = make([]string, image.MaxArgs) }, "words"},
		"many variables":       {func(i *image.Image) { i.Env = make(image.Env, image.MaxEnv+1) }, "variables"},
		"large variables": {
			func(i *image.Image) { i.Env[0].Value = strings.Repeat("v", image.MaxEnvBytes) }, "bytes",
		},
		"a credential of the front": {
			func(i *image.Image) { i.Auth, i.Env[0].Value = "", "Bearer $(API_SERVER_KEY)" },
			"only containers of images with auth",
		},
		"a credential behind an escape": {
			func(i *image.Image) { i.Auth, i.Env[0].Value = "front", "$$$(DASHBOARD_PASSWORD)" }, "DASHBOARD_PASSWORD",
		},
		"a credential's name":        {func(i *image.Image) { i.Env[0].Name = "API_SERVER_KEY" }, "platform sets it"},
		"the agent's address":        {func(i *image.Image) { i.Env[0].Name = "AGENT_URL" }, "the platform sets it"},
		"a relative volume":          {func(i *image.Image) { i.DataPath = "data" }, "data_path"},
		"a volume in place of /":     {func(i *image.Image) { i.DataPath = "/" }, "belongs to the system"},
		"a volume below /proc":       {func(i *image.Image) { i.DataPath = "/proc/data" }, "belongs to the system"},
		"a home with dots":           {func(i *image.Image) { i.Home = "/data/../etc" }, "home"},
		"a long home":                {func(i *image.Image) { i.Home = "/" + strings.Repeat("h", 256) }, "home"},
		"little grace":               {func(i *image.Image) { i.GraceSeconds = 29 }, "grace_seconds"},
		"much grace":                 {func(i *image.Image) { i.GraceSeconds = 601 }, "grace_seconds"},
		"an unknown kernel":          {func(i *image.Image) { i.Kernel = "darwin" }, "kernel"},
		"many public paths":          {func(i *image.Image) { i.PublicPaths = make([]string, 21) }, "more than 20"},
		"everything is public":       {func(i *image.Image) { i.PublicPaths = []string{"/"} }, "public_paths"},
		"a public path of /v1":       {func(i *image.Image) { i.PublicPaths = []string{"/v1/hooks/"} }, "/v1"},
		"a public path with escapes": {func(i *image.Image) { i.PublicPaths = []string{"/a%2f"} }, "public_paths"},
		"a front with args":          {func(i *image.Image) { i.ID = image.FrontID }, "the front has no settings"},
	} {
		i := entry()
		c.change(&i)
		if err := i.Check(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error with %q", name, err, c.want)
		}
	}
}

func manyVersions(n int) []image.Version {
	versions := []image.Version{version("1.0.0", "1", image.Available)}
	for i := range n - 1 {
		versions = append(versions, version(fmt.Sprint("2.", i), "2", image.Available))
	}
	return versions
}

func TestImage_ReportsAllThatIsWrong(t *testing.T) {
	t.Parallel()
	i := entry()
	i.Name, i.DefaultVersion, i.Port = "", "2", 80
	for _, want := range []string{"name", "default_version", "port"} {
		if err := i.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not mention %s", err, want)
		}
	}
}
