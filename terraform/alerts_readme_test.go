package terraform_test

import (
	"maps"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"
)

// TestAlerts_AreExplained holds that the README has a section for each alert and for nothing else, with a query to
// paste that is about the same.
func TestAlerts_AreExplained(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, chapter, _ := strings.Cut(string(b), "\n## Alerts\n")
	chapter, _, _ = strings.Cut(chapter, "\n## ")
	sections := map[string]string{}
	for section := range strings.SplitSeq(chapter, "\n### ") {
		title, content, _ := strings.Cut(section, "\n")
		sections[title] = content
	}
	m := alertModule(t)
	explained := map[string]bool{"The budget": true}
	alerts := maps.Clone(m.local(t, "metric_alerts").AsValueMap())
	maps.Copy(alerts, m.local(t, "log_alerts").AsValueMap())
	for name, alert := range alerts {
		title := text(t, alert, "title")
		if strings.HasPrefix(name, "silent ") {
			title = "A worker does not run"
		}
		explained[title] = true
		section, ok := sections[title]
		if !ok {
			t.Errorf("terraform/README.md has no section %q for the alert %s", title, name)
		}
		checkPasted(t, title, section, text(t, alert, "query"))
		for _, event := range m.eventsOf(t, alert) {
			if !strings.Contains(section, `"`+event+`"`) {
				t.Errorf("the section %q of terraform/README.md has no log query for the event %q", title, event)
			}
		}
	}
	for title := range sections {
		if strings.TrimSpace(title) != "" && !explained[title] && !strings.HasPrefix(title, "Paste ") {
			t.Errorf("terraform/README.md explains %q, and no alert has that title", title)
		}
	}
}

// checkPasted holds that a section has a query to paste, and that one for Metrics Explorer is about the metrics of the
// alert.
func checkPasted(t *testing.T, title, section, query string) {
	t.Helper()
	pasted := regexp.MustCompile("(?s)\n```(\\w*)\n(.*?)\n```\n").FindStringSubmatch(section)
	switch {
	case pasted == nil:
		t.Errorf("the section %q of terraform/README.md has no query to paste", title)
	case pasted[1] == "" && !strings.HasPrefix(pasted[2], "resource.type="):
		t.Errorf("the query of %q begins with no resource.type: %s", title, pasted[2])
	case pasted[1] == "promql":
		for _, s := range selectors(t, pasted[2]) {
			if !strings.Contains(query, s.Name+"{") {
				t.Errorf("the query of %q selects %s, and its alert does not", title, s.Name)
			}
		}
	}
}

// eventsOf are the events of the log that an alert is about.
func (m *module) eventsOf(t *testing.T, alert cty.Value) []string {
	t.Helper()
	about := text(t, alert, "query") + text(t, alert, "lines") // it has one of the two
	var found []string
	for event := range m.local(t, "events").AsValueMap() {
		if regexp.MustCompile(`(user_prod_|")` + event + `\b`).MatchString(about) {
			found = append(found, event)
		}
	}
	return found
}
