package functions_test

import (
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agents.example/controlplane/shared/ratelimit"
)

// TestDescription_ListsTheHeldAnswers compares the second table in the API description with the limits of production.
func TestDescription_ListsTheHeldAnswers(t *testing.T) {
	t.Parallel()
	rows := regexp.MustCompile(`(?m)^\| [a-z ]+ \| ([0-9]+) at a time.* \|$`)
	var described []int
	for _, row := range rows.FindAllStringSubmatch(readDocument(t, "functions/generate/description.md"), -1) {
		n, _ := strconv.Atoi(row[1])
		described = append(described, n)
	}
	limits := ratelimit.StandardSlots(1, 0)
	if diff := cmp.Diff([]int{limits.Caller, limits.Organization}, described); diff != "" {
		t.Errorf("functions/generate/description.md does not list the held answers (-want +got):\n%s", diff)
	}
}

// TestDescription_ListsTheRateLimits compares the table in the API description with the limits of production.
func TestDescription_ListsTheRateLimits(t *testing.T) {
	t.Parallel()
	rows := regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| .* \\| ([0-9]+) in ([0-9]+) s \\|$")
	described := ratelimit.Limits{}
	for _, row := range rows.FindAllStringSubmatch(readDocument(t, "functions/generate/description.md"), -1) {
		quota, _ := strconv.Atoi(row[2])
		seconds, _ := strconv.Atoi(row[3])
		described[ratelimit.Class(row[1])] = ratelimit.Limit{Quota: quota, Window: time.Duration(seconds) * time.Second}
	}
	if diff := cmp.Diff(ratelimit.Standard(1), described); diff != "" {
		t.Errorf("functions/generate/description.md does not list the limits (-want +got):\n%s", diff)
	}
}
