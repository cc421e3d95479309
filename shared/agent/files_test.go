package agent_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/image"
)

func TestFileViolations_NameTheField(t *testing.T) {
	t.Parallel()
	file := func(path string, more ...any) map[string]any {
		f := map[string]any{"path": path, "content": "x"}
		for i := 0; i < len(more); i += 2 {
			f[more[i].(string)] = more[i+1]
		}
		return f
	}
	many := make([]any, agent.MaxFiles)
	large := make([]any, 3)
	for i := range many {
		many[i] = file(fmt.Sprintf("/data/%d", i))
	}
	for i := range large {
		large[i] = file(fmt.Sprintf("/data/%d", i), "content", strings.Repeat("x", agent.MaxFileBytes))
	}
	for name, c := range map[string]struct {
		files []any
		want  string // the end of the violation's place; "" for none
	}{
		"below /data and /config":      {files: []any{file("/data/a/b"), file("/config/a")}},
		"the volume itself":            {files: []any{file("/data/")}, want: "0 path"},
		"another directory":            {files: []any{file("/etc/passwd")}, want: "0 path"},
		"a directory that begins so":   {files: []any{file("/database/x")}, want: "0 path"},
		"dots":                         {files: []any{file("/data/../etc/passwd")}, want: "0 path"},
		"a name that begins with dots": {files: []any{file("/data/..x")}, want: "0 path"},
		"a control character":          {files: []any{file("/data/a\nb")}, want: "0 path"},
		"a long name":                  {files: []any{file("/data/" + strings.Repeat("x", 201))}, want: "0 path"},
		"a long path": {
			files: []any{file("/data/" + strings.Repeat("x/", 130) + "x")}, want: "0 path",
		},
		"the config's own file":       {files: []any{file("/config/agent.json")}, want: "0 path"},
		"below the config's own file": {files: []any{file("/config/agent.json/x")}, want: "0 path"},
		"a path twice":                {files: []any{file("/data/a"), file("/data/a")}, want: "1 path"},
		"a path below a file":         {files: []any{file("/data/a"), file("/data/a/b")}, want: "1 path"},
		"a path above a file":         {files: []any{file("/data/a/b"), file("/data/a")}, want: "1 path"},
		"a path next to a file":       {files: []any{file("/data/a"), file("/data/ab")}},
		"a secret in the content": {
			files: []any{file("/data/a", "content", "postgres://a:b@c/d")},
			want:  "0 content",
		},
		"NUL": {files: []any{file("/data/a", "content", "\x00")}, want: "0 content"},
		"a large file": {
			files: []any{file("/data/a", "content", strings.Repeat("x", agent.MaxFileBytes+1))}, want: "0 content",
		},
		"large files":       {files: large, want: "files"},
		"what is not read":  {files: append(many, file("/etc"), file("/data/0"))},
		"two contents":      {files: []any{file("/data/a", "secret", "MY_TOKEN")}, want: "0"},
		"no content":        {files: []any{map[string]any{"path": "/data/a"}}, want: "0"},
		"a secret":          {files: []any{map[string]any{"path": "/data/a", "secret": "MY_TOKEN"}}},
		"a plain variable":  {files: []any{map[string]any{"path": "/data/a", "secret": "MODE"}}, want: "0 secret"},
		"an unknown secret": {files: []any{map[string]any{"path": "/data/a", "secret": "NONE"}}, want: "0 secret"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := map[string]any{"MY_TOKEN": "x", "MODE": "fast"}
			got := agent.CreateViolations(map[string]any{"env_vars": env, "files": c.files})
			switch {
			case c.want == "" && len(got) > 0, c.want != "" && len(got) != 1:
				t.Errorf("violations %v, want %q", got, c.want)
			case c.want != "" && !strings.HasSuffix(strings.Trim(fmt.Sprint(got[0].Loc), "[]"), c.want):
				t.Errorf("the violation is at %v, want %s", got[0].Loc, c.want)
			}
		})
	}
}

