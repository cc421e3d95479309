package profile_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agents.example/controlplane/functions/agentctl/profile"
)

func TestStore_KeepsProfiles(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	session := &profile.Session{
		Issuer: "https://issuer.example.com", ClientID: "agentctl", Subject: "user_1", Email: "a@example.com",
		Access: "access", Refresh: "refresh", Expires: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
	}
	want := map[string]profile.Profile{
		"one": {BaseURL: production, Key: "so_1", Organization: "org_1"},
		"two": {BaseURL: staging, Session: session},
	}
	save(t, s, "one", want["one"])
	save(t, s, "two", want["two"])
	got := load(t, s)
	if diff := cmp.Diff(profile.File{Current: "two", Profiles: want}, got); diff != "" {
		t.Errorf("file (-want +got):\n%s", diff)
	}
	if err := s.Use(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	if err := s.Remove(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	delete(want, "one")
	if diff := cmp.Diff(profile.File{Profiles: want}, load(t, s)); diff != "" {
		t.Errorf("file after the current profile was removed (-want +got):\n%s", diff)
	}
	var unknown *profile.UnknownError
	for name, err := range map[string]error{
		"Use": s.Use(t.Context(), "one"), "Remove": s.Remove(t.Context(), "one"),
	} {
		if !errors.As(err, &unknown) {
			t.Errorf("%s of an unknown profile: %v, want an UnknownError", name, err)
		}
	}
	if left := listDir(t, filepath.Dir(s.Path)); !cmp.Equal(left, []string{"config.json", "config.json.lock"}) {
		t.Errorf("files = %v, want only the configuration and its lock", left)
	}
}

func listDir(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestStore_HidesTheFileFromOtherUsers(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("Windows has access lists instead of modes")
	}
	s := newStore(t)
	save(t, s, "one", profile.Profile{BaseURL: production, Key: "so_canary"})
	for path, want := range map[string]os.FileMode{
		s.Path: 0o600, s.Path + ".lock": 0o600, filepath.Dir(s.Path): 0o700,
	} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("mode of %s = %04o, want %04o", filepath.Base(path), got, want)
		}
	}
	for _, mode := range []os.FileMode{0o640, 0o604, 0o620, 0o601} {
		if err := os.Chmod(s.Path, mode); err != nil {
			t.Fatal(err)
		}
		_, err := s.Load()
		if err == nil || !strings.Contains(err.Error(), "chmod 600 "+s.Path) {
			t.Errorf("a file with mode %04o: error %v, want one that says how to repair it", mode, err)
		}
		if err := s.Use(t.Context(), "one"); err == nil {
			t.Errorf("a file with mode %04o was changed", mode)
		}
	}
}

