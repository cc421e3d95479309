package config

import (
	"regexp"
	"strings"
	"testing"
)

func TestDatabaseLabel_DiffersForEveryDatabase(t *testing.T) {
	t.Parallel()
	valid := regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	seen := map[string]string{}
	for _, c := range []Common{
		{ProjectID: "prod", Database: "(default)"},
		{ProjectID: "prod", Database: "default"},
		{ProjectID: "prod", Database: "agents"},
		{ProjectID: "prod-agents", Database: "(default)"},
		{ProjectID: "example.com:prod", Database: "agents"},
		{ProjectID: strings.Repeat("p", 30), Database: strings.Repeat("d", 62) + "1"},
		{ProjectID: strings.Repeat("p", 30), Database: strings.Repeat("d", 62) + "2"},
	} {
		label, name := c.DatabaseLabel(), c.ProjectID+"/"+c.Database
		if !valid.MatchString(label) {
			t.Errorf("%s: label %q, want one that Kubernetes and Google Cloud allow", name, label)
		}
		if other, taken := seen[label]; taken {
			t.Errorf("%s and %s have the same label %q", name, other, label)
		}
		seen[label] = name
	}
	if got, want := (Common{ProjectID: "prod"}).DatabaseLabel(),
		(Common{ProjectID: "prod", Database: "(default)"}).DatabaseLabel(); got != want {
		t.Errorf("label without a database = %q, want that of the default one, %q", got, want)
	}
}
