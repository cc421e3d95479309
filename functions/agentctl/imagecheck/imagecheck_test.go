package imagecheck

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agents.example/controlplane/emulators/gobuild"
	"agents.example/controlplane/shared/testtier"
)

// TestRun_SaysWhatAnImageWouldNotSurvive runs images that each do one thing wrong.
func TestRun_SaysWhatAnImageWouldNotSurvive(t *testing.T) {
	testtier.RequireFull(t, "it runs containers")
	found := requireEngine(t)
	dir, err := gobuild.StaticPrograms(t.Context(), io.Discard, "the subject of checks",
		"agents.example/controlplane/functions/agentctl/imagecheck/testdata/subject")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(filepath.Join(dir, "subject"))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		mode, user string
		health     string
		// want are the results of all checks, and text is in the report.
		want, text string
	}{
		"a good image": {
			mode: "good", user: "65532",
			want: "platform passed, user passed, port passed, writes passed, memory passed, signals passed",
		},
		"root": {
			mode: "good", user: "0:0", text: "USER 65532",
			want: "platform passed, user failed, port passed, writes passed, memory passed, signals passed",
		},
		"a user with a name": {
			mode: "good", user: "agent", text: `"agent" is no number`,
			want: "platform passed, user failed, port passed, writes passed, memory passed, signals passed",
		},
		"an exit": {
			mode: "exits", user: "65532", text: "code 3\nno key of a model",
			want: "platform passed, user passed, start failed, writes passed",
		},
		"no port": {
			mode: "silent", user: "65532", text: "no answer on port 3000",
			want: "platform passed, user passed, port failed, writes passed",
		},
		"another status": {
			mode: "good", user: "65532", health: "/none", text: "status 404",
			want: "platform passed, user passed, port failed, writes passed",
		},
		"too much memory": {
			mode: "hungry", user: "65532", text: "more than 64 MiB and was killed",
			want: "platform passed, user passed, memory failed, writes passed",
		},
		"files elsewhere": {
			mode: "writes", user: "65532", text: "/var/cache/subject/index",
			want: "platform passed, user passed, port passed, writes warning, memory passed, signals passed",
		},
		"no end": {
			mode: "stubborn", user: "65532", text: "did not end within 1 s",
			want: "platform passed, user passed, port passed, writes passed, memory passed, signals warning",
		},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "image.tar")
			reference := "subject-" + c.mode + ":" + strings.ReplaceAll(c.user, ":", "-")
			if err := os.WriteFile(file, saved(t, program, reference, c.user, c.mode), 0o600); err != nil {
				t.Fatal(err)
			}
			defer func() {
				_, _ = found.run(context.WithoutCancel(t.Context()), "rmi", "--force", reference)
			}()
			o := Options{
				Image:      file,
				Engine:     string(found),
				Port:       3000,
				HealthPath: c.health,
				MemoryMiB:  64,
				CPUs:       1,
				Grace:      time.Second,
				Start:      15 * time.Second,
			}
			if c.mode == "silent" {
				o.Start = 3 * time.Second
			}
			if !strings.Contains(c.want, "port failed") {
				o.Start = 2 * time.Minute // on a slow machine
			}
			r, err := Run(t.Context(), o, func(string) {})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, check := range r.Checks {
				got = append(got, check.Name+" "+string(check.Result))
			}
			text, err := json.Marshal(r)
			if diff := cmp.Diff(c.want, strings.Join(got, ", ")); diff != "" || err != nil {
				t.Errorf("checks (-want +got):\n%s\n%s (%v)", diff, text, err)
			}
			if r.OK() == strings.Contains(c.want, "failed") {
				t.Errorf("OK is %v", r.OK())
			}
			if all := strings.ReplaceAll(
				string(text),
				`\"`,
				`"`,
			); !strings.Contains(
				strings.ReplaceAll(all, `\n`, "\n"),
				c.text,
			) {
				t.Errorf("%q is missing in %s", c.text, text)
			}
		})
	}
}

