package terraform_test

import (
	"regexp"
	"strings"
	"testing"

	"agents.example/controlplane/functions"
	"agents.example/controlplane/shared/function"
)

// rule is one rule of the load balancer.
type rule struct{ method, pattern, service string }

func (r rule) matches(method, path string) bool {
	expression := regexp.MustCompile(`\\\{[^}]*=\\\*\\\}`).ReplaceAllString(regexp.QuoteMeta(r.pattern), `[^/]+`)
	return r.method == method && regexp.MustCompile("^"+expression+"$").MatchString(path)
}

func (m *module) rules(t *testing.T) []rule {
	t.Helper()
	var rules []rule
	for _, r := range m.local(t, "rules_of_others").AsValueSlice() {
		rules = append(rules, rule{
			r.GetAttr("method").AsString(), r.GetAttr("literal").AsString() + r.GetAttr("template").AsString(),
			r.GetAttr("service").AsString(),
		})
	}
	return rules
}

// TestEveryRequestReachesItsFunction asks the rules, in their order, for every route: the first that matches is the
// route's own. So no literal path is behind a template that takes it away, nor a route in front of another.
func TestEveryRequestReachesItsFunction(t *testing.T) {
	t.Parallel()
	everyTopology(t, func(t *testing.T, m *module) {
		rules, service := m.rules(t), m.local(t, "service_of").AsValueMap()
		for _, r := range functions.Routes(functions.Dependencies{}) {
			paths := []string{regexp.MustCompile(`\{[^}]*\}`).ReplaceAllString(r.Path,
				"3fa85f64-5717-4562-b3fc-2c963f66afa6")}
			if short := strings.TrimPrefix(paths[0], function.Prefix); strings.HasPrefix(short, "/agents") {
				paths = append(paths, short)
			}
			for _, path := range paths {
				got := "routes"
				for _, rule := range rules {
					if rule.matches(r.Method, path) {
						got = rule.service
						break
					}
				}
				if want := service[r.Name].AsString(); got != want {
					t.Errorf("%s %s goes to %s, want %s of %s", r.Method, path, got, want, r.Name)
				}
			}
		}
	})
}

// TestRulesAreWithinLimits holds what a load balancer takes: 200 rules, and five operators a template.
func TestRulesAreWithinLimits(t *testing.T) {
	t.Parallel()
	rules := load(t, nil).rules(t)
	if len(rules) == 0 || len(rules) > 200 {
		t.Errorf("%d rules: a path matcher takes 200", len(rules))
	}
	for _, r := range rules {
		if strings.Count(r.pattern, "*") > 5 {
			t.Errorf("%s: a template takes five operators", r.pattern)
		}
	}
}
