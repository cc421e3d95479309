package profile_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"agents.example/controlplane/functions/agentctl/profile"
)

// countingProcess makes the test binary a process that increments a number in the file of its first argument.
const countingProcess = "PROFILE_TEST_COUNT"

func TestMain(m *testing.M) {
	if path := os.Getenv(countingProcess); path != "" {
		if err := count(context.Background(), profile.Store{Path: path}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// rounds is how often each process changes the file.
const rounds = 20

// count lengthens the organization of the profile by one letter, rounds times.
func count(ctx context.Context, s profile.Store) error {
	for range rounds {
		err := s.Update(ctx, func(f *profile.File) error {
			p := f.Profiles["count"]
			p.Organization += "x"
			f.Profiles["count"] = p
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// newStore returns a store whose file and directory do not exist yet.
func newStore(t *testing.T) profile.Store {
	t.Helper()
	return profile.Store{Path: filepath.Join(t.TempDir(), "agentctl", "config.json")}
}

func save(t *testing.T, s profile.Store, name string, p profile.Profile) {
	t.Helper()
	if err := s.Save(t.Context(), name, p); err != nil {
		t.Fatal(err)
	}
}

func load(t *testing.T, s profile.Store) profile.File {
	t.Helper()
	f, err := s.Load()
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// environment returns a lookup in a map.
func environment(values map[string]string) profile.Lookup {
	return func(name string) (string, bool) {
		value, set := values[name]
		return value, set
	}
}