func TestApply_ReplacesFiles(t *testing.T) {
	t.Parallel()
	start := func() agent.Agent {
		a := in(agent.Running)
		a.Env = []agent.EnvVar{{Key: "AGENT_IMPORT_URL", SecretVersion: 1}, {Key: "MY_TOKEN", SecretVersion: 1}}
		a.Files = agent.Files([]agent.FileSpec{
			{Path: "/data/b", Content: new("b")}, {Path: "/config/a", Secret: new("MY_TOKEN"), Mode: "0400"},
		})
		return a
	}
	for name, c := range map[string]struct {
		files        *[]agent.FileSpec
		want         string
		wantReplaced bool
		wantRefused  bool
	}{
		"none given": {want: "/config/a 400 $MY_TOKEN, /data/b 644 b"},
		"as they were read": {
			files: &[]agent.FileSpec{{Path: "/data/b"}, {Path: "/config/a"}},
			want:  "/config/a 400 $MY_TOKEN, /data/b 644 b",
		},
		"another mode": {
			files: &[]agent.FileSpec{{Path: "/data/b", Mode: "0700"}}, want: "/data/b 700 b", wantReplaced: true,
		},
		"none": {files: &[]agent.FileSpec{}, wantReplaced: true},
		"content for a secret": {
			files: &[]agent.FileSpec{{Path: "/config/a", Content: new("")}}, want: "/config/a 400 ", wantReplaced: true,
		},
		"a secret for content": {
			files: &[]agent.FileSpec{{Path: "/data/b", Secret: new("MY_TOKEN")}}, want: "/data/b 644 $MY_TOKEN",
			wantReplaced: true,
		},
		"an unknown secret": {files: &[]agent.FileSpec{{Path: "/data/b", Secret: new("NONE")}}, wantRefused: true},
		"the URL of its archive": {
			files: &[]agent.FileSpec{{Path: "/data/b", Secret: new("AGENT_IMPORT_URL")}}, wantRefused: true,
		},
		"a new file without content": {files: &[]agent.FileSpec{{Path: "/data/c"}}, wantRefused: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := start()
			before := a.Generation
			err := a.Apply(agent.Patch{Files: c.files}, at(1))
			if c.wantRefused {
				if !fault.Is(err, fault.Invalid) || a.Generation != before {
					t.Errorf("error %v, want Invalid and no change", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range a.Files {
				content := f.Content
				if f.Secret != "" {
					content = "$" + f.Secret
				}
				got = append(got, fmt.Sprintf("%s %o %s", f.Path, f.Mode, content))
			}
			equal(t, "files", strings.Join(got, ", "), c.want)
			equal(t, "generation changed", a.Generation != before, c.wantReplaced)
		})
	}
}

// TestShow_LeavesOutContents: no answer has a content, and a kept answer is the same as the first.
func TestShow_LeavesOutContents(t *testing.T) {
	t.Parallel()
	a := in(agent.Running)
	a.Files = agent.Files([]agent.FileSpec{{Path: "/data/b", Content: new("the content")}})
	admin := identity.Caller{Type: identity.Session, ID: "u", OrganizationID: "o", Role: identity.RoleAdmin}
	want := []agent.FileView{{Path: "/data/b", Mode: "0644", Size: new(int64(11))}}
	for name, a := range map[string]agent.Agent{"first": a, "kept": a.WithoutValues()} {
		if diff := cmp.Diff(want, a.Show(admin, agent.Addresses{}).Files); diff != "" {
			t.Errorf("files of the %s answer (-want +got):\n%s", name, diff)
		}
	}
	if kept := a.WithoutValues(); kept.Files[0].Content != "" || a.Files[0].Content == "" {
		t.Error("a kept answer has the content of a file, or the agent has lost it")
	}
	if member := a.Show(identity.Caller{}, agent.Addresses{}); len(member.Files) > 0 {
		t.Errorf("a member sees the files %v", member.Files)
	}
}

func TestNameAtStart_IsThatOfTheLastStart(t *testing.T) {
	t.Parallel()
	a := in(agent.Running)
	a.Name, a.NameAtStart, a.ObservedGeneration = "new", "old", a.Generation
	a.Repair(at(1))
	equal(t, "name after a repair", a.NameAtStart, "old")
	if err := a.Act(agent.Restart, "", at(2)); err != nil {
		t.Fatal(err)
	}
	equal(t, "name after a restart", a.NameAtStart, "new")
	a.Config = []byte(`{"a":1}`)
	equal(t, "file", string(a.ConfigFile()), `{"a":1}`)
	a.NameAtStart = ""
	equal(t, "file of a pod of a former release", string(a.ConfigFile()), "")
	equal(t, "name of a new agent", agent.New("i", "c", agent.Draft{Name: "n"}, at(1)).NameAtStart, "n")
}

// TestKernel_SandboxRefusesImagesThatNeedLinux: neither client, start nor release brings such an image into a sandbox.
func TestKernel_SandboxRefusesImagesThatNeedLinux(t *testing.T) {
	t.Parallel()
	needsLinux := image.Choice{ID: "a", Version: "2", Runtime: image.Runtime{Kernel: image.KernelLinux}}
	a := in(agent.Running)
	a.Image.Choice = needsLinux
	wantKernelConflict(t, a.Migrate(true, at(1)))
	if err := a.Migrate(false, at(1)); err != nil {
		t.Error(err)
	}
	equal(t, "an agent outside the sandbox can run it", a.CanRun(needsLinux), true)

	a.Sandbox, a.Image.Choice = true, image.Choice{ID: "a", Version: "1", Reference: "r/a@sha256:1"}
	equal(t, "a sandboxed agent can run it", a.CanRun(needsLinux), false)
	set := image.Set{Catalog: []image.Image{{
		ID: "a", DefaultVersion: "2", Runtime: needsLinux.Runtime, Versions: []image.Version{
			{Version: "1", Reference: "r/a@sha256:1", State: image.Available},
			{Version: "2", Reference: "r/a@sha256:2", State: image.Available},
		},
	}}}
	before := a
	a.ImageWish = &agent.ImageWish{Selection: "a@2", At: at(1)}
	wantKernelConflict(t, a.ChooseImages(before, set))
	a.ImageWish, a.Rollout = nil, a.Rollout+1
	if err := a.ChooseImages(before, set); err != nil {
		t.Error(err)
	}
	equal(t, "version after a restart", a.Image.Version, "1")
}

func wantKernelConflict(t *testing.T, err error) {
	t.Helper()
	if !fault.Is(err, fault.Conflict) || fault.Code(err) != "image_needs_linux_kernel" {
		t.Errorf("error %v, want Conflict image_needs_linux_kernel", err)
	}
}

// TestApplied_WaitsForTheFormerContainersGrace: the new pod starts when the former one has ended.
func TestApplied_WaitsForTheFormerContainersGrace(t *testing.T) {
	t.Parallel()
	for seconds, want := range map[int]string{0: "10m0s", 30: "10m0s", 600: "19m30s"} {
		a := in(agent.Running)
		a.Image.GraceSeconds, a.ObservedGeneration = seconds, a.Generation-1
		a.Applied(at(1))
		equal(t, "time to become ready", a.Deadline.Sub(at(1)).String(), want)
	}
}
