package agentctl_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/functions/agentctl"
	"agents.example/controlplane/functions/agentctl/profile"
)

func TestLogin_StoresAKey(t *testing.T) {
	t.Parallel()
	a := serve(t)
	_, key := a.CreateKey(t, org)
	c := tool{config: t.TempDir()}
	in := c.with(key+"\n").run(t, "login", "--with-key", "--base-url", a.url).ok(t)
	if in.Stdout != "" || !strings.Contains(in.Stderr, "The profile default is the current one.") {
		t.Errorf("stdout %q, stderr %q; want only a message on stderr", in.Stdout, in.Stderr)
	}
	file := filepath.Join(c.config, "agentctl", "config.json")
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v, %v; want the mode 0600", info, err)
	}
	c.run(t, "keys", "list").ok(t)
	listed := c.run(t, "profiles", "list", "-o", "json").ok(t)
	var views []struct {
		Name, Credential, Organization string
		Current                        bool
	}
	if err := json.Unmarshal([]byte(listed.Stdout), &views); err != nil || len(views) != 1 ||
		views[0].Credential != "API key" || views[0].Organization != org || !views[0].Current {
		t.Errorf("profiles = %s (%v), want the key of %s", listed.Stdout, err, org)
	}
	for _, o := range []output{in, listed, c.run(t, "profiles", "list")} {
		if strings.Contains(o.Stdout+o.Stderr, key) {
			t.Error("the output has the key")
		}
	}
	c.run(t, "logout").ok(t)
	if got := c.run(t, "keys", "list"); got.Code != agentctl.ExitNoSession ||
		!strings.Contains(got.Stderr, "agentctl login") {
		t.Errorf("after logout: code %d, %s; want %d and how to sign in", got.Code, got.Stderr, agentctl.ExitNoSession)
	}
}

func TestLogin_KeepsWhatItHasIfItFails(t *testing.T) {
	t.Parallel()
	a, other := serve(t), serve(t)
	_, key := a.CreateKey(t, org)
	c := tool{config: t.TempDir()}
	c.with(key).run(t, "login", "--with-key", "--base-url", a.url).ok(t)
	for name, test := range map[string]struct {
		stdin string
		args  []string
		want  int
	}{
		"a key that the API refuses": {
			stdin: "so_" + strings.Repeat("x", 40), args: []string{"login", "--with-key"}, want: agentctl.ExitNoSession,
		},
		"no key": {stdin: "hunter2", args: []string{"login", "--with-key"}, want: agentctl.ExitInvalid},
		"the profile of another API": {
			stdin: key, args: []string{"login", "--with-key", "--base-url", other.url}, want: agentctl.ExitUsage,
		},
		"an API without sign-in": {
			args: []string{"login", "--profile", "new", "--base-url", other.url}, want: agentctl.ExitFailed,
		},
		"an unknown profile": {args: []string{"profiles", "use", "none"}, want: agentctl.ExitUsage},
	} {
		got := c.with(test.stdin).run(t, test.args...)
		if got.Code != test.want || test.stdin != "" && strings.Contains(got.Stdout+got.Stderr, test.stdin) {
			t.Errorf("%s: code %d, %s; want %d without the input", name, got.Code, got.Stderr, test.want)
		}
	}
	c.run(t, "keys", "list").ok(t)
}

func TestLogin_ChoosesBetweenProfiles(t *testing.T) {
	t.Parallel()
	a, b := serve(t), serve(t)
	_, keyA := a.CreateKey(t, org)
	_, keyB := b.CreateKey(t, org)
	c := tool{config: t.TempDir()}
	c.with(keyA).run(t, "login", "--with-key", "--base-url", a.url).ok(t)
	c.with(keyB).run(t, "login", "--with-key", "--base-url", b.url, "--profile", "b").ok(t)
	current := func() string {
		const path = "jsonpath={[?(@.current==true)].name}"
		return strings.TrimSpace(c.run(t, "profiles", "list", "-o", path).Stdout)
	}
	if got := current(); got != "b" {
		t.Errorf("the current profile is %q, want that of the last sign-in", got)
	}
	c.run(t, "keys", "list").ok(t)
	c.run(t, "keys", "list", "--profile", "default").ok(t)
	c.run(t, "profiles", "use", "default").ok(t)
	c.run(t, "profiles", "remove", "b").ok(t)
	if got := c.run(t, "keys", "list", "--profile", "b"); got.Code != agentctl.ExitUsage ||
		!strings.Contains(got.Stderr, "does not exist") {
		t.Errorf("a removed profile: code %d, %s; want that it does not exist", got.Code, got.Stderr)
	}
	c.run(t, "keys", "list").ok(t)
}

func TestSession_SaysThatItEnded(t *testing.T) {
	t.Parallel()
	c := tool{config: t.TempDir()}
	err := profile.In(c.config).Save(t.Context(), "default", profile.Profile{
		BaseURL: "http://127.0.0.1:1", Session: &profile.Session{Access: "old", Expires: time.Now().Add(-time.Hour)},
	})
	if err != nil {
		t.Fatal(err)
	}
	got := c.run(t, "agents", "list")
	want := "Error: your session has ended. Run: agentctl login\n"
	if got.Code != agentctl.ExitNoSession || got.Stderr != want || got.Stdout != "" {
		t.Errorf("code %d, stdout %q, stderr %q; want %d and %q", got.Code, got.Stdout, got.Stderr,
			agentctl.ExitNoSession, want)
	}
}
