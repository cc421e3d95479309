package functions_test

import (
	"net/http"
	"reflect"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agents.example/controlplane/functions"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/ratelimit"
)

// TestRoutes_SayHowLongTheyStream: how long a stream takes depends on its client and on what there is to send. Cloud
// Run ends the answer of a route that does not declare it after a minute.
func TestRoutes_SayHowLongTheyStream(t *testing.T) {
	t.Parallel()
	streams := 0
	for _, r := range functions.Routes(functions.Dependencies{}) {
		reply, ok := reflect.Zero(r.Handle.Output).Interface().(function.Reply)
		if !ok {
			continue
		}
		var formats function.Formats
		switch body := reply.Reply(http.Header{}).(type) {
		case function.Raw:
			formats = function.Formats{body}
		case function.Formats:
			formats = body
		default:
			continue
		}
		for _, format := range formats {
			if format.Stream == nil {
				continue
			}
			streams++
			if r.Holds == 0 {
				t.Errorf("%s streams its answer, and does not declare how long (Holds)", r.Name)
			}
		}
	}
	if streams == 0 {
		t.Error("no route streams its answer, want those that export, download and follow")
	}
}

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
