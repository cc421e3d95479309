package dataplane_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"agents.example/controlplane/shared/dataplane"
)

// get is a request as a server reads it.
func get(target string) *http.Request { return httptest.NewRequest(http.MethodGet, target, nil) }

// TestPublicSet_HasTheRequestsOfThePaths compares labels with the paths that they were made of, as the front does.
func TestPublicSet_HasTheRequestsOfThePaths(t *testing.T) {
	t.Parallel()
	paths := []string{"/telegram", "/hooks/", "/a/b/c", "/a/b/c/d/"}
	set := dataplane.PublicSetOf(dataplane.PublicPathLabels(paths))
	for _, row := range []struct {
		target string
		want   bool
	}{
		{target: "/telegram", want: true},
		{target: "/telegram?token=1", want: true},
		{target: "/telegram/", want: false},
		{target: "/telegram/x", want: false},
		{target: "/Telegram", want: false},
		{target: "/telegra", want: false},
		{target: "/hooks/", want: true},
		{target: "/hooks/a/b/c", want: true},
		{target: "/hooks", want: false},
		{target: "/x/hooks/", want: false},
		{target: "/", want: false},
		{target: "/a/b/c", want: true},
		{target: "/a/b/c/d", want: false},
		{target: "/a/b/c/d/e", want: true},
		{target: "/hooks/../x", want: false},
		{target: "/hooks/./x", want: false},
		{target: "/hooks//x", want: false},
		{target: "/hooks/%2e%2e/x", want: false},
		{target: "/hooks/a;b", want: false},
		{target: "/hooks/%61", want: false},
		{target: "/hooks/" + strings.Repeat("a/", 4000), want: true},
	} {
		sent, plain := dataplane.PlainPath(get(row.target))
		covered := plain && slices.ContainsFunc(paths, func(p string) bool { return dataplane.CoversPath(p, sent) })
		if got := set.Has(get(row.target)); got != row.want || covered != row.want {
			t.Errorf("%.40s: the set has it: %t, the paths: %t, want %t", row.target, got, covered, row.want)
		}
	}
	if dataplane.PublicSetOf(nil).Has(get("/telegram")) {
		t.Error("a set of no paths has one")
	}
}

// TestPublicPathLabels_HaveRoomForAllPaths: an image has 20 paths at most, and an agent as many.
func TestPublicPathLabels_HaveRoomForAllPaths(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 7, 8, 40} {
		var paths []string
		for i := range n {
			paths = append(paths, fmt.Sprintf("/%d/%s/", i, strings.Repeat("x", 200)))
		}
		labels := dataplane.PublicPathLabels(paths)
		if want := (n + 6) / 7; len(labels) != want {
			t.Errorf("%d paths have %d labels, want %d", n, len(labels), want)
		}
		for name, value := range labels {
			if !slices.Contains(dataplane.PublicLabelNames(), name) || len(value) > 63 {
				t.Errorf("label %s = %q is not among those that are kept, or too long", name, value)
			}
		}
		set := dataplane.PublicSetOf(labels)
		for _, p := range paths {
			if !set.Has(get(p + "y")) {
				t.Errorf("the labels of %d paths lack %s", n, p)
			}
		}
		slices.Reverse(paths)
		if again := dataplane.PublicSetOf(dataplane.PublicPathLabels(append(paths, paths...))); again != set {
			t.Errorf("the labels depend on the order of the paths: %q, %q", again, set)
		}
	}
}
