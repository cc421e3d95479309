//go:build unix

package terraform_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
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

// TestBootstrap_IsIdempotent runs the script twice: the second run creates nothing and keeps the operator's settings.
func TestBootstrap_IsIdempotent(t *testing.T) {
	t.Parallel()
	p := newProject(t, 100)
	first, _ := p.succeed(t.Context(), t, "bootstrap.sh", "project-1", "europe-west4", "test")
	for _, made := range []string{
		"storage buckets create gs://project-1-test-terraform", "storage buckets create gs://project-1-test-builds",
		"artifacts repositories create test", "service-accounts create test-builder",
		"service-accounts create test-deployer", "service-accounts create test-smoke",
		"secrets create test-smoke-api-key",
	} {
		if !strings.Contains(first, made) {
			t.Errorf("first run: no call %q in:\n%s", made, first)
		}
	}
	settings := filepath.Join(p.root, "terraform", "terraform.tfvars")
	p.write(t, settings, "mine", 0o600)
	second, _ := p.succeed(t.Context(), t, "bootstrap.sh", "project-1", "europe-west4", "test")
	if made := creations(second); len(made) > 0 {
		t.Errorf("second run creates resources: %s", strings.Join(made, "\n"))
	}
	if got := read(t, settings); got != "mine" {
		t.Errorf("second run overwrote the settings: %s", got)
	}
}

// TestBootstrap_CreatesNothingWhereAQuotaIsTooSmall runs the script in projects with different quotas.
func TestBootstrap_CreatesNothingWhereAQuotaIsTooSmall(t *testing.T) {
	t.Parallel()
	fresh := []string{
		"ok: SSD_TOTAL_GB (europe-west4) has 250, needs 250",
		"ok: CPUS_ALL_REGIONS (global) has 12, needs 8",
		"for a domain, raise SECURITY_POLICIES of compute.googleapis.com (global) from 0 to ",
		"ok: run.googleapis.com/cpu_allocation (europe-west4) has 20000, needs 10000",
		"ok: iam.googleapis.com/quota/service-account-count (global) has 100",
	}
	small := []string{
		"RAISE SSD_TOTAL_GB of compute.googleapis.com (europe-west4) from 200 to 250", "quotas?project=project-1",
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
		"fresh project": {room: 1, says: fresh},
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
				p.write(t, settings, "domain       = \"api.example.com\"\n", 0o600)
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
			calls, out, err := p.run(t.Context(), t, "bootstrap.sh",
				append(row.args, "project-1", "europe-west4", "test")...)
			if (err != nil) != row.refused {
				t.Fatalf("error = %v, want one: %t\n%s", err, row.refused, out)
			}
			if made := creations(calls); row.refused && len(made) > 0 {
				t.Errorf("creates %s", strings.Join(made, "\n"))
			}
			for _, want := range row.says {
				if !strings.Contains(out, want) {
					t.Errorf("does not say %q:\n%s", want, out)
				}
			}
		})
	}
}

// TestBootstrap_WaitsForWhatIsNotKnownYet runs the script where Google does not know a new API and a new account yet.
func TestBootstrap_WaitsForWhatIsNotKnownYet(t *testing.T) {
	t.Parallel()
	p := newProject(t, 100)
	p.answer(t, "refusals", "project-info describe\nadd-iam-policy-binding\nadd-iam-policy-binding\n")
	_, out := p.succeed(t.Context(), t, "bootstrap.sh", "project-1", "europe-west4", "test")
	if left := read(t, filepath.Join(p.state, "refusals")); left != "" || strings.Count(out, "slept 10") != 2 {
		t.Errorf("want two waits for an account, and no refusals left of %q:\n%s", left, out)
	}
	p = newProject(t, 100)
	p.answer(t, "refusals", strings.Repeat("add-iam-policy-binding\n", 6))
	if _, out, err := p.run(t.Context(), t, "bootstrap.sh", "project-1", "europe-west4", "test"); err == nil {
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

// TestBootstrap_GrantsEachBuildOnlyItsRights holds the rights of the accounts that run the builds.
func TestBootstrap_GrantsEachBuildOnlyItsRights(t *testing.T) {
	t.Parallel()
	calls, _ := newProject(t, 100).succeed(t.Context(), t, "bootstrap.sh", "project-1", "europe-west4", "test")
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
	calls, _ := newProject(t, 100).succeed(t.Context(), t, "bootstrap.sh", "project-1", "europe-west4", "test")
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
		"containerfilesystem": true,
		"iamcredentials":      true, "serviceusage": true, "storage": true,
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
