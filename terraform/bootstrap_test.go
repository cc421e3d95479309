//go:build unix

package terraform_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/zclconf/go-cty/cty"
)

// creation is a command that creates something. Enabling an API and creating a service agent leave nothing to delete.
func creations(calls string) []string {
	var found []string
	for line := range strings.Lines(calls) {
		if strings.Contains(line, " create ") && !strings.Contains(line, "services identity create") ||
			strings.Contains(line, "versions add") {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

// twice is what bootstrap.sh did in a project that had nothing, and then again: the commands of gcloud, and the
// settings that it left. In between, the operator added the line "# mine" to them.
type twice struct{ first, out, settings, second, settingsAfter string }

var bootstrappings struct {
	sync.Mutex
	done map[string]twice // by flags of the first run
}

// bootstrapped runs bootstrap.sh twice, for all tests that only read what it did.
func bootstrapped(t *testing.T, flags ...string) twice {
	t.Helper()
	bootstrappings.Lock()
	defer bootstrappings.Unlock()
	key := strings.Join(flags, " ")
	if runs, ok := bootstrappings.done[key]; ok {
		return runs
	}
	p, args, runs := newProject(t, 100), []string{"project-1", "europe-west4", "test"}, twice{}
	runs.first, runs.out = p.succeed(t, "bootstrap.sh", append(flags, args...)...)
	path := filepath.Join(p.root, "terraform", "terraform.tfvars")
	runs.settings = read(t, path)
	p.write(t, path, runs.settings+"# mine\n", 0o600)
	runs.second, _ = p.succeed(t, "bootstrap.sh", args...)
	runs.settingsAfter = read(t, path)
	if bootstrappings.done == nil {
		bootstrappings.done = map[string]twice{}
	}
	bootstrappings.done[key] = runs
	return runs
}

// TestBootstrap_IsIdempotent holds that a second run creates nothing and keeps the operator's settings.
func TestBootstrap_IsIdempotent(t *testing.T) {
	t.Parallel()
	runs := bootstrapped(t)
	for _, made := range []string{
		"storage buckets create gs://project-1-test-terraform", "storage buckets create gs://project-1-test-builds",
		"artifacts repositories create test", "service-accounts create test-builder",
		"service-accounts create test-deployer", "service-accounts create test-smoke",
		"secrets create test-smoke-api-key",
	} {
		if !strings.Contains(runs.first, made) {
			t.Errorf("first run: no call %q in:\n%s", made, runs.first)
		}
	}
	if made := creations(runs.second); len(made) > 0 {
		t.Errorf("second run creates resources: %s", strings.Join(made, "\n"))
	}
	if got := runs.settingsAfter; got != runs.settings+"# mine\n" {
		t.Errorf("second run overwrote the settings: %s", got)
	}
}

// TestBootstrap_GoesOnFromWhatIsHalfMade runs the script where an earlier run or a deletion has left a part, and where
// a call fails, so that the script does not see what exists.
func TestBootstrap_GoesOnFromWhatIsHalfMade(t *testing.T) {
	t.Parallel()
	const serving = "objects/project-1-test-terraform/releases/serving"
	for name, row := range map[string]struct {
		answers         map[string]string
		called, wantsNo string
		refused         bool
		wantServing     string
	}{
		"a secret without a version": {
			answers: map[string]string{"secrets_test-smoke-api-key": ""},
			called:  "secrets versions add test-smoke-api-key", wantServing: "{}\n",
		},
		"a secret with an API key": {
			answers: map[string]string{"secrets_test-smoke-api-key": "", "versions-test-smoke-api-key": "7\n"},
			wantsNo: "versions add", wantServing: "{}\n",
		},
		"the versions cannot be listed": {
			answers: map[string]string{
				"secrets_test-smoke-api-key": "", "versions-test-smoke-api-key": "7\n",
				"refusals": "secrets versions list\n",
			},
			wantsNo: "versions add", refused: true, wantServing: "{}\n",
		},
		"a deleted role": {
			answers: map[string]string{"iam_roles_test_budgets": "True\n"}, called: "iam roles undelete test_budgets",
			wantsNo: "iam roles create", wantServing: "{}\n",
		},
		"a role": {
			answers: map[string]string{"iam_roles_test_budgets": "\n"}, wantsNo: "iam roles undelete",
			wantServing: "{}\n",
		},
		"what serves cannot be seen": {
			answers: map[string]string{
				"refusals": "storage objects describe gs://project-1-test-terraform/releases/serving\n",
				serving:    `{"s": "r"}`,
				"generations/project-1-test-terraform/releases/serving": "3\n",
			},
			refused: true, wantServing: `{"s": "r"}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProject(t, 100)
			for file, content := range row.answers {
				p.answer(t, file, content)
			}
			calls, out, err := p.run(t, "bootstrap.sh", "project-1", "europe-west4", "test")
			if (err != nil) != row.refused {
				t.Fatalf("error = %v, want one: %t\n%s", err, row.refused, out)
			}
			if !strings.Contains(calls, row.called) || row.wantsNo != "" && strings.Contains(calls, row.wantsNo) {
				t.Errorf("want the call %q and none of %q in:\n%s", row.called, row.wantsNo, calls)
			}
			if got := read(t, filepath.Join(p.state, serving)); got != row.wantServing {
				t.Errorf("what serves is %q, want %q", got, row.wantServing)
			}
		})
	}
}

// TestBootstrap_CreatesNothingWhereAQuotaIsTooSmall runs the script in projects with different quotas.
func TestBootstrap_CreatesNothingWhereAQuotaIsTooSmall(t *testing.T) {
	t.Parallel()
	fresh := []string{
		"RAISE SSD_TOTAL_GB of compute.googleapis.com (europe-west4) from 250 to 350",
		"ok: CPUS_ALL_REGIONS (global) has 12, needs 12",
		"for a domain, raise SECURITY_POLICIES of compute.googleapis.com (global) from 0 to ",
		"ok: run.googleapis.com/cpu_allocation (europe-west4) has 20000, needs 10000",
		"ok: iam.googleapis.com/quota/service-account-count (global) has 100",
	}
	small := []string{
		"RAISE SSD_TOTAL_GB of compute.googleapis.com (europe-west4) from 200 to 350", "quotas?project=project-1",
	}
	tooSmall := func(t *testing.T, p project) {
		p.setQuota(t, quota{service: "compute.googleapis.com", metric: "SSD_TOTAL_GB", scope: "region"}, 200, 0)
	}
	networks := quota{service: "compute.googleapis.com", metric: "NETWORKS", scope: "project"}
	armor := quota{service: "compute.googleapis.com", metric: "SECURITY_POLICIES", scope: "project"}
	cpu := quota{service: "run.googleapis.com", metric: "run.googleapis.com/cpu_allocation", scope: "region"}
	for name, row := range map[string]struct {
		room    int
		prepare func(t *testing.T, p project)
		args    []string
		refused bool
		says    []string
	}{
		"fresh project": {room: 1, refused: true, says: fresh},
		"small project": {
			room: 1, prepare: tooSmall, refused: true, says: append(small, "Nothing was created"),
		},
		"small project, skipped": {room: 1, prepare: tooSmall, args: []string{"--skip-quotas"}, says: small},
		"raised quotas":          {room: 100, says: []string{"ok: SECURITY_POLICIES (global) has 99, needs"}},
		"raised quotas, all in use": {
			room: 100, refused: true, says: []string{"RAISE NETWORKS"},
			prepare: func(t *testing.T, p project) { p.setQuota(t, networks, 5, 5) },
		},
		"raised quotas, in use by this environment": {
			room: 100, says: []string{"ok: NETWORKS (global) has 5, needs 1"},
			prepare: func(t *testing.T, p project) {
				p.setQuota(t, networks, 5, 5)
				p.answer(t, "storage_buckets_gs___project-1-test-terraform", "")
			},
		},
		"no Cloud Armor, no domain": {
			room: 100, says: []string{"for a domain, raise SECURITY_POLICIES"},
			prepare: func(t *testing.T, p project) { p.setQuota(t, armor, 0, 0) },
		},
		"no Cloud Armor, a domain": {
			room: 100, refused: true, says: []string{"RAISE SECURITY_POLICIES of compute.googleapis.com"},
			prepare: func(t *testing.T, p project) {
				p.setQuota(t, armor, 0, 0)
				settings := filepath.Join(p.root, "terraform/terraform.tfvars")
				p.write(t, settings, settingsOfTest+"domain       = \"api.example.com\"\n", 0o600)
			},
		},
		"no limit": {
			room: 100, says: []string{"cpu_allocation (europe-west4) has no limit"},
			prepare: func(t *testing.T, p project) {
				p.answer(t, "quotas-run.googleapis.com", cpu.metric+",europe-west4,-1\n")
			},
		},
		"Cloud Run is limited": {
			room: 100, refused: true, prepare: func(t *testing.T, p project) { p.setQuota(t, cpu, 9000, 0) },
			says: []string{
				"RAISE run.googleapis.com/cpu_allocation of run.googleapis.com (europe-west4) from 9000 to 10000",
			},
		},
		"quotas cannot be read": {
			room: 100, says: []string{
				"unknown: iam.googleapis.com/quota/service-account-count", "iam.googleapis.com could not be read",
			},
			prepare: func(t *testing.T, p project) {
				if err := os.Remove(filepath.Join(p.state, "quotas-iam.googleapis.com")); err != nil {
					t.Fatal(err)
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProject(t, row.room)
			if row.prepare != nil {
				row.prepare(t, p)
			}
			calls, out, err := p.run(t, "bootstrap.sh",
				append(row.args, "project-1", "europe-west4", "test")...)
			if (err != nil) != row.refused {
				t.Fatalf("error = %v, want one: %t\n%s", err, row.refused, out)
			}
			if made := creations(calls); row.refused && len(made) > 0 {
				t.Errorf("creates %s", strings.Join(made, "\n"))
			}
			wantParts(t, "the output", out, row.says...)
		})
	}
}

// TestBootstrap_WaitsForWhatIsNotKnownYet runs the script where Google does not know a new API and a new account yet.
func TestBootstrap_WaitsForWhatIsNotKnownYet(t *testing.T) {
	t.Parallel()
	p := newProject(t, 100)
	p.answer(t, "refusals", "project-info describe\nadd-iam-policy-binding\nadd-iam-policy-binding\n")
	_, out := p.succeed(t, "bootstrap.sh", "project-1", "europe-west4", "test")
	if left := read(t, filepath.Join(p.state, "refusals")); left != "" || strings.Count(out, "slept 10") != 2 {
		t.Errorf("want two waits for an account, and no refusals left of %q:\n%s", left, out)
	}
	p = newProject(t, 100)
	p.answer(t, "refusals", strings.Repeat("add-iam-policy-binding\n", 6))
	if _, out, err := p.run(t, "bootstrap.sh", "project-1", "europe-west4", "test"); err == nil {
		t.Errorf("a right that is refused ends nothing:\n%s", out)
	}
}

// grantsOf lists what the script grants to each account: the role and where.
func grantsOf(calls string) map[string][]string {
	grant := regexp.MustCompile(
		`gcloud \S+ --quiet (.*) add-iam-policy-binding (\S+) (?:--location=\S+ )?--member=serviceAccount:test-(\w+)@\S+ --role=(\S+)`)
	found := map[string][]string{}
	for _, m := range grant.FindAllStringSubmatch(calls, -1) {
		on := strings.TrimSuffix(m[1], "s")
		if m[1] != "projects" {
			on += " " + strings.TrimPrefix(m[2], "gs://")
		}
		found[m[3]] = append(found[m[3]], strings.TrimPrefix(m[4], "roles/")+" on "+on)
	}
	return found
}

// TestBootstrap_PutsTheFirstCellIntoTheRegion evaluates Terraform with the settings that bootstrap.sh wrote, after it
// had compared the quotas of this region.
func TestBootstrap_PutsTheFirstCellIntoTheRegion(t *testing.T) {
	t.Parallel()
	settings := strings.NewReplacer(`identity_issuer = ""`, `identity_issuer = "https://issuer.example"`,
		`agent_domain = ""`, `agent_domain = "agents.example.net"`).Replace(bootstrapped(t).settings)
	file, diags := hclparse.NewParser().ParseHCL([]byte(settings), "terraform.tfvars")
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	attributes, diags := file.Body.JustAttributes()
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	given := map[string]cty.Value{"image": required()["image"]}
	for name, a := range attributes {
		if given[name], diags = a.Expr.Value(nil); diags.HasErrors() {
			t.Fatal(diags)
		}
	}
	cells := loadExactly(t, given).resources(t, "google_container_cluster")
	if len(cells) != 1 {
		t.Errorf("%d clusters, want one", len(cells))
	}
	for address, c := range cells {
		if got := text(t, c, "location"); got != "europe-west4" {
			t.Errorf("the cluster %s is in %s, want europe-west4", address, got)
		}
	}
}

// TestBootstrap_ReadsWhatThereIs holds that the operator hears of a policy before an apply fails on it, and that a new
// working copy takes the settings of the last deployment.
func TestBootstrap_ReadsWhatThereIs(t *testing.T) {
	t.Parallel()
	p := newProject(t, 100)
	p.answer(t, "policy-iam.allowedPolicyMemberDomains", "[{'values': {'allowedValues': ['C0123abc']}}]\n")
	stored := filepath.Join(p.state, "objects/project-1-test-terraform/settings/terraform.tfvars")
	p.write(t, stored, settingsOfTest+"cells_project = \"cells-1\"\n", 0o600)
	calls, out := p.succeed(t, "bootstrap.sh", "project-1", "europe-west4", "test")
	const policy = "LOOK at iam.allowedPolicyMemberDomains: [{'values': {'allowedValues': ['C0123abc']}}]"
	if !strings.Contains(out, policy) || strings.Count(out, "LOOK at") != 1 {
		t.Errorf("does not report the one policy:\n%s", out)
	}
	if got := read(t, filepath.Join(p.root, "terraform/terraform.tfvars")); got != read(t, stored) {
		t.Errorf("writes other settings than those of the last deployment:\n%s", got)
	}
	if !strings.Contains(calls, "--project=cells-1") {
		t.Errorf("does not prepare the project of the cells that the settings name:\n%s", calls)
	}
}

// settingsOfTest are those by which scripts tell deployments apart.
const settingsOfTest = "project_id = \"project-1\"\nregion = \"europe-west4\"\nenvironment = \"test\"\n"

// TestBootstrap_RefusesSettingsOfAnotherDeployment runs the script where a working copy has settings that do not fit.
// It would give the deployer rights in the project of another deployment's cells, or leave out the flag without a word.
func TestBootstrap_RefusesSettingsOfAnotherDeployment(t *testing.T) {
	t.Parallel()
	const withCells = settingsOfTest + "cells_project = \"cells-1\"\n"
	for name, row := range map[string]struct {
		settings string
		flags    []string
		says     string // empty if it succeeds
	}{
		"another project": {
			settings: strings.Replace(withCells, "project-1", "project-2", 1), says: "is not of project-1",
		},
		"another region": {
			settings: strings.Replace(withCells, "west4", "west1", 1), says: "is not of europe-west4",
		},
		"another environment": {settings: strings.Replace(withCells, `"test"`, `"prod"`, 1), says: "is not of test"},
		"another project of the cells": {
			settings: withCells, flags: []string{"--cells-project=cells-2"}, says: `cells_project = "cells-1"`,
		},
		"no project of the cells": {
			settings: settingsOfTest + "cells_project = \"\"\n", flags: []string{"--cells-project=cells-2"},
			says: `cells_project = ""`,
		},
		"the same project of the cells": {settings: withCells, flags: []string{"--cells-project=cells-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProject(t, 100)
			p.write(t, filepath.Join(p.root, "terraform/terraform.tfvars"), row.settings, 0o600)
			calls, out, err := p.run(t, "bootstrap.sh",
				append(row.flags, "project-1", "europe-west4", "test")...)
			if (err != nil) != (row.says != "") || !strings.Contains(out, row.says) {
				t.Errorf("error = %v, want one: %t, which says %q\n%s", err, row.says != "", row.says, out)
			}
			if err != nil && calls != "" {
				t.Errorf("the script called\n%s\nwant nothing", calls)
			}
		})
	}
}

// TestBootstrap_WritesNoTemplateOverSettings holds that settings which could not be read are not taken for none: the
// deployer's rights in the project of the cells depend on them.
func TestBootstrap_WritesNoTemplateOverSettings(t *testing.T) {
	t.Parallel()
	const args = "--cells-project=cells-2 project-1 europe-west4 test"
	const kept = "project-1-test-terraform/settings/terraform.tfvars"
	p := newProject(t, 100)
	settings := settingsOfTest + "cells_project = \"cells-1\"\n"
	p.write(t, filepath.Join(p.state, "objects", kept), settings, 0o600)
	p.write(t, filepath.Join(p.state, "generations", kept), "1\n", 0o600)
	p.answer(t, "refusals", "storage cp gs://"+kept+"\n")
	calls, out, err := p.run(t, "bootstrap.sh", strings.Fields(args)...)
	if err == nil || !strings.Contains(out, "Run this again") || strings.Contains(calls, "add-iam-policy-binding") {
		t.Errorf("without the settings, the script ends with %v and grants\n%v\n%s", err, grantsOf(calls), out)
	}
	file := filepath.Join(p.root, "terraform/terraform.tfvars")
	if _, err := os.Stat(file); err == nil {
		t.Errorf("the script wrote\n%s", read(t, file))
	}
	p.succeed(t, "bootstrap.sh", "--cells-project=cells-1", "project-1", "europe-west4", "test")
	if got := read(t, file); got != settings {
		t.Errorf("a second run has the settings\n%s\nwant\n%s", got, settings)
	}
}

// TestBootstrap_GrantsEachBuildOnlyItsRights holds the rights of the accounts that run the builds.
func TestBootstrap_GrantsEachBuildOnlyItsRights(t *testing.T) {
	t.Parallel()
	calls := bootstrapped(t).first
	want := map[string][]string{
		"builder": {
			"artifactregistry.writer on artifacts repositorie test", "logging.logWriter on project",
			"storage.objectCreator on storage bucket project-1-test-builds",
			"storage.objectViewer on storage bucket project-1-test-builds",
		},
		"smoke": {
			"logging.logWriter on project", "secretmanager.secretAccessor on secret test-smoke-api-key",
			"storage.objectViewer on storage bucket project-1-test-builds",
		},
		"deployer": {
			"artifactregistry.reader on artifacts repositorie test", "certificatemanager.owner on project",
			"cloudscheduler.admin on project", "compute.admin on project", "container.admin on project",
			"datastore.owner on project", "dns.admin on project", "gkebackup.admin on project",
			"iam.roleAdmin on project", "iam.serviceAccountAdmin on project", "iam.serviceAccountUser on project",
			"logging.configWriter on project", "logging.logWriter on project", "monitoring.editor on project",
			"projects/project-1/roles/test_budgets on project", "pubsub.admin on project",
			"resourcemanager.projectIamAdmin on project", "run.admin on project", "secretmanager.admin on project",
			"serviceusage.serviceUsageConsumer on project", "storage.admin on storage bucket project-1-test-terraform",
		},
	}
	got := grantsOf(calls)
	for account := range maps.Keys(want) {
		slices.Sort(got[account])
		if !slices.Equal(got[account], want[account]) {
			t.Errorf("%s has\n%s\nwant\n%s", account, strings.Join(got[account], "\n"),
				strings.Join(want[account], "\n"))
		}
	}
	all := slices.Concat(slices.Collect(maps.Values(want))...)
	if n := strings.Count(calls, "add-iam-policy-binding"); len(got) != len(want) || n != len(all) {
		t.Errorf("%d grants to %d accounts, want no others than those above", n, len(got))
	}
	permissions := "billing.resourcebudgets.read,billing.resourcebudgets.write,resourcemanager.projects.get"
	if !strings.Contains(strings.ReplaceAll(calls, "\\,", ","), "--permissions="+permissions+"\n") {
		t.Errorf("the role of budgets has other permissions:\n%s", calls)
	}
}

// TestBootstrap_EnablesUsedAPIs compares the enabled APIs with the kinds of resources in Terraform.
func TestBootstrap_EnablesUsedAPIs(t *testing.T) {
	t.Parallel()
	calls := bootstrapped(t).first
	api := map[string]string{
		"billing": "billingbudgets", "certificate": "certificatemanager", "cloud": "", "compute": "compute",
		"container": "container", "dns": "dns", "firestore": "firestore", "gke": "gkebackup", "kms": "cloudkms",
		"logging": "logging", "monitoring": "monitoring", "project": "cloudresourcemanager", "pubsub": "pubsub",
		"secret": "secretmanager", "service": "iam",
	}
	special := map[string]string{"google_cloud_run": "run", "google_cloud_scheduler": "cloudscheduler"}
	// What the nodes, the services, the builds and the scripts call.
	used := map[string]bool{
		"artifactregistry": true, "cloudbuild": true, "cloudquotas": true, "cloudtrace": true,
		"containerfilesystem": true, "orgpolicy": true,
		"iamcredentials": true, "serviceusage": true, "storage": true,
	}
	for address := range load(t, nil).Blocks() {
		kind, isResource := strings.CutPrefix(address, "google_")
		if !isResource {
			continue
		}
		word, _, _ := strings.Cut(kind, "_")
		name, known := api[word]
		for prefix, of := range special {
			if strings.HasPrefix(address, prefix) {
				name = of
			}
		}
		if !known || name == "" {
			t.Errorf("%s: add its API to the table in this test", address)
		}
		used[name] = true
	}
	for name := range maps.Keys(used) {
		if !strings.Contains(calls, " "+name+".googleapis.com") {
			t.Errorf("bootstrap.sh does not enable %s.googleapis.com, which is used", name)
		}
	}
	// Google enables at most 20 APIs in a call.
	for line := range strings.Lines(calls) {
		if n := strings.Count(line, ".googleapis.com "); strings.Contains(line, "services enable") && n >= 20 {
			t.Errorf("enables %d APIs in one call", n+1)
		}
	}
}

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
	runs := bootstrapped(t, "--cells-project=cells-1")
	calls := runs.first
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
	wantParts(t, "the settings", runs.settings,
		`cells_project        = "cells-1"`, `cells_project_number = "123456789012"`)
	for _, want := range []string{"project project-1:", "project cells-1:"} {
		if !strings.Contains(runs.out, want) {
			t.Errorf("does not compare the quotas of %q:\n%s", want, runs.out)
		}
	}
	again := runs.second
	if got := rolesIn(again, "cells-1"); !slices.Equal(got, want) || len(creations(again)) > 0 {
		t.Errorf("a second run, which reads the settings, grants %q and creates %q", got, creations(again))
	}
}

// TestBootstrap_NeedsNoSecondProject holds that a deployment in one project names no other.
func TestBootstrap_NeedsNoSecondProject(t *testing.T) {
	t.Parallel()
	runs := bootstrapped(t)
	if strings.Contains(runs.first, "metricsScopesAdmin") {
		t.Errorf("grants rights of a second project:\n%s", runs.first)
	}
	if !strings.Contains(runs.settings, `cells_project        = ""`) {
		t.Errorf("the settings name a project of the cells:\n%s", runs.settings)
	}
}

// TestBootstrap_EnablesTheAPIsOfCells compares the enabled APIs with the kinds of resources in the cells' project.
func TestBootstrap_EnablesTheAPIsOfCells(t *testing.T) {
	t.Parallel()
	enabled := ""
	for line := range strings.Lines(bootstrapped(t, "--cells-project=cells-1").first) {
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
	_, out := p.succeed(t, "quotas.sh", "project-1", "europe-west4")
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
	if _, out, err := p.run(t, "quotas.sh", "project-1", "europe-west4"); err == nil ||
		!strings.Contains(out, "quotas?project=cells-1") {
		t.Errorf("a quota of the cells that is too small is no failure (%v):\n%s", err, out)
	}
}

// TestQuotas_CountEveryCellInItsRegion compares the quotas for cells as an operator may write them.
func TestQuotas_CountEveryCellInItsRegion(t *testing.T) {
	t.Parallel()
	byDefault := ""
	for it := load(t, nil).variable(t, "cells").ElementIterator(); it.Next(); {
		_, c := it.Element()
		byDefault = text(t, c, "region")
	}
	for name, row := range map[string]struct {
		settings string
		want     []string
		wantNone string
	}{
		"no cells": {
			settings: "region = \"europe-west4\"\n",
			want:     []string{"SSD_TOTAL_GB (" + byDefault + ") has 25099, needs 350"},
			wantNone: "SSD_TOTAL_GB (europe-west4) has 25099, needs 350",
		},
		"no settings": {want: []string{"SSD_TOTAL_GB (europe-west4) has 25099, needs 350"}},
		"two in the region": {
			settings: "cells = {\n  a1 = { number = 1, region = \"europe-west4\" }\n" +
				"  b1 = {\n    number = 2\n    region = \"europe-west4\" # the second\n  }\n}\n",
			want: []string{
				"SSD_TOTAL_GB (europe-west4) has 25099, needs 700", "CPUS_ALL_REGIONS (global) has 1299, needs 24",
			},
		},
		"one of two in the region, on one line": {
			settings: `cells = { "a1" = { number = 1, region = "europe-west4" }, "b1" : { "region" : "us-east1" } }` + "\n" +
				"region = \"europe-west4\"\n",
			want: []string{
				"SSD_TOTAL_GB (europe-west4) has 25099, needs 350", "SSD_TOTAL_GB (us-east1) has 25099, needs 350",
				"NETWORK_ENDPOINT_GROUPS (us-east1) has 10099, needs 6", "CPUS_ALL_REGIONS (global) has 1299, needs 24",
			},
			wantNone: "cpu_allocation (us-east1)",
		},
		"a comment": {
			settings: "# cells = { a1 = { region = \"us-east1\" } }\ncells = {\n" +
				"  a1 = { region = \"europe-west4\" }\n  # b1 = { region = \"europe-west4\" }\n}\n",
			want: []string{"SSD_TOTAL_GB (europe-west4) has 25099, needs 350"}, wantNone: "us-east1",
		},
		"no region as a text": {
			settings: "cells = var.x\n",
			want: []string{
				"no region of one could be read: one cell is assumed",
				"SSD_TOTAL_GB (europe-west4) has 25099, needs 350",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProject(t, 100)
			if row.settings != "" {
				p.write(t, filepath.Join(p.root, "terraform/terraform.tfvars"), row.settings, 0o600)
			}
			_, out := p.succeed(t, "quotas.sh", "project-1", "europe-west4")
			wantParts(t, "the output", out, row.want...)
			if row.wantNone != "" && strings.Contains(out, row.wantNone) {
				t.Errorf("the output has %q:\n%s", row.wantNone, out)
			}
		})
	}
}

// TestApplyCells_AppliesObjectsAndWaitsForThem runs the script for two cells, with a kubectl that fails.
func TestApplyCells_AppliesObjectsAndWaitsForThem(t *testing.T) {
	t.Parallel()
	require(t, "python3")
	for name, row := range map[string]struct {
		fails   string // arguments of kubectl, and how often they fail
		times   string
		applies int
		ends    bool
		closed  bool // the cell a1
		lost    bool // a1 keeps its objects
	}{
		"all is well":                   {fails: "none", applies: 2},
		"a closed cell answers late":    {fails: "readyz", times: "2", applies: 2, closed: true},
		"a closed cell does not answer": {fails: "readyz", times: "99", applies: 1, closed: true, lost: true},
		"objects are refused in a closed cell": {
			fails: "apply", times: "99", applies: 30, closed: true, ends: true,
		},
		"resources are unknown yet": {fails: "apply", times: "3", applies: 5},
		"objects are refused":       {fails: "apply", times: "99", applies: 30, ends: true},
		"a router does not start":   {fails: "deployment/agent-router", times: "1", applies: 1, ends: true},
		"a Gateway has no address":  {fails: "condition=Programmed", times: "1", applies: 1, ends: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			outputs, err := json.Marshal(map[string]any{
				"clusters": map[string]any{"value": map[string]any{
					"a1": map[string]any{
						"name": "test-a1", "region": "us-central1", "project": "cells-1", "closed": row.closed,
					},
					"b1": map[string]string{"name": "test-b1", "region": "europe-west4"},
				}},
				"cell_objects": map[string]any{
					"value": map[string]string{"a1": "objects of a1", "b1": "objects of b1"},
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			p := newProject(t, 1)
			p.answer(t, "outputs.json", string(outputs))
			next := filepath.Join(p.state, "release/next")
			p.write(t, next, "Delegate the domain.\n", 0o600)
			p.write(t, filepath.Join(p.bin, "gcloud.bash"), read(t, "testdata/gcloud.bash")+`
kubectl() {
	local command="$*" failures=0
	case $command in
		"create configmap"*) echo the list; return ;;
		create*) echo '{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}}'; return ;;
		*"-f -") cat >/dev/null; return ;;
	esac
	echo "${command%%-f *}" >>"$GCLOUD_STATE/kubectl"
	case $command in apply*) echo "$(<"${command##* }")" >>"$GCLOUD_STATE/kubectl" ;; esac
	case $command in
		*`+row.fails+`*)
			[ ! -e "$GCLOUD_STATE/failures" ] || read -r failures <"$GCLOUD_STATE/failures"
			echo "$((failures + 1))" >"$GCLOUD_STATE/failures"
			[ "$failures" -ge "`+row.times+`" ]
			;;
	esac
}
`, 0o600)
			file := filepath.Join(p.state, "outputs.json")
			calls, out, err := p.run(t, "apply-cells.sh", file, "project-1")
			if (err != nil) != row.ends {
				t.Fatalf("error = %v, want one: %t\n%s", err, row.ends, out)
			}
			did := []byte(read(t, filepath.Join(p.state, "kubectl")))
			if got := strings.Count(string(did), "apply --server-side"); got != row.applies {
				t.Errorf("%d applies, want %d:\n%s", got, row.applies, did)
			}
			if row.ends {
				return
			}
			reached, left := 2, "Delegate the domain.\n"
			if row.lost {
				reached, left = 1, left+"The cell a1 is closed and does not answer, so it keeps its objects: "+
					"deploy again once it does.\n"
			}
			if got := read(t, next); got != left {
				t.Errorf("what is left to do is %q, want %q", got, left)
			}
			for cell, place := range map[string]string{
				"a1": "--project=cells-1 --region=us-central1", "b1": "--project=project-1 --region=europe-west4",
			} {
				want := "get-credentials test-" + cell + " " + place + " --dns-endpoint"
				if !strings.Contains(calls, want) {
					t.Errorf("no call %s in:\n%s", want, calls)
				}
				lost := row.lost && cell == "a1"
				if strings.Contains(string(did), "objects of "+cell) == lost {
					t.Errorf("applies the objects of %s: %t, want %t:\n%s", cell, lost, !lost, did)
				}
				if strings.Contains(out, "cell "+cell+" is closed and does not answer") != lost {
					t.Errorf("reports that %s does not answer: %t, want %t:\n%s", cell, !lost, lost, out)
				}
			}
			for _, want := range []string{
				"deployment/agent-router", "deployment/agent-notifier", "deployment/agent-gate", "gateway/agents",
			} {
				if strings.Count(string(did), want) != reached {
					t.Errorf("does not wait for %s in each cell:\n%s", want, did)
				}
			}
		})
	}
}