func TestStore_LeavesADamagedFile(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	save(t, s, "one", profile.Profile{BaseURL: production})
	for _, content := range []string{
		"", "{", `{"profiles": []}`, "\x00\x01", `{"profiles": {"one": {"api_key": {"so_canary": 1}}}}`,
	} {
		if err := os.WriteFile(s.Path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		err := s.Save(t.Context(), "two", profile.Profile{BaseURL: staging})
		if err == nil || !strings.Contains(err.Error(), s.Path) || strings.Contains(err.Error(), "canary") {
			t.Errorf("content %q: error %v, want one that names the file and no value", content, err)
		}
		if got, _ := os.ReadFile(s.Path); string(got) != content {
			t.Errorf("content %q became %q, want it unchanged", content, got)
		}
	}
	if err := os.Remove(s.Path); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(s.Path, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Load(); err == nil {
		t.Error("a directory in the place of the file was read")
	}
}

// TestUpdate_ChecksThatItCanWriteFirst: a change may spend a refresh token, which is lost if its successor cannot be
// stored.
func TestUpdate_ChecksThatItCanWriteFirst(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	paths := map[string]string{
		"unknown directory": "", "directory that cannot be made": filepath.Join(file, "agentctl", "config.json"),
	}
	if os.Geteuid() != 0 { // modes do not bind root
		readOnly := filepath.Join(dir, "read-only")
		if err := os.Mkdir(readOnly, 0o500); err != nil {
			t.Fatal(err)
		}
		paths["read-only directory"] = filepath.Join(readOnly, "config.json")
	} else if runtime.GOOS == "linux" {
		paths["read-only directory"] = "/proc/self/config.json" // binds root, too
	}
	for name, path := range paths {
		called := false
		err := profile.Store{Path: path}.Update(t.Context(), func(*profile.File) error {
			called = true
			return nil
		})
		if err == nil || called {
			t.Errorf("%s: error %v, change called: %t; want an error and no call", name, err, called)
		}
	}
}

func TestUpdate_KeepsTheFileIfTheChangeFails(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	save(t, s, "one", profile.Profile{BaseURL: production})
	failed := errors.New("failed")
	err := s.Update(t.Context(), func(f *profile.File) error {
		delete(f.Profiles, "one")
		return failed
	})
	if !errors.Is(err, failed) || len(load(t, s).Profiles) != 1 {
		t.Errorf("error %v with profiles %v, want the change's error and the old file", err, load(t, s).Names())
	}
}

func TestUpdate_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	err := s.Update(t.Context(), func(*profile.File) error { // holds the lock
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		return s.Use(ctx, "one")
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("waiting for the lock with a canceled context: %v, want context.Canceled", err)
	}
}

// TestUpdate_LosesNoChangeOfAnotherProcess runs processes and goroutines that all change the same profile.
func TestUpdate_LosesNoChangeOfAnotherProcess(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const processes, routines = 2, 2
	var all sync.WaitGroup
	for range processes {
		all.Go(func() {
			cmd := exec.CommandContext(t.Context(), executable)
			cmd.Env = append(os.Environ(), countingProcess+"="+s.Path)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("process: %v: %s", err, out)
			}
		})
	}
	for range routines {
		all.Go(func() {
			if err := count(t.Context(), s); err != nil {
				t.Errorf("goroutine: %v", err)
			}
		})
	}
	all.Wait()
	got, want := len(load(t, s).Profiles["count"].Organization), (processes+routines)*rounds
	if got != want {
		t.Errorf("%d changes are in the file, want %d", got, want)
	}
}

// Two versions of the tool may use one file.
func TestUpdate_KeepsWhatALaterVersionStored(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	save(t, s, "one", profile.Profile{BaseURL: production, Key: "so_1"})
	const stored = `{"current": "one", "color": "never", "profiles": {
		"one": {"base_url": "https://one.example.com", "passkey": {"id": 12345678901234567890}},
		"two": {"base_url": "https://two.example.com", "session": {
			"issuer": "https://issuer.example.com", "client_id": "c", "token_url": "", "access_token": "a",
			"expires": "2026-01-02T03:04:05Z", "dpop_key": "secret"
		}}
	}}`
	if err := os.WriteFile(s.Path, []byte(stored), 0o600); err != nil {
		t.Fatal(err)
	}
	read := func() (text string, file profile.File) {
		b, err := os.ReadFile(s.Path)
		if err != nil {
			t.Fatal(err)
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, b); err != nil {
			t.Fatal(err)
		}
		return compact.String(), load(t, s)
	}
	if err := s.Use(t.Context(), "two"); err != nil {
		t.Fatal(err)
	}
	text, file := read()
	for _, want := range []string{`"color":"never"`, `"passkey":{"id":12345678901234567890}`, `"dpop_key":"secret"`} {
		if strings.Count(text, want) != 1 {
			t.Errorf("the file is %s, want %s once", text, want)
		}
	}
	if file.Current != "two" || file.Profiles["two"].Session.Access != "a" {
		t.Errorf("the file has the current profile %q and a session %+v", file.Current, file.Profiles["two"].Session)
	}
	if printed := fmt.Sprintf("%+v %#v", file.Profiles["two"].Session, file); strings.Contains(printed, "secret") {
		t.Errorf("the file is printed as %s, with what may be a secret", printed)
	}
	save(t, s, "one", profile.Profile{BaseURL: production, Key: "so_2"})
	if text, _ := read(); strings.Contains(text, "passkey") || !strings.Contains(text, "dpop_key") {
		t.Errorf("after another login to one, the file is %s, want it without the former credential", text)
	}
}

func TestStore_FollowsALink(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	save(t, s, "one", profile.Profile{BaseURL: production})
	link := profile.Store{Path: filepath.Join(t.TempDir(), "link.json")}
	if err := os.Symlink(s.Path, link.Path); err != nil {
		t.Skipf("links cannot be made here: %v", err)
	}
	save(t, link, "two", profile.Profile{BaseURL: staging})
	if got := load(t, s).Names(); !cmp.Equal(got, []string{"one", "two"}) {
		t.Errorf("profiles of the file that the link leads to = %v, want both", got)
	}
}

func TestSecret_IsRedacted(t *testing.T) {
	t.Parallel()
	p := profile.Profile{Key: "so_canary", Session: &profile.Session{Access: "canary", Refresh: "canary"}}
	r := profile.Resolved{Key: "so_canary", Session: p.Session}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "key", p.Key)
	for _, printed := range []string{
		fmt.Sprintf("%v %+v %#v %q %x", p, p, p, p.Key, p.Key), fmt.Sprintf("%v %+v %s", r, r, &r),
		fmt.Sprintf("%v %+v %#v %s", *p.Session, *p.Session, *p.Session, p.Session.Refresh), log.String(),
	} {
		if strings.Contains(printed, "canary") || strings.Contains(printed, fmt.Sprintf("%x", "canary")) {
			t.Errorf("the text contains a secret: %s", printed)
		}
	}
	b, err := json.Marshal(p.Key)
	if err != nil || string(b) != `"so_canary"` || p.Key.Reveal() != "so_canary" {
		t.Errorf("JSON = %s, %v; want the value", b, err)
	}
}

func TestProfile_DescribesItsCredential(t *testing.T) {
	t.Parallel()
	for want, p := range map[string]profile.Profile{
		"none": {}, "API key": {Key: "so_1"}, "session": {Session: &profile.Session{}},
	} {
		if got := p.Method(); got != want || p.IsSignedIn() != (want != "none") {
			t.Errorf("Method = %q, IsSignedIn = %t; want %q", got, p.IsSignedIn(), want)
		}
	}
	if err := profile.CheckName(strings.Repeat("a", 64)); err == nil {
		t.Error("a name of 64 letters was accepted")
	}
	if got, want := profile.In("dir").Path, filepath.Join("dir", "agentctl", "config.json"); got != want {
		t.Errorf("the path in a directory is %s, want %s", got, want)
	}
	if got := profile.In("").Path; got != "" {
		t.Errorf("the path in an unknown directory is %s, want none", got)
	}
}
