package agentctl_test

import (
	"archive/tar"
	"context"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agents.example/controlplane/functions/agentctl"
	"agents.example/controlplane/shared/agentexec/agentexectest"
)

// ownTar runs tar of this machine.
func ownTar(ctx context.Context, p *agentexectest.Process) int {
	cmd := exec.CommandContext(ctx, p.Args[0], p.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = p.Stdin, p.Stdout, p.Stderr
	_ = cmd.Run()
	return cmd.ProcessState.ExitCode()
}

// TestCopy_ASlashNamesTheSameDirectory copies with and without a slash at the end of a path. The container is a folder
// of this machine, and one folder here has a link to nothing. A directory in a row ends with a slash in the result.
func TestCopy_ASlashNamesTheSameDirectory(t *testing.T) {
	t.Parallel()
	a := serve(t)
	defer a.onNudge(t, func(id string) { a.Reconcile(t, id) })() // ends before the test's context
	a.Containers.Install("tar", ownTar)
	c := a.admin()
	c.run(t, "agents", "create", "my-agent", "--wait").ok(t)
	for _, test := range []struct{ name, from, to, want string }{
		{name: "a directory there", from: "LOCAL/dir", to: "AGENT/new", want: "AGENT/new/sub/file"},
		{name: "a directory there, a slash", from: "LOCAL/dir/", to: "AGENT/new/", want: "AGENT/new/sub/file"},
		{name: "a directory into one", from: "LOCAL/dir", to: "AGENT/data/", want: "AGENT/data/sub/file"},
		{name: "a link to a directory", from: "LOCAL/link", to: "AGENT/new", want: "AGENT/new/sub/file"},
		{name: "a file there", from: "LOCAL/note", to: "AGENT/data/other", want: "AGENT/data/other"},
		{name: "a file into a directory there", from: "LOCAL/note", to: "AGENT/data/", want: "AGENT/data/note"},
		{name: "a directory here", from: "AGENT/data", to: "LOCAL/new", want: "LOCAL/new/text"},
		{name: "a directory here, a slash", from: "AGENT/data/", to: "LOCAL/new/", want: "LOCAL/new/text"},
		{name: "a directory to a new one", from: "AGENT/data", to: "LOCAL/new/", want: "LOCAL/new/text"},
		{name: "a directory to a present one", from: "AGENT/data/", to: "LOCAL/dir/", want: "LOCAL/dir/text"},
		{name: "a directory to a dot", from: "AGENT/data/", to: "LOCAL/dir/.", want: "LOCAL/dir/text"},
		{name: "a file here", from: "AGENT/data/text", to: "LOCAL/new/other", want: "LOCAL/new/other"},
		{name: "a file into a directory here", from: "AGENT/data/text", to: "LOCAL/dir/", want: "LOCAL/dir/text"},
		{name: "a file into a new directory", from: "AGENT/data/text", to: "LOCAL/new/", want: "LOCAL/new/text"},
		{
			name: "a file to where a link leads", from: "AGENT/data/text", to: "LOCAL/dir/sub/dangling",
			want: "LOCAL/dir/sub/nothing",
		},
		{name: "a file whose name begins with -", from: "AGENT/-rf", to: "LOCAL/new/", want: "LOCAL/new/-rf"},
		{name: "a file to two dots", from: "AGENT/data/text", to: "LOCAL/dir/sub/..", want: "LOCAL/dir/text"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			for _, name := range []string{"LOCAL/note", "LOCAL/dir/sub/file", "AGENT/data/text", "AGENT/-rf"} {
				name = filepath.Join(dir, name)
				if err := os.MkdirAll(filepath.Dir(name), 0o750); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(name, []byte("some"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			for name, target := range map[string]string{"link": "dir", "dir/sub/dangling": "nothing"} {
				if err := os.Symlink(target, filepath.Join(dir, "LOCAL", name)); err != nil {
					t.Fatal(err)
				}
			}
			before := filesBelow(t, dir)
			path := strings.NewReplacer("AGENT", "my-agent:"+dir+"/AGENT", "LOCAL", dir+"/LOCAL").Replace
			c.run(t, "agents", "cp", path(test.from), path(test.to)).ok(t)
			after := filesBelow(t, dir)
			maps.DeleteFunc(after, func(name string, _ bool) bool { return before[name] })
			if got := slices.Sorted(maps.Keys(after)); !slices.Equal(got, []string{test.want}) {
				t.Errorf("cp %s %s wrote %q, want %s", test.from, test.to, got, test.want)
			}
		})
	}
	c.run(t, "agents", "cp", os.DevNull, "my-agent:"+t.TempDir()+"/null").
		wantCode(t, agentctl.ExitUsage, os.DevNull+" is neither a file nor a directory")
	note := writeFile(t, "note", "")
	refused := c.run(t, "agents", "cp", note, "my-agent:"+note+"/")
	refused.wantCode(t, agentctl.ExitFailed, "tar in the container ended with exit code ")
	if strings.Contains(refused.Stderr, `\x0a`) {
		t.Errorf("what tar says is in one line: %s", refused.Stderr)
	}
}

// TestCopy_AFileReplacesNoOtherOne asks for a file, and the container sends a directory with that name instead.
func TestCopy_AFileReplacesNoOtherOne(t *testing.T) {
	t.Parallel()
	a := serve(t)
	defer a.onNudge(t, func(id string) { a.Reconcile(t, id) })() // ends before the test's context
	var sent []tar.Header
	a.Containers.Install("tar", func(_ context.Context, p *agentexectest.Process) int {
		archive := tar.NewWriter(p.Stdout)
		for _, header := range sent {
			_ = archive.WriteHeader(&header)
		}
		_ = archive.Close()
		return 0
	})
	c := a.admin()
	c.run(t, "agents", "create", "my-agent", "--wait").ok(t)
	folder := tar.Header{Name: "./text", Typeflag: tar.TypeDir, Mode: 0o755}
	other := tar.Header{Name: "./text/.profile", Typeflag: tar.TypeReg, Mode: 0o644}
	for _, test := range []struct {
		name, from, to string
		sent           []tar.Header
		code           int
	}{
		{name: "a directory", from: "text", to: "/.", sent: []tar.Header{folder, other}, code: agentctl.ExitUsage},
		{name: "a file of one", from: "text", to: "/", sent: []tar.Header{other}, code: agentctl.ExitUsage},
		{name: "an empty directory", from: "text", to: "/", sent: []tar.Header{folder}, code: agentctl.ExitUsage},
		{name: "a directory that was asked for", from: "text/", to: "/", sent: []tar.Header{folder, other}},
	} {
		t.Run(test.name, func(t *testing.T) {
			sent = test.sent
			dir := t.TempDir()
			profile := filepath.Join(dir, ".profile")
			if err := os.WriteFile(profile, []byte("former"), 0o600); err != nil {
				t.Fatal(err)
			}
			result := c.run(t, "agents", "cp", "my-agent:/data/"+test.from, dir+test.to)
			got, err := os.ReadFile(profile)
			if err != nil {
				t.Fatal(err)
			}
			if test.code == agentctl.ExitOK {
				result.ok(t)
			} else {
				result.wantCode(t, test.code, "put a slash at the end of SOURCE")
			}
			if kept := string(got) == "former"; kept != (test.code != agentctl.ExitOK) {
				t.Errorf("another file has %q", got)
			}
		})
	}
}

// TestCopy_LeavesNoPartOfAFile downloads a file whose connection breaks in the middle, over one that is there.
func TestCopy_LeavesNoPartOfAFile(t *testing.T) {
	t.Parallel()
	a := serve(t)
	defer a.onNudge(t, func(id string) { a.Reconcile(t, id) })() // ends before the test's context
	whole := false
	a.Containers.Install("tar", func(_ context.Context, p *agentexectest.Process) int {
		archive := tar.NewWriter(p.Stdout)
		_ = archive.WriteHeader(&tar.Header{Name: "./text", Typeflag: tar.TypeReg, Mode: 0o644, Size: 2048})
		_, _ = archive.Write(make([]byte, 1024))
		if !whole {
			return 1
		}
		_, _ = archive.Write(make([]byte, 1024))
		_ = archive.Close()
		return 0
	})
	c := a.admin()
	c.run(t, "agents", "create", "my-agent", "--wait").ok(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "text"), []byte("former"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.run(t, "agents", "cp", "my-agent:/data/text", dir+"/text").
		wantCode(t, agentctl.ExitFailed, "tar in the container ended with exit code 1")
	if got, err := os.ReadFile(filepath.Join(dir, "text")); err != nil || string(got) != "former" {
		t.Errorf("the file has %d bytes (%v), want those that it had", len(got), err)
	}
	whole = true
	c.run(t, "agents", "cp", "my-agent:/data/text", dir+"/text").ok(t)
	if got := filesBelow(t, dir); !maps.Equal(got, map[string]bool{"text": true}) {
		t.Errorf("the directory has %v, want the file only", got)
	}
	info, err := os.Stat(filepath.Join(dir, "text"))
	if err != nil || info.Size() != 2048 || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v (%v), want all of it, with the permissions that it had", info, err)
	}
}

// TestCopy_HasAFileUnderEachOfItsNames downloads a directory with a file that has two names, which tar sends once, and
// a link that has two.
func TestCopy_HasAFileUnderEachOfItsNames(t *testing.T) {
	t.Parallel()
	a := serve(t)
	defer a.onNudge(t, func(id string) { a.Reconcile(t, id) })() // ends before the test's context
	a.Containers.Install("tar", ownTar)
	c := a.admin()
	c.run(t, "agents", "create", "my-agent", "--wait").ok(t)
	there, here := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(there, "one"), []byte("some"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("one", filepath.Join(there, "link")); err != nil {
		t.Fatal(err)
	}
	for name, second := range map[string]string{"one": "two", "link": "second link"} {
		if err := os.Link(filepath.Join(there, name), filepath.Join(there, second)); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		c.run(t, "agents", "cp", "my-agent:"+there, here).ok(t)
		for _, name := range []string{"one", "two"} {
			if got, err := os.ReadFile(filepath.Join(here, name)); err != nil || string(got) != "some" {
				t.Errorf("the file %s is %q (%v), want what it has there", name, got, err)
			}
		}
	}
	if got := filesBelow(t, here); !maps.Equal(got, map[string]bool{"one": true, "two": true}) {
		t.Errorf("the directory has %v, want two files", got)
	}
}

// filesBelow returns the names of all files below a directory.
func filesBelow(t *testing.T, dir string) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			names[name] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
