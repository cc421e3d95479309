package archive_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"agents.example/controlplane/shared/dataplane/archive"
)

const manifest = `{"format": "agents.example/volume", "version": 1, "agent": {"name": "a"}}`

// roomy are limits that no archive of these tests reaches.
var roomy = archive.Limits{Bytes: 1 << 20, Entries: 100}

// makeVolume makes a directory with everything that a volume may have.
func makeVolume(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	must(os.MkdirAll(at("deep/er"), 0o700))
	must(os.Mkdir(at("lost+found"), 0o700))
	must(os.WriteFile(at("lost+found/x"), []byte("x"), 0o600))
	must(os.WriteFile(at("notes"), []byte("some notes"), 0o640))
	must(os.WriteFile(at("deep/er/run"), []byte("#!/bin/sh\n"), 0o700))
	must(os.Chmod(at("deep/er/run"), 0o755|fs.ModeSetuid))
	must(os.WriteFile(at("deep/"+strings.Repeat("long", 60)), nil, 0o600))
	must(os.Link(at("notes"), at("deep/same")))
	must(os.Symlink("er/run", at("deep/link")))
	must(os.Symlink("/usr/bin/python3", at("deep/python")))
	must(syscall.Mkfifo(at("pipe"), 0o600))
	return dir
}

func write(t *testing.T, dir string) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := archive.Write(t.Context(), &b, []byte(manifest), dir); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func open(content []byte) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }
}

// syncs is a volume in a directory. It counts how often it was written through.
func volume(dir string, limits archive.Limits) archive.Volume {
	return archive.Volume{Dir: dir, Limits: limits, Sync: func(string) error { return nil }}
}

func unpack(content []byte, dir string) error { return volume(dir, roomy).Unpack(open(content)) }

func TestUnpack_MakesTheVolumeThatWasWritten(t *testing.T) {
	t.Parallel()
	source, dir := makeVolume(t), t.TempDir()
	content := write(t, source)
	if err := unpack(content, dir); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"notes": "some notes", "deep/er/run": "#!/bin/sh\n", "deep/same": "some notes", "deep/link": "#!/bin/sh\n",
		"deep/" + strings.Repeat("long", 60): "",
	} {
		if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(text) != want {
			t.Errorf("%s is %q, %v; want %q", name, text, err, want)
		}
	}
	for name, want := range map[string]fs.FileMode{
		"notes": 0o660, "deep/er/run": 0o775, "deep": fs.ModeDir | fs.ModeSetgid | 0o770,
	} {
		if info, err := os.Lstat(filepath.Join(dir, name)); err != nil || info.Mode() != want {
			t.Errorf("%s has the mode %v, %v; want %v", name, info.Mode(), err, want)
		}
	}
	if target, err := os.Readlink(filepath.Join(dir, "deep/python")); target != "/usr/bin/python3" {
		t.Errorf("deep/python leads to %q, %v; want the path in the agent's container", target, err)
	}
	one, err := os.Stat(filepath.Join(dir, "notes"))
	if err != nil {
		t.Fatal(err)
	}
	if other, err := os.Stat(filepath.Join(dir, "deep/same")); err != nil || !os.SameFile(one, other) {
		t.Errorf("deep/same is another file than notes (%v), want a hard link", err)
	}
	for _, name := range []string{"pipe", "lost+found", ".agent-import"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v, want no such entry", name, err)
		}
	}
	again := write(t, dir)
	first, err := archive.Verify(bytes.NewReader(content))
	if err != nil || first.Skipped != 1 || first.Entries != 8 || first.Bytes != 20 {
		t.Errorf("the archive has %+v, %v; want 8 entries of 20 bytes, without the pipe", first, err)
	}
	if second, err := archive.Verify(bytes.NewReader(again)); err != nil || second.Entries != first.Entries {
		t.Errorf("an archive of the new volume has %+v, %v; want %d entries", second, err, first.Entries)
	}
}

