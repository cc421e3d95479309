package terraform_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/emulators/cloudrun"
	"agents.example/controlplane/functions"
	"agents.example/controlplane/shared/function"
)

// number reads a whole number.
func number(t *testing.T, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestSizes_LetHeldAnswersGetAnotherInstance holds that an instance whose slots for held answers are all taken is above
// the 60 % of its concurrency at which Cloud Run adds another one, and has room for other requests. What Cloud Run then
// does is modeled in emulators/cloudrun.
func TestSizes_LetHeldAnswersGetAnotherInstance(t *testing.T) {
	t.Parallel()
	m := load(t, nil)
	sizes, held := m.local(t, "sizes").AsValueMap(), m.local(t, "held_answers")
	for _, r := range functions.Routes(functions.Dependencies{}) {
		concurrency, _ := sizes[string(r.Role)].GetAttr("concurrency").AsBigFloat().Int64()
		n := number(t, held.GetAttr(string(r.Role)).AsString())
		if 10*n <= 6*concurrency || 10*n > 8*concurrency || concurrency > 1000 {
			t.Errorf("%s runs in %s, which holds %d of %d concurrent requests, want above 60 %% and at most 80 %% of "+
				"at most 1,000", r.Name, r.Role, n, concurrency)
		}
	}
}

// TestSizes_HaveMemoryForTheLargestBodies: a body is in memory twice while it is decoded, and every concurrent request
// may have the largest one.
func TestSizes_HaveMemoryForTheLargestBodies(t *testing.T) {
	t.Parallel()
	sizes := load(t, nil).local(t, "sizes").AsValueMap()
	for _, r := range functions.Routes(functions.Dependencies{}) {
		if r.Streams() { // its body is passed on in small pieces
			continue
		}
		size := sizes[string(r.Role)]
		concurrency, _ := size.GetAttr("concurrency").AsBigFloat().Int64()
		heap := number(t, strings.TrimSuffix(size.GetAttr("heap").AsString(), "MiB")) << 20
		if largest := 2 * max(r.BodyLimit, function.DefaultBodyLimit) * concurrency; largest > heap {
			t.Errorf("%d bodies of %s need %d MiB, and the heap of %s has %d MiB", concurrency, r.Name, largest>>20,
				r.Role, heap>>20)
		}
	}
}

// TestServices_LeaveTimeForHeldAnswers: in every topology a service lets each answer of its routes end by itself.
func TestServices_LeaveTimeForHeldAnswers(t *testing.T) {
	t.Parallel()
	everyTopology(t, func(t *testing.T, m *module) {
		timeouts, serviceOf := m.local(t, "timeouts"), m.local(t, "service_of")
		for _, r := range functions.Routes(functions.Dependencies{}) {
			services := []string{serviceOf.GetAttr(r.Name).AsString()}
			if r.Role != function.RoleExec {
				services = append(services, "routes")
			}
			for _, service := range services {
				if timeout := timeouts.GetAttr(service).AsString(); longer(t, r.Holds.String(), timeout) {
					t.Errorf("the service %s ends answers after %s, and %s holds one for %s", service, timeout, r.Name,
						r.Holds)
				}
			}
		}
	})
}

// TestTimeouts_AreThoseOfTheLocalCloud: what ends locally after a time ends after the same time when it is deployed.
func TestTimeouts_AreThoseOfTheLocalCloud(t *testing.T) {
	t.Parallel()
	everyTopology(t, func(t *testing.T, m *module) {
		serviceOf, want := m.local(t, "service_of"), map[string]time.Duration{}
		for _, r := range functions.Routes(functions.Dependencies{}) {
			services := []string{serviceOf.GetAttr(r.Name).AsString()}
			if r.Role != function.RoleExec {
				services = append(services, "routes")
			}
			for _, service := range services {
				want[service] = max(want[service], cloudrun.RouteTimeout(r))
			}
		}
		deadlines := m.local(t, "ack_deadlines").AsValueMap()
		for _, w := range functions.Workers(functions.Dependencies{}) {
			local := cloudrun.WorkerTimeout(w)
			service := serviceOf.GetAttr(w.Name).AsString()
			want[service] = max(want[service], local)
			if n, _ := deadlines[w.Name].AsBigFloat().Int64(); time.Duration(n)*time.Second != local {
				t.Errorf("Pub/Sub waits %d s for a push to %s, and locally %v", n, w.Name, local)
			}
		}
		for service, local := range want {
			timeout, err := time.ParseDuration(m.local(t, "timeouts").GetAttr(service).AsString())
			if err != nil || timeout != local {
				t.Errorf("the service %s ends answers after %v (%v), locally after %v", service, timeout, err, local)
			}
		}
	})
}
