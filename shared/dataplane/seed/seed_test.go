package seed_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"agents.example/controlplane/shared/dataplane/seed"
)

// projected makes a directory as a kubelet makes that of a projected volume: links lead to the files.
func projected(t *testing.T, files map[string]fs.FileMode) string {
	t.Helper()
	dir := t.TempDir()
	for name, mode := range files {
		file := filepath.Join(dir, "..2026", name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, file, "new "+name, mode)
	}
	if err := os.Symlink("..2026", filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(filepath.Join(dir, "..2026"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if err := os.Symlink(filepath.Join("..data", e.Name()), filepath.Join(dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func write(t *testing.T, name, text string, mode fs.FileMode) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(name, mode); err != nil {
		t.Fatal(err)
	}
}

func checkFile(t *testing.T, name, want string) {
	t.Helper()
	if text, err := os.ReadFile(name); err != nil || string(text) != want {
		t.Errorf("%s is %q, %v; want %q", filepath.Base(name), text, err, want)
	}
}

func TestWrite_ReplacesFilesAndKeepsOthers(t *testing.T) {
	t.Parallel()
	volume := t.TempDir()
	write(t, filepath.Join(volume, "a"), "old", 0o600)
	write(t, filepath.Join(volume, "notes"), "the agent's", 0o600)
	write(t, filepath.Join(volume, "a.seed"), "half", 0o400) // of a run that ended early
	from := projected(t, map[string]fs.FileMode{"a": 0o664, "deep/er/run.sh": 0o775})
	for range 2 { // the second start of the pod
		if err := seed.Write(from, volume); err != nil {
			t.Fatal(err)
		}
	}
	checkFile(t, filepath.Join(volume, "a"), "new a")
	checkFile(t, filepath.Join(volume, "deep", "er", "run.sh"), "new deep/er/run.sh")
	checkFile(t, filepath.Join(volume, "notes"), "the agent's")
	for name, want := range map[string]fs.FileMode{
		"a": 0o664, "deep/er/run.sh": 0o775, "deep": fs.ModeDir | fs.ModeSetgid | 0o770,
		"deep/er": fs.ModeDir | fs.ModeSetgid | 0o770,
	} {
		if info, err := os.Stat(filepath.Join(volume, name)); err != nil || info.Mode() != want {
			t.Errorf("the mode of %s is %v, %v; want %v", name, info.Mode(), err, want)
		}
	}
	if entries, err := os.ReadDir(volume); err != nil || len(entries) != 3 {
		t.Errorf("the volume has %v, %v; want a, deep and notes", entries, err)
	}
}

// TestWrite_NeverLeavesTheVolume: what an agent plants on its volume leads no write to a place outside.
func TestWrite_NeverLeavesTheVolume(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		link    string // on the volume
		to      string // relative to the directory outside
		wantErr bool
	}{
		"a link in place of the directory":      {link: "dir", to: ".", wantErr: true},
		"a link in place of the file":           {link: "dir/file", to: "victim"},
		"a link in place of the temporary file": {link: "dir/file.seed", to: "victim"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			volume, outside := t.TempDir(), t.TempDir()
			victim := filepath.Join(outside, "victim")
			write(t, victim, "untouched", 0o600)
			link := filepath.Join(volume, c.link)
			if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(filepath.Join(outside, c.to), link); err != nil {
				t.Fatal(err)
			}
			err := seed.Write(projected(t, map[string]fs.FileMode{"dir/file": 0o644}), volume)
			if (err != nil) != c.wantErr {
				t.Errorf("error %v, want one: %t", err, c.wantErr)
			}
			checkFile(t, victim, "untouched")
			if entries, err := os.ReadDir(outside); err != nil || len(entries) != 1 {
				t.Errorf("the directory outside has %v, %v; want the victim only", entries, err)
			}
			if !c.wantErr {
				checkFile(t, filepath.Join(volume, "dir", "file"), "new dir/file")
			}
		})
	}
}

func TestWrite_KeepsTheFormerFileIfItFails(t *testing.T) {
	t.Parallel()
	const unreadable = "/proc/self/mem" // opens, and has nothing to read at its beginning
	if _, err := os.Stat(unreadable); err != nil {
		t.Skip("the system has no file that cannot be read")
	}
	from, volume := t.TempDir(), t.TempDir()
	if err := os.Symlink(unreadable, filepath.Join(from, "a")); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(volume, "a"), "old", 0o600)
	if err := seed.Write(from, volume); err == nil {
		t.Error("a file that cannot be read was written, want an error")
	}
	checkFile(t, filepath.Join(volume, "a"), "old")
	if entries, err := os.ReadDir(volume); err != nil || len(entries) != 1 {
		t.Errorf("the volume has %v, %v; want the former file only", entries, err)
	}
}

func TestWrite_FailsIfADirectoryIsInTheWay(t *testing.T) {
	t.Parallel()
	volume := t.TempDir()
	if err := os.MkdirAll(filepath.Join(volume, "file", "full"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := seed.Write(projected(t, map[string]fs.FileMode{"file": 0o644}), volume); err == nil {
		t.Error("a file replaced a directory, want an error")
	}
	if err := seed.Write(t.TempDir(), filepath.Join(volume, "none")); err == nil {
		t.Error("there is no volume, want an error")
	}
}
