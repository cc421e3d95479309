package profile_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agents.example/controlplane/functions/agentctl/profile"
)

const (
	production = "https://api.example.com"
	staging    = "https://staging.example.com"
	elsewhere  = "https://evil.example.net"
)

// TestResolve_PrefersFlagsThenEnvironmentThenFile is the table of precedence that the package comment describes.
func TestResolve_PrefersFlagsThenEnvironmentThenFile(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	session := &profile.Session{Issuer: "https://issuer.example.com", Access: "access"}
	save(t, s, "staging", profile.Profile{BaseURL: staging, Session: session, Organization: "org_1"})
	save(t, s, "default", profile.Profile{BaseURL: production + "/", Key: "so_stored"})
	fromFile := profile.Resolved{Name: "default", Stored: true, BaseURL: production, Key: "so_stored"}
	fromStaging := profile.Resolved{
		Name: "staging", Stored: true, BaseURL: staging, Session: session, Organization: "org_1",
	}
	for name, test := range map[string]struct {
		env   map[string]string
		flags profile.Flags
		want  profile.Resolved
	}{
		"nothing given":       {want: fromFile},
		"empty variables":     {env: map[string]string{"AGENTS_PROFILE": "", "AGENTS_API_KEY": " "}, want: fromFile},
		"profile by variable": {env: map[string]string{"AGENTS_PROFILE": "staging"}, want: fromStaging},
		"profile by flag":     {flags: profile.Flags{Profile: "staging"}, want: fromStaging},
		"flag before variable": {
			env: map[string]string{"AGENTS_PROFILE": "default"}, flags: profile.Flags{Profile: "staging"},
			want: fromStaging,
		},
		"flag before key and URL of the environment": {
			env:   map[string]string{"AGENTS_API_KEY": "so_env", "AGENTS_BASE_URL": elsewhere},
			flags: profile.Flags{Profile: "staging"}, want: fromStaging,
		},
		"key of the environment": {
			env: map[string]string{"AGENTS_API_KEY": "so_env\n"},
			want: profile.Resolved{
				Name: "default", Stored: true, BaseURL: production, Key: "so_env", KeyFromEnvironment: true,
			},
		},
		"key of the environment with a profile": {
			env: map[string]string{"AGENTS_API_KEY": "so_env", "AGENTS_PROFILE": "staging"},
			want: profile.Resolved{
				Name: "staging", Stored: true, BaseURL: staging, Key: "so_env", KeyFromEnvironment: true,
			},
		},
		"key and URL of the environment": {
			env:  map[string]string{"AGENTS_API_KEY": "so_env", "AGENTS_BASE_URL": staging + "/"},
			want: profile.Resolved{BaseURL: staging, Key: "so_env", KeyFromEnvironment: true},
		},
		"stored key is not sent to another API by variable": {
			env:  map[string]string{"AGENTS_BASE_URL": elsewhere},
			want: profile.Resolved{Name: "default", Stored: true, BaseURL: elsewhere},
		},
		"stored session is not sent to another API by flag": {
			flags: profile.Flags{Profile: "staging", BaseURL: elsewhere},
			want:  profile.Resolved{Name: "staging", Stored: true, BaseURL: elsewhere},
		},
		"the same API by flag": {flags: profile.Flags{BaseURL: production + "//"}, want: fromFile},
		"new profile at the API of the environment": {
			env: map[string]string{"AGENTS_BASE_URL": staging}, flags: profile.Flags{Profile: "new", New: true},
			want: profile.Resolved{Name: "new", BaseURL: staging},
		},
		"new profile": {
			flags: profile.Flags{Profile: "new", BaseURL: staging, New: true},
			want:  profile.Resolved{Name: "new", BaseURL: staging},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := s.Resolve(environment(test.env), test.flags)
			if err != nil {
				t.Fatalf("Resolve: %v", err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("Resolve (-want +got):\n%s", diff)
			}
		})
	}
}

func TestResolve_SaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	if _, err := s.Resolve(environment(nil), profile.Flags{}); !errors.Is(err, profile.ErrNoAPI) {
		t.Errorf("without a file: %v, want ErrNoAPI", err)
	}
	save(t, s, "one", profile.Profile{BaseURL: production})
	var unknown *profile.UnknownError
	_, err := s.Resolve(environment(nil), profile.Flags{Profile: "two"})
	if !errors.As(err, &unknown) || unknown.Name != "two" || !cmp.Equal(unknown.Known, []string{"one"}) {
		t.Errorf("unknown profile: %v, want an UnknownError with the known profile", err)
	}
	_, err = s.Resolve(environment(map[string]string{"AGENTS_PROFILE": "../x"}), profile.Flags{New: true})
	if err == nil {
		t.Error("the name ../x was accepted")
	}
}

// TestResolve_NeedsNoFileForTheEnvironment: a CI job may have no home directory, or a broken file in it.
func TestResolve_NeedsNoFileForTheEnvironment(t *testing.T) {
	t.Parallel()
	broken := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(broken, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := environment(map[string]string{"AGENTS_API_KEY": "so_env", "AGENTS_BASE_URL": production})
	for _, s := range []profile.Store{{}, {Path: broken}} {
		got, err := s.Resolve(env, profile.Flags{})
		if err != nil || got.Key != "so_env" || got.BaseURL != production {
			t.Errorf("path %q: %v, %v; want the key and the API of the environment", s.Path, got, err)
		}
	}
}