// requireEngine returns an engine that runs containers here, and skips the test if there is none.
func requireEngine(t *testing.T) engine {
	t.Helper()
	e, err := findEngine(t.Context(), "")
	if err != nil {
		t.Skip(testtier.Skipped(err.Error()))
	}
	// Where a container may not get podman's default limits of files, it gets lower ones.
	file := filepath.Join(t.TempDir(), "containers.conf")
	text := "[containers]\ndefault_ulimits = [\"nofile=1024:1024\", \"nproc=512:512\"]\n[engine]\nruntime = \"runc\"\n"
	if e == "podman" && os.Geteuid() == 0 {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Setenv("CONTAINERS_CONF", file)
	}
	return e
}

// saved is an image of one static program, as docker save writes it.
func saved(t *testing.T, program []byte, reference, user, mode string) []byte {
	t.Helper()
	layer := archive(t, map[string][]byte{"subject": program})
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH,
		"os":           "linux",
		"config":       map[string]any{"User": user, "Cmd": []string{"/subject"}, "Env": []string{"MODE=" + mode}},
		"rootfs": map[string]any{
			"type":     "layers",
			"diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(layer))},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := json.Marshal([]map[string]any{{
		"Config": "config.json", "RepoTags": []string{reference}, "Layers": []string{"layer.tar"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return archive(t, map[string][]byte{"config.json": config, "layer.tar": layer, "manifest.json": manifest})
}

func archive(t *testing.T, files map[string][]byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, dir := range []string{"etc/", "tmp/", "data/", "var/"} { // which may be written by any user
		if err := w.WriteHeader(&tar.Header{Name: dir, Mode: 0o777, Typeflag: tar.TypeDir}); err != nil {
			t.Fatal(err)
		}
	}
	files["etc/passwd"] = []byte("agent:x:65534:65534::/:\n")
	for name, content := range files {
		err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(content))})
		if err == nil {
			_, err = w.Write(content)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestWrittenPaths_AreTheDeepestOnesOfTheImage(t *testing.T) {
	t.Parallel()
	for diff, want := range map[string]string{
		"":                                       "",
		"C /tmp\nA /tmp/x\nA /data\nA /data/y\n": "",
		"C /etc\nA /etc/hosts\nC /run\nA /run/.containerenv\n":        "",
		"C /var\nC /var/cache\nA /var/cache/a\nA /opt\nA /opt/.npm\n": "/opt/.npm, /var/cache/a",
		"A /tmpfiles\n": "/tmpfiles",
	} {
		if got := strings.Join(writtenPaths(diff), ", "); got != want {
			t.Errorf("%q: paths %q, want %q", diff, got, want)
		}
	}
	var many strings.Builder
	for i := range maxPaths + 2 {
		fmt.Fprintf(&many, "A /many/%02d\n", i)
	}
	if got := writtenPaths(many.String()); len(got) != maxPaths+1 || got[maxPaths] != "and 2 more" {
		t.Errorf("many paths are %q", got)
	}
}

func TestFindEngine_TakesOneThatWorks(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	if _, err := findEngine(t.Context(), ""); !errors.Is(err, ErrNoEngine) {
		t.Errorf("without engines: %v", err)
	}
	for name, script := range map[string]string{"docker": "echo no daemon >&2; exit 1", "podman": "exit 0"} {
		if err := os.WriteFile(
			filepath.Join(dir, name),
			[]byte("#!/bin/sh\n"+script+"\n"),
			0o700,
		); err != nil { //nolint:gosec // it runs
			t.Fatal(err)
		}
	}
	if e, err := findEngine(t.Context(), ""); err != nil || e != "podman" {
		t.Errorf("the engine is %q (%v), want podman", e, err)
	}
	if _, err := findEngine(t.Context(), "docker"); err == nil || !strings.Contains(err.Error(), "no daemon") {
		t.Errorf("the named engine: %v", err)
	}
}
