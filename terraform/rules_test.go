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

// TestRules_LeadToTheServiceOfEachRoute matches the path of every route against the rules in their order. The first
// match must lead to the route's service, so no template may hide a literal path.
func TestRules_LeadToTheServiceOfEachRoute(t *testing.T) {
	t.Parallel()
	everyTopology(t, func(t *testing.T, m *module) {
		rules, service := m.rules(t), m.local(t, "service_of").AsValueMap()
		for _, r := range functions.Routes(functions.Dependencies{}) {
			own, deployed := service[r.Name]
			if !deployed {
				t.Errorf("functions.json lacks %s: run go generate ./functions", r.Name)
				continue
			}
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
				if want := own.AsString(); got != want {
					t.Errorf("%s %s goes to %s, want %s of %s", r.Method, path, got, want, r.Name)
				}
			}
		}
	})
}

// TestRulesAreWithinLimits checks the limits of a URL map: 200 rules, and five operators in a template.
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
