package clientrelease_test

import (
	"slices"
	"testing"
	"time"

	"agents.example/controlplane/shared/clientrelease"
)

func TestVersionAt_HasNoLeadingZeros(t *testing.T) {
	t.Parallel()
	for at, want := range map[string]string{
		"2026-11-27T20:30:23Z": "1.20261127.203023", "2026-01-02T00:00:00Z": "1.20260102.0",
		"2026-01-02T00:01:05Z": "1.20260102.105", "2026-01-02T01:30:00+02:00": "1.20260101.233000",
	} {
		when, err := time.Parse(time.RFC3339, at)
		if err != nil {
			t.Fatal(err)
		}
		got := clientrelease.VersionAt(when)
		if got != want {
			t.Errorf("version at %s = %q, want %q", at, got, want)
		}
		if back, ok := clientrelease.Time(got); !ok || !back.Equal(when) {
			t.Errorf("the time of %s = %s, %t, want %s", got, back, ok, when)
		}
	}
}

func TestTime_RefusesOtherVersions(t *testing.T) {
	t.Parallel()
	for _, version := range []string{
		"", "1.2.3", "1.20261127", "1.20261127.0203", "1.20261127.236000", "1.20261327.1", "v1.20261127.1",
		"1.20261127.1-rc", "1.20261127.1/../x", "2.20261127.1",
	} {
		if _, ok := clientrelease.Time(version); ok {
			t.Errorf("%q is a version, want it refused", version)
		}
	}
}

func TestVersionIn_FindsThatOfEveryFile(t *testing.T) {
	t.Parallel()
	const version = "1.20261127.203023"
	names := clientrelease.Names(version)
	if len(names) != 10 {
		t.Errorf("a release has the files %q, want 10", names)
	}
	for _, name := range names {
		if got, ok := clientrelease.VersionIn(name); !ok || got != version {
			t.Errorf("the version in %s = %q, %t, want %q", name, got, ok, version)
		}
	}
	for _, p := range clientrelease.Platforms() {
		if got, ok := clientrelease.VersionIn(clientrelease.LatestTool(p)); ok {
			t.Errorf("the version in %s = %q, want none", clientrelease.LatestTool(p), got)
		}
	}
}

func TestSort_IsByTime(t *testing.T) {
	t.Parallel()
	got := []string{"1.20261127.203023", "1.20261127.90000", "1.20251231.235959", "1.20261127.0"}
	clientrelease.Sort(got)
	want := []string{"1.20251231.235959", "1.20261127.0", "1.20261127.90000", "1.20261127.203023"}
	if !slices.Equal(got, want) {
		t.Errorf("sorted: %q, want %q", got, want)
	}
}