// TestUnpack_TakesWhateverNamesAVolumeHas: file systems take names that are not UTF-8, and programs make links that
// lead out of the volume to a place in their container.
func TestUnpack_TakesWhateverNamesAVolumeHas(t *testing.T) {
	t.Parallel()
	source, dir := t.TempDir(), t.TempDir()
	const latin = "caf\xe9"
	if err := os.Mkdir(filepath.Join(source, latin), 0o700); errors.Is(err, syscall.EILSEQ) {
		t.Skip("this file system takes names in UTF-8 only")
	} else if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		os.WriteFile(filepath.Join(source, latin, latin), []byte("menu"), 0o600),
		os.Symlink(latin, filepath.Join(source, "link")),
		os.Symlink("../link", filepath.Join(source, latin, "up")),
		os.Symlink("../../app", filepath.Join(source, latin, "app")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	content := write(t, source)
	if err := unpack(content, dir); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{latin + "/" + latin, "link/" + latin, latin + "/up/" + latin} {
		if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(text) != "menu" {
			t.Errorf("%q is %q, %v; want the file that was written", name, text, err)
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, latin, "app")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the link that leads out of the volume: %v, want no such entry", err)
	}
	if got, err := archive.Verify(bytes.NewReader(content)); err != nil || got.Entries != 4 || got.Skipped != 1 {
		t.Errorf("the archive has %+v, %v; want 4 entries, and one that was skipped", got, err)
	}
}

// TestWrite_LeavesOutPathsThatNoReaderTakes: a program can make directories in directories until no path leads there.
func TestWrite_LeavesOutPathsThatNoReaderTakes(t *testing.T) {
	t.Parallel()
	const length, levels = 200, 30 // 6,000 bytes
	source, dir := t.TempDir(), t.TempDir()
	root, err := os.OpenRoot(source)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close() //nolint:errcheck // only names
	deep := strings.Repeat("/"+strings.Repeat("d", length), levels)[1:]
	err = errors.Join(root.MkdirAll(deep, 0o700), root.WriteFile("notes", []byte("some notes"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	content := write(t, source)
	if got, err := archive.Verify(bytes.NewReader(content)); err != nil || got.Skipped != 1 || got.Entries < 2 {
		t.Errorf("the archive has %+v, %v; want one directory left out with what is in it", got, err)
	}
	if err := unpack(content, dir); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "notes")); err != nil || string(text) != "some notes" {
		t.Errorf("notes is %q, %v; want what was written", text, err)
	}
}

// TestWrite_HasAChecksumThatOtherProgramsCanCheck checks what the package's comment says about it.
func TestWrite_HasAChecksumThatOtherProgramsCanCheck(t *testing.T) {
	t.Parallel()
	content := write(t, makeVolume(t))
	r := tar.NewReader(bytes.NewReader(content))
	var names []string
	var last []byte
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
		if last, err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
	if names[0] != "manifest.json" || names[len(names)-1] != "checksum.json" {
		t.Errorf("the archive has the entries %v", names)
	}
	var sum struct {
		Offset int
		SHA256 string
	}
	if err := json.Unmarshal(last, &sum); err != nil {
		t.Fatal(err)
	}
	if got := sha256.Sum256(content[:sum.Offset]); hex.EncodeToString(got[:]) != sum.SHA256 {
		t.Errorf("the first %d bytes have the sum %x, want %s", sum.Offset, got, sum.SHA256)
	}
}

func TestVerify_NoticesEveryCutAndEveryChangedByte(t *testing.T) {
	t.Parallel()
	content := write(t, makeVolume(t))
	summary, err := archive.Verify(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	for n := 0; n < int(summary.Offset)+512; n += 97 {
		if _, err := archive.Verify(bytes.NewReader(content[:n])); err == nil {
			t.Errorf("an archive that was cut after %d of %d bytes passes", n, len(content))
		}
	}
	for n := 0; n < int(summary.Offset); n += 61 {
		damaged := slices.Clone(content)
		damaged[n] ^= 4
		if _, err := archive.Verify(bytes.NewReader(damaged)); err == nil {
			t.Errorf("an archive whose byte %d was changed passes", n)
		}
	}
	if _, err := archive.Verify(bytes.NewReader(append(slices.Clone(content), 'x'))); err == nil {
		t.Error("an archive with a byte after its end passes")
	}
}

// entry is an entry of a forged archive.
type entry struct {
	tar.Header
	content string
}

func file(name, content string) entry {
	return entry{tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(content))}, content}
}

func link(kind byte, name, target string) entry {
	return entry{Header: tar.Header{Typeflag: kind, Name: name, Linkname: target, Mode: 0o777}}
}

func directory(name string) entry {
	return entry{Header: tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o755}}
}

