//go:build unix

package terraform_test

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// rolesIn are the roles that the deployer gets in a project.
func rolesIn(calls, project string) []string {
	grant := regexp.MustCompile(`projects add-iam-policy-binding ` + project +
		` --member=serviceAccount:test-deployer@project-1\S+ --role=(\S+)`)
	var roles []string
	for _, m := range grant.FindAllStringSubmatch(calls, -1) {
		roles = append(roles, strings.TrimPrefix(m[1], "roles/"))
	}
	slices.Sort(roles)
	return roles
}

// TestBootstrap_PreparesTheProjectOfTheCells runs the script for two projects. Only the deployer has rights in the
// second one, and none on secrets, records or services.
func TestBootstrap_PreparesTheProjectOfTheCells(t *testing.T) {
	t.Parallel()
	p := newProject(t, 100)
	calls, out := p.succeed(t.Context(), t, "bootstrap.sh", "--cells-project=cells-1", "project-1", "europe-west4",
		"test")
	want := []string{
		"certificatemanager.owner", "compute.admin", "container.admin", "gkebackup.admin", "iam.roleAdmin",
		"iam.serviceAccountAdmin", "iam.serviceAccountUser", "logging.configWriter", "monitoring.editor",
		"monitoring.metricsScopesAdmin", "projects/cells-1/roles/test_budgets", "resourcemanager.projectIamAdmin",
		"serviceusage.serviceUsageConsumer",
	}
	if got := rolesIn(calls, "cells-1"); !slices.Equal(got, want) {
		t.Errorf("in the project of the cells the deployer has\n%q\nwant\n%q", got, want)
	}
	if n := strings.Count(calls, "add-iam-policy-binding cells-1"); n != len(want) {
		t.Errorf("%d grants in the project of the cells, want %d", n, len(want))
	}
	if got := rolesIn(calls, "project-1"); !slices.Contains(got, "monitoring.metricsScopesAdmin") {
		t.Errorf("the deployer cannot read the cells' metrics in project-1: %q", got)
	}
	settings := read(t, filepath.Join(p.root, "terraform", "terraform.tfvars"))
	for _, want := range []string{`cells_project        = "cells-1"`, `cells_project_number = "123456789012"`} {
		if !strings.Contains(settings, want) {
			t.Errorf("the settings lack %s:\n%s", want, settings)
		}
	}
	for _, want := range []string{"project project-1:", "project cells-1:"} {
		if !strings.Contains(out, want) {
			t.Errorf("does not compare the quotas of %q:\n%s", want, out)
		}
	}
	again, _ := p.succeed(t.Context(), t, "bootstrap.sh", "project-1", "europe-west4", "test")
	if got := rolesIn(again, "cells-1"); !slices.Equal(got, want) || len(creations(again)) > 0 {
		t.Errorf("a second run, which reads the settings, grants %q and creates %q", got, creations(again))
	}
}

// TestBootstrap_NeedsNoSecondProject holds that a deployment in one project names no other.
func TestBootstrap_NeedsNoSecondProject(t *testing.T) {
	t.Parallel()
	p := newProject(t, 100)
	calls, _ := p.succeed(t.Context(), t, "bootstrap.sh", "project-1", "europe-west4", "test")
	if strings.Contains(calls, "metricsScopesAdmin") {
		t.Errorf("grants rights of a second project:\n%s", calls)
	}
	settings := read(t, filepath.Join(p.root, "terraform", "terraform.tfvars"))
	if !strings.Contains(settings, `cells_project        = ""`) {
		t.Errorf("the settings name a project of the cells:\n%s", settings)
	}
}

// TestBootstrap_EnablesTheAPIsOfCells compares the enabled APIs with the kinds of resources in the cells' project.
func TestBootstrap_EnablesTheAPIsOfCells(t *testing.T) {
	t.Parallel()
	calls, _ := newProject(t, 100).succeed(t.Context(), t, "bootstrap.sh", "--cells-project=cells-1", "project-1",
		"europe-west4", "test")
	enabled := ""
	for line := range strings.Lines(calls) {
		if strings.HasPrefix(line, "gcloud --project=cells-1 ") && strings.Contains(line, "services enable") {
			enabled += line
		}
	}
	api := map[string]string{
		"certificate": "certificatemanager", "compute": "compute", "container": "container", "gke": "gkebackup",
		"logging": "logging", "monitoring": "monitoring", "project": "cloudresourcemanager", "service": "iam",
	}
	// What the nodes and the scripts call.
	used := map[string]bool{"containerfilesystem": true, "cloudquotas": true, "serviceusage": true}
	m := load(t, separateCells())
	for _, typ := range m.Types() {
		for address, v := range m.resources(t, typ) {
			if projectOfResource(t, v) != "my-cells" {
				continue
			}
			word, _, _ := strings.Cut(strings.TrimPrefix(typ, "google_"), "_")
			if api[word] == "" {
				t.Errorf("%s.%s: add its API to the table in this test", typ, address)
			}
			used[api[word]] = true
		}
	}
	for name := range used {
		if !strings.Contains(enabled, " "+name+".googleapis.com") {
			t.Errorf("bootstrap.sh does not enable %s.googleapis.com in the project of the cells", name)
		}
	}
}

// TestQuotas_AreComparedWhereTheyAreNeeded runs the comparison for two projects. Nodes need CPUs in the cells' project
// only, Cloud Run in the control plane's only.
func TestQuotas_AreComparedWhereTheyAreNeeded(t *testing.T) {
	t.Parallel()
	p := newProject(t, 100)
	p.write(t, filepath.Join(p.root, "terraform/terraform.tfvars"), "cells_project = \"cells-1\"\n", 0o600)
	_, out := p.succeed(t.Context(), t, "quotas.sh", "project-1", "europe-west4")
	services, cells, _ := strings.Cut(out, "project cells-1:")
	for metric, want := range map[string][2]bool{
		"CPUS_ALL_REGIONS": {false, true}, "SSD_TOTAL_GB": {false, true}, "cpu_allocation": {true, false},
		"SSL_POLICIES": {true, true}, "NETWORKS": {false, true},
	} {
		got := [2]bool{strings.Contains(services, metric), strings.Contains(cells, metric)}
		if got != want {
			t.Errorf("%s is compared in the projects of services and cells: %t, want %t\n%s", metric, got, want, out)
		}
	}
	p.setQuota(t, quota{service: "compute.googleapis.com", metric: "SSD_TOTAL_GB", scope: "region"}, 200, 0)
	if _, out, err := p.run(t.Context(), t, "quotas.sh", "project-1", "europe-west4"); err == nil ||
		!strings.Contains(out, "quotas?project=cells-1") {
		t.Errorf("a quota of the cells that is too small is no failure (%v):\n%s", err, out)
	}
}
