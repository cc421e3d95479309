package router

import (
	"os"
	"regexp"
	"strconv"
	"testing"
)

// TestMemory_FitsTheContainer compares what the limits admit with the limit of the pod in a cell.
func TestMemory_FitsTheContainer(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../terraform/cell/router.yaml")
	if err != nil {
		t.Fatal(err)
	}
	match := regexp.MustCompile(`name: GOMEMLIMIT, value: (\d+)MiB[\s\S]* limits: \{cpu: "1", memory: 1Gi,`).
		FindSubmatch(text)
	if match == nil {
		t.Fatal("the pod of the router has no GOMEMLIMIT and no limit of 1Gi")
	}
	target, err := strconv.ParseInt(string(match[1]), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	if needed := maxMemory() >> 20; needed > target || target > 1024*9/10 {
		t.Errorf("the limits admit %d MiB, GOMEMLIMIT is %d MiB; want it as large or more, and 10%% below 1 GiB",
			needed, target)
	}
	l := Limits{}.withDefaults()
	// A browser's request has a cost of about 4 KiB.
	const usual = requestMemory + 2*4<<10
	if l.Requests*usual > l.Memory || l.AgentRequests*usual > l.AgentMemory {
		t.Errorf("%d requests take %d MiB and those of an agent %d MiB, want room for both", l.Requests,
			l.Requests*usual>>20, l.AgentRequests*usual>>20)
	}
}