// forge makes an archive of any entries, with a manifest and the right checksum.
func forge(t *testing.T, first string, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	var size int64
	add := func(e entry) {
		t.Helper()
		if err := w.WriteHeader(&e.Header); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, e.content); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	add(file("manifest.json", first))
	for _, e := range entries {
		add(e)
		size += e.Size
	}
	add(file("checksum.json", fmt.Sprintf(`{"entries": %d, "bytes": %d, "offset": %d, "sha256": "%x"}`, len(entries),
		size, b.Len(), sha256.Sum256(b.Bytes()))))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestUnpack_RefusesHostileArchives(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	setuid := file("data/x", "x")
	setuid.Mode = 0o4755
	device := entry{Header: tar.Header{Typeflag: tar.TypeChar, Name: "data/x", Devmajor: 1, Devminor: 3}}
	for name, c := range map[string]struct {
		manifest string
		entries  []entry
		want     error
	}{
		"an absolute name":     {entries: []entry{file("/data/x", "x")}, want: archive.ErrInvalid},
		"a name with ..":       {entries: []entry{file("data/../x", "x")}, want: archive.ErrInvalid},
		"a name that is above": {entries: []entry{file("data/..", "")}, want: archive.ErrInvalid},
		"the volume itself":    {entries: []entry{directory("data/")}, want: archive.ErrInvalid},
		"a name with an empty": {
			entries: []entry{directory("data/a"), file("data/a//x", "x")}, want: archive.ErrInvalid,
		},
		"another place": {entries: []entry{file("etc/x", "x")}, want: archive.ErrInvalid},
		"a very long name": {
			entries: []entry{file("data/"+strings.Repeat("x/", 2100)+"x", "")}, want: archive.ErrInvalid,
		},
		"a very long part": {
			entries: []entry{file("data/"+strings.Repeat("x", 300), "")}, want: archive.ErrInvalid,
		},
		"a link upwards": {
			entries: []entry{link(tar.TypeSymlink, "data/x", "../..")}, want: archive.ErrInvalid,
		},
		"a link without target": {entries: []entry{link(tar.TypeSymlink, "data/x", "")}, want: archive.ErrInvalid},
		"a hard link outside": {
			entries: []entry{link(tar.TypeLink, "data/x", "data/../y")}, want: archive.ErrInvalid,
		},
		"a hard link elsewhere": {
			entries: []entry{link(tar.TypeLink, "data/x", "/etc/passwd")}, want: archive.ErrInvalid,
		},
		"a hard link to what is not there": {
			entries: []entry{link(tar.TypeLink, "data/x", "data/y")}, want: archive.ErrInvalid,
		},
		"a file through a link": {
			entries: []entry{link(tar.TypeSymlink, "data/out", outside), file("data/out/x", "x")},
			want:    archive.ErrInvalid,
		},
		"a directory through a link": {
			entries: []entry{link(tar.TypeSymlink, "data/out", outside), directory("data/out/x/")},
			want:    archive.ErrInvalid,
		},
		"a link in place of a file": {
			entries: []entry{link(tar.TypeSymlink, "data/x", outside+"/x"), file("data/x", "x")},
			want:    archive.ErrInvalid,
		},
		"links in a circle": {
			entries: []entry{
				link(tar.TypeSymlink, "data/a", "b"), link(tar.TypeSymlink, "data/b", "a"), file("data/a/x", "x"),
			},
			want: archive.ErrInvalid,
		},
		"a name twice":  {entries: []entry{file("data/x", "x"), file("data/x", "y")}, want: archive.ErrInvalid},
		"no directory":  {entries: []entry{file("data/x/y", "x")}, want: archive.ErrInvalid},
		"a set-user-ID": {entries: []entry{setuid}, want: archive.ErrInvalid},
		"a device":      {entries: []entry{device}, want: archive.ErrInvalid},
		"a pipe":        {entries: []entry{link(tar.TypeFifo, "data/x", "")}, want: archive.ErrInvalid},
		"the marker":    {entries: []entry{file("data/.agent-imported", "")}, want: archive.ErrInvalid},
		"the staging":   {entries: []entry{directory("data/.agent-import/")}, want: archive.ErrInvalid},
		"too many bytes": {
			entries: []entry{file("data/x", strings.Repeat("x", 1<<20+1))}, want: archive.ErrTooLarge,
		},
		"too many entries": {entries: slices.Repeat([]entry{directory("data/x/")}, 101), want: archive.ErrInvalid},
		"a newer version": {
			manifest: `{"format": "agents.example/volume", "version": 2}`, want: archive.ErrNewer,
		},
		"another format": {manifest: `{"format": "x", "version": 1}`, want: archive.ErrInvalid},
		"no JSON":        {manifest: `data`, want: archive.ErrInvalid},
	} {
		if c.manifest == "" {
			c.manifest = manifest
		}
		dir := t.TempDir()
		if err := unpack(forge(t, c.manifest, c.entries...), dir); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%s: the volume has %v, %v; want nothing", name, left, err)
		}
	}
	if left, err := os.ReadDir(outside); err != nil || len(left) > 0 {
		t.Errorf("archives wrote %v outside the volume, %v", left, err)
	}
}

