//go:build unix

package terraform_test

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// deletionRule is a rule of a bucket's lifecycle.
type deletionRule struct {
	Action    struct{ Type string }
	Condition struct {
		Age                     int
		IsLive                  *bool
		MatchesPrefix           []string
		DaysSinceNoncurrentTime int
		NumNewerVersions        int
	}
}

// lifecycle reads the rules that a bucket gets in both runs of bootstrap.sh.
func lifecycle(t *testing.T, bucket string) []deletionRule {
	t.Helper()
	runs, file := bootstrapped(t), ""
	for _, calls := range []string{runs.first, runs.second} {
		update := regexp.MustCompile(`storage buckets update gs://project-1-test-` + bucket + ` .*--lifecycle-file=(\S+)`)
		m := update.FindStringSubmatch(calls)
		if m == nil {
			t.Fatalf("the bucket %s gets no lifecycle:\n%s", bucket, calls)
		}
		file = m[1]
	}
	var rules struct{ Rule []deletionRule }
	if err := json.Unmarshal([]byte(read(t, file)), &rules); err != nil {
		t.Fatal(err)
	}
	return rules.Rule
}

// staged are the prefixes of the sources that deploy.sh stages in a bucket.
func staged(t *testing.T, bucket string) []string {
	t.Helper()
	var prefixes []string
	for _, m := range regexp.MustCompile(`submit \S+ \w+ "\$`+bucket+`/(\w+)"`).FindAllStringSubmatch(
		read(t, "deploy.sh"), -1) {
		prefixes = append(prefixes, m[1]+"/")
	}
	if len(prefixes) == 0 {
		t.Fatalf("deploy.sh stages no source in the bucket %s: correct this test", bucket)
	}
	return prefixes
}

// TestBootstrap_DeletesStagedSourcesOnly holds that the bucket of builds loses no release, and no source that a build
// may still read.
func TestBootstrap_DeletesStagedSourcesOnly(t *testing.T) {
	t.Parallel()
	var deleted []string
	for _, r := range lifecycle(t, "builds") {
		if r.Action.Type != "Delete" || r.Condition.Age < 7 || len(r.Condition.MatchesPrefix) == 0 {
			t.Errorf("rule %+v, want one that deletes what has a prefix and is at least a week old", r)
		}
		deleted = append(deleted, r.Condition.MatchesPrefix...)
	}
	if want := staged(t, "builds"); !slices.Equal(slices.Sorted(slices.Values(deleted)),
		slices.Sorted(slices.Values(want))) {
		t.Errorf("deleted prefixes %q, want those of sources: %q", deleted, want)
	}
}

// TestBootstrap_KeepsVersionsOfTheState holds that of the state only old versions with many newer ones are deleted.
func TestBootstrap_KeepsVersionsOfTheState(t *testing.T) {
	t.Parallel()
	sources, versions := staged(t, "state"), false
	for _, r := range lifecycle(t, "terraform") {
		c := r.Condition
		isSource := len(c.MatchesPrefix) > 0 && !slices.ContainsFunc(c.MatchesPrefix, func(prefix string) bool {
			return !slices.Contains(sources, prefix)
		})
		if isSource && (c.Age >= 7 || c.DaysSinceNoncurrentTime >= 7) {
			continue
		}
		versions = true
		if c.DaysSinceNoncurrentTime < 90 || c.NumNewerVersions < 10 {
			t.Errorf("rule %+v, want one about versions that were replaced 90 days ago and ten times since", r)
		}
	}
	if !versions {
		t.Errorf("no rule is about versions that were replaced; sources are %s", strings.Join(sources, ", "))
	}
}
