package terraform_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"
)

// TestTopology_IsGroupByDefault holds the default to what README.md says.
func TestTopology_IsGroupByDefault(t *testing.T) {
	t.Parallel()
	if got := load(t, nil).variable(t, "topology").AsString(); got != "group" {
		t.Errorf("the default topology is %s, want group", got)
	}
}

// TestScaling_IsWithinWhatServicesCanUse holds the sizes of services. A service that keeps an instance by default is in
// TestServices_ThatCreateAgentsKeepAnInstance.
func TestScaling_IsWithinWhatServicesCanUse(t *testing.T) {
	t.Parallel()
	want := map[string]int64{
		"reconcile-agent": 10, "dead-letter-agent": 3, "sweep-agents": 2, "observe-agents": 2, "check-drift": 2,
		"recount-usage": 2, "seal-audit-logs": 2, "keep-accounts": 2, "collect-orphans": 2, "collect-metrics": 2,
	}
	everyTopology(t, func(t *testing.T, m *module) {
		for address, s := range m.resources(t, "google_cloud_run_v2_service") {
			service := strings.TrimSuffix(strings.TrimPrefix(address, `this["`), `"]`)
			least, most := instances(t, s)
			wantMost := int64(10)
			if n, known := want[service]; known {
				wantMost = n
			}
			if most != wantMost || least > most {
				t.Errorf("%s has %d to %d instances, want at most %d", service, least, most, wantMost)
			}
		}
	})
}

// instances are the limits of a service.
func instances(t *testing.T, service cty.Value) (least, most int64) {
	t.Helper()
	for path, n := range map[string]*int64{"min_instance_count": &least, "max_instance_count": &most} {
		var err error
		if *n, err = strconv.ParseInt(text(t, service, "template.0.scaling.0."+path), 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	return least, most
}