func TestUnpack_BoundsEntries(t *testing.T) {
	t.Parallel()
	entries := make([]entry, 101)
	for i := range entries {
		entries[i] = file(fmt.Sprintf("data/%d", i), "")
	}
	if err := unpack(forge(t, manifest, entries...), t.TempDir()); !errors.Is(err, archive.ErrTooLarge) {
		t.Errorf("Unpack of %d entries = %v, want ErrTooLarge", len(entries), err)
	}
	if err := unpack(forge(t, manifest, entries[1:]...), t.TempDir()); err != nil {
		t.Errorf("Unpack of %d entries = %v", len(entries)-1, err)
	}
}

// TestUnpack_MayDieAnywhere ends runs at each of their writes to the disk, and repeats them.
func TestUnpack_MayDieAnywhere(t *testing.T) {
	t.Parallel()
	content, died := write(t, makeVolume(t)), errors.New("died")
	for n := range 4 {
		dir, left := t.TempDir(), n
		v := volume(dir, roomy)
		v.Sync = func(string) error {
			if left--; left < 0 {
				return died
			}
			return nil
		}
		err := v.Unpack(open(content))
		if n < 3 && !errors.Is(err, died) {
			t.Fatalf("run %d: %v, want its death", n, err)
		}
		filled, err := volume(dir, roomy).Filled()
		if err != nil {
			t.Fatal(err)
		}
		if !filled {
			if err := unpack(content, dir); err != nil {
				t.Errorf("the run after the death of run %d: %v", n, err)
			}
		}
		if got := write(t, dir); !sameEntries(t, got, content) {
			t.Errorf("after the death of run %d, the volume is another one", n)
		}
		if filled, err := volume(dir, roomy).Filled(); !filled || err != nil {
			t.Errorf("Filled = %v, %v after run %d", filled, err, n)
		}
	}
}

func sameEntries(t *testing.T, a, b []byte) bool {
	t.Helper()
	one, err := archive.Verify(bytes.NewReader(a))
	if err != nil {
		t.Fatal(err)
	}
	other, err := archive.Verify(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return one.Entries == other.Entries && one.Bytes == other.Bytes
}

func TestFilled_LeavesWhatAnAgentUses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		has  []string
		want bool
	}{
		"a new volume":                 {has: []string{"lost+found"}},
		"a run that died":              {has: []string{"lost+found", ".agent-import", "notes"}},
		"a volume in use":              {has: []string{"notes"}, want: true},
		"a volume that got an archive": {has: []string{".agent-imported"}, want: true},
	} {
		dir := t.TempDir()
		for _, has := range c.has {
			if err := os.Mkdir(filepath.Join(dir, has), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := volume(dir, roomy).Filled(); got != c.want || err != nil {
			t.Errorf("%s: Filled = %v, %v; want %v", name, got, err, c.want)
		}
	}
}

// FuzzUnpack unpacks anything next to a file that must stay as it is.
func FuzzUnpack(f *testing.F) {
	var b bytes.Buffer
	dir := f.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "x"), []byte("x"), 0o600); err != nil {
		f.Fatal(err)
	}
	if err := archive.Write(f.Context(), &b, []byte(manifest), dir); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, content []byte) {
		top := t.TempDir()
		dir := filepath.Join(top, "volume")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		limits := archive.Limits{Bytes: 1 << 16, Entries: 16}
		err := volume(dir, limits).Unpack(open(content))
		if left, listing := os.ReadDir(top); listing != nil || len(left) != 1 {
			t.Errorf("the archive wrote outside the volume: %v, %v", left, listing)
		}
		inside, listing := os.ReadDir(dir)
		if listing != nil || err != nil && len(inside) > 0 {
			t.Errorf("a refused archive left %v, %v", inside, listing)
		}
		if summary, verifying := archive.Verify(bytes.NewReader(content)); err == nil &&
			(verifying != nil || summary.Bytes > limits.Bytes || summary.Entries > limits.Entries) {
			t.Errorf("Unpack took an archive with %+v, %v", summary, verifying)
		}
	})
}
