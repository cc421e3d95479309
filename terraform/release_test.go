//go:build unix

package terraform_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"agents.example/controlplane/emulators/cluster"
	"agents.example/controlplane/emulators/clustertest"
	"agents.example/controlplane/shared/testtier"
)

// otherCopy returns another working copy of the same deployment, without the settings.
func (p project) otherCopy(t *testing.T) project {
	t.Helper()
	other := newDeployment(t)
	other.state = p.state
	for _, name := range []string{"terraform.tfvars", "backend.tf", ".terraform.lock.hcl", "build/images.lock"} {
		removeFile(t, other, filepath.Join("terraform", name))
	}
	return other
}

// TestDeploy_KeepsSettingsForOtherCopies deploys from two working copies: one without settings takes those of the
// last deployment, and a difference is shown before it is used.
func TestDeploy_KeepsSettingsForOtherCopies(t *testing.T) {
	t.Parallel()
	args := []string{"--skip-quotas", "project-1", "europe-west4", "test"}
	first := newDeployment(t)
	first.succeed(t, "deploy.sh", args...)
	settings := filepath.Join(first.root, "terraform/terraform.tfvars")

	second := first.otherCopy(t)
	second.succeed(t, "deploy.sh", args...)
	for _, name := range []string{"terraform.tfvars", "backend.tf", ".terraform.lock.hcl", "build/images.lock"} {
		got := read(t, filepath.Join(second.root, "terraform", name))
		if got != read(t, filepath.Join(first.root, "terraform", name)) {
			t.Errorf("the second copy has another %s: %s", name, got)
		}
	}

	changed := read(t, settings) + "domain = \"api.example.com\"\n"
	first.write(t, settings, changed, 0o600)
	number := refusedSettings(t, first, `+domain = "api.example.com"`, args)
	other := append([]string{"--settings=1"}, args...)
	if calls, _, err := first.run(t, "deploy.sh", other...); err == nil || len(submissions(t, calls)) > 0 {
		t.Errorf("the number of another difference is accepted")
	}
	first.succeed(t, "deploy.sh", append([]string{"--settings=" + number}, args...)...)
	refusedSettings(t, second, `-domain = "api.example.com"`, args)
}

// TestDeploy_GoesOnAfterItsFirstUpload repeats a first deployment that died when it had kept its settings only, also
// from another working copy.
func TestDeploy_GoesOnAfterItsFirstUpload(t *testing.T) {
	t.Parallel()
	args := []string{"--skip-quotas", "project-1", "europe-west4", "test"}
	p := newDeployment(t)
	p.answer(t, "refusals", "storage cp terraform/backend.tf\n")
	if _, out, err := p.run(t, "deploy.sh", args...); err == nil {
		t.Fatalf("the deployment has not died:\n%s", out)
	}
	p.succeed(t, "deploy.sh", args...)
	p.otherCopy(t).succeed(t, "deploy.sh", args...)
}

// TestDeploy_EndsWithoutTheLastSettings holds that a deployment which cannot read the settings of the last one ends
// before its tests. Others replace one generation of the settings after the other.
func TestDeploy_EndsWithoutTheLastSettings(t *testing.T) {
	t.Parallel()
	args := []string{"--skip-quotas", "project-1", "europe-west4", "test"}
	p := newDeployment(t)
	p.succeed(t, "deploy.sh", args...)
	settings := filepath.Join(p.root, "terraform/terraform.tfvars")
	p.answer(t, "refusals", "storage objects\n")
	calls, out, err := p.run(t, "deploy.sh", args...)
	if got := configs(submissions(t, calls)); err == nil || len(got) > 0 {
		t.Errorf("without the last settings, builds = %q, error = %v, want none and an error\n%s", got, err, out)
	}
	for _, change := range []string{"debug = true", "maintenance = true"} {
		p.write(t, settings, read(t, settings)+change+"\n", 0o600)
		number := refusedSettings(t, p, "+"+change, args)
		p.succeed(t, "deploy.sh", append([]string{"--settings=" + number}, args...)...)
	}
}

// TestDeploy_SharesNoNameWithAnother begins two deployments in the same second. The files of the first one stay.
func TestDeploy_SharesNoNameWithAnother(t *testing.T) {
	t.Parallel()
	args := []string{"--skip-quotas", "--image=" + imageOfBuild, "project-1", "europe-west4", "test"}
	p := newDeployment(t)
	p.write(t, filepath.Join(p.bin, "date"), "#!/bin/sh\necho 20260102-030405\n", 0o755)
	p.succeed(t, "deploy.sh", append([]string{"--allow=first"}, args...)...)
	calls, out, err := p.run(t, "deploy.sh", append([]string{"--allow=second"}, args...)...)
	if got := configs(submissions(t, calls)); err == nil || len(got) > 0 {
		t.Errorf("the second one has the builds %q, error = %v, want none and an error\n%s", got, err, out)
	}
	allowed := filepath.Join(p.state, "objects/project-1-test-terraform/releases/20260102-030405/allowed")
	if got := read(t, allowed); got != "first\n" {
		t.Errorf("the first deployment may destroy %q, want what it was given", got)
	}
}

// TestDeploy_PinsWhatAReleaseRaised holds that builds run what the repository names, although the locks are kept with
// the settings of the last deployment. A roll-back asks no registry.
func TestDeploy_PinsWhatAReleaseRaised(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ file, from, to string }{
		"image":    {file: "terraform/build/images", from: "_GO go\n", to: "_GO go:2\n"},
		"provider": {file: "terraform/versions.tf", from: `version = "~> `, to: `version = "~> 1`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := []string{"--skip-quotas", "project-1", "europe-west4", "test"}
			p := newDeployment(t)
			p.write(t, filepath.Join(p.root, "terraform/lock.sh"), `#!/bin/sh -e
cd "${0%/*}"
echo pinned
printf '_GO=go:2@sha256:9\n_TERRAFORM=terraform@sha256:2\n_CLOUD_SDK=sdk@sha256:3\n' >build/images.lock
`, 0o755)
			if _, out := p.succeed(t, "deploy.sh", args...); strings.Contains(out, "pinned") {
				t.Errorf("pins what the repository names already:\n%s", out)
			}
			raised := filepath.Join(p.root, row.file)
			p.write(t, raised, strings.Replace(read(t, raised), row.from, row.to, 1), 0o600)
			back := append([]string{"--serve=20260101-000000"}, args...)
			if _, out := p.succeed(t, "deploy.sh", back...); strings.Contains(out, "pinned") {
				t.Errorf("a roll-back pins versions:\n%s", out)
			}
			calls, out := p.succeed(t, "deploy.sh", args...)
			for _, s := range submissions(t, calls) {
				if got, ok := s.substitutions["_GO"]; ok && got != "go:2@sha256:9" {
					t.Errorf("%s runs %s, want what lock.sh pins\n%s", s.config, got, out)
				}
			}
		})
	}
}

// refusedSettings runs a deployment that must end before its first build, and returns the number of the difference.
func refusedSettings(t *testing.T, p project, says string, args []string) (number string) {
	t.Helper()
	calls, out, err := p.run(t, "deploy.sh", args...)
	if err == nil || len(submissions(t, calls)) > 0 || !strings.Contains(out, says) {
		t.Fatalf("settings that differ are used without %q (%v):\n%s", says, err, out)
	}
	found := regexp.MustCompile(`--settings=(\d+)`).FindStringSubmatch(out)
	if found == nil {
		t.Fatalf("prints no number:\n%s", out)
	}
	return found[1]
}

// TestDeploy_RefusesSettingsThatChangedMeanwhile lets another operator deploy while the tests of this one run: with
// other settings, which this one would replace or take back, or with the same ones.
func TestDeploy_RefusesSettingsThatChangedMeanwhile(t *testing.T) {
	t.Parallel()
	args := []string{"--skip-quotas", "project-1", "europe-west4", "test"}
	for name, row := range map[string]struct{ mine, others, says string }{
		"both change them":      {mine: "debug = true\n", others: "maintenance = true\n", says: "412"},
		"the other one changes": {others: "maintenance = true\n", says: "have changed since this one began"},
		"no one changes them":   {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newDeployment(t)
			p.succeed(t, "deploy.sh", args...)
			settings := filepath.Join(p.root, "terraform/terraform.tfvars")
			former := read(t, settings)
			with := args
			if row.mine != "" {
				p.write(t, settings, former+row.mine, 0o600)
				with = append([]string{"--settings=" + refusedSettings(t, p, "+"+row.mine, args)}, args...)
			}
			p.answer(t, "others", former+row.others)
			p.write(t, filepath.Join(p.bin, "date"), `#!/bin/sh
kept=project-1-test-terraform/settings/terraform.tfvars
cp "$GCLOUD_STATE/others" "$GCLOUD_STATE/objects/$kept"
echo 7 >"$GCLOUD_STATE/generations/$kept"
echo 20260102-030405
`, 0o755)
			calls, out, err := p.run(t, "deploy.sh", with...)
			if (err != nil) != (row.says != "") || !strings.Contains(out, row.says) {
				t.Fatalf("error = %v, want one: %t, which says %q\n%s", err, row.says != "", row.says, out)
			}
			if got := configs(submissions(t, calls)); err != nil && len(got) != 1 {
				t.Errorf("builds = %q, want none after the first", got)
			}
			if keeps := strings.Contains(calls, "images.lock gs://"); keeps != (err == nil) {
				t.Errorf("a deployment that ends with %v keeps its versions: %t", err, keeps)
			}
		})
	}
}

// TestDeploy_RefusesWhatWasEditedMeanwhile edits the working copy while the tests run: the settings, whose difference
// was not shown, and what the second build runs, which is of another commit than the image then.
func TestDeploy_RefusesWhatWasEditedMeanwhile(t *testing.T) {
	t.Parallel()
	args := []string{"--skip-quotas", "project-1", "europe-west4", "test"}
	for name, row := range map[string]struct {
		edits  string // a file below the working copy
		passes bool
	}{
		"the settings":        {edits: "terraform/terraform.tfvars"},
		"a file of Terraform": {edits: "terraform/quotas.csv"},
		"a program":           {edits: "functions/main.go", passes: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newDeployment(t)
			p.write(t, filepath.Join(p.root, "functions/main.go"), "", 0o600)
			p.commit(t, "2026-01-02T03:04:05Z")
			script := "#!/bin/sh\necho 'debug = true' >>'" + filepath.Join(p.root, row.edits) + "'\n"
			p.write(t, filepath.Join(p.state, "build-cloudbuild.yaml"), script, 0o755)
			calls, out, err := p.run(t, "deploy.sh", args...)
			if (err == nil) != row.passes {
				t.Errorf("error = %v, want one: %t\n%s", err, !row.passes, out)
			}
			if row.passes {
				return
			}
			if !strings.Contains(out, "deploy it with --image="+imageOfBuild) {
				t.Errorf("does not name the image:\n%s", out)
			}
			if got := configs(submissions(t, calls)); len(got) != 1 {
				t.Errorf("builds = %q, want none after the first", got)
			}
			kept := filepath.Join(p.state, "objects/project-1-test-terraform/settings/terraform.tfvars")
			if b, err := os.ReadFile(kept); err == nil {
				t.Errorf("the settings %q are kept as those of the last deployment", b)
			}
		})
	}
}

// TestDeploy_WaitsForAnotherOne deploys while the second build of another deployment runs, which applies objects to the
// cells until it ends: of two such builds, the older one could end last. The settings are compared after that.
func TestDeploy_WaitsForAnotherOne(t *testing.T) {
	t.Parallel()
	p := newDeployment(t)
	p.answer(t, "ongoing", "20260101-000000\n20260101-000000\n")
	calls, out := p.succeed(t, "deploy.sh", "project-1", "europe-west4", "test")
	const waits = "Waiting for the deployment of release 20260101-000000, which runs.\nslept 60\n"
	if got := strings.Count(out, waits); got != 2 {
		t.Errorf("%d waits, want two\n%s", got, out)
	}
	looked := strings.LastIndex(calls, "builds list --ongoing")
	kept := strings.Index(calls, "storage cp terraform/terraform.tfvars")
	submitted := strings.Index(calls, "deploy.yaml")
	if looked < 0 || looked > kept || kept > submitted {
		t.Errorf("want a look at builds, the settings and the build in this order:\n%s", calls)
	}
	p.answer(t, "refusals", "builds list\n")
	calls, out, err := p.run(t, "deploy.sh", "project-1", "europe-west4", "test")
	if err == nil || len(submissions(t, calls)) != 1 {
		t.Errorf("a deployment that cannot look goes on (%v):\n%s", err, out)
	}
}

// applying is a workspace of the build, with a Terraform that fails some times and finds that it would destroy things.
func applying(t *testing.T, fails string, destroyed ...string) (p project, workspace string) {
	t.Helper()
	p, workspace = newProject(t, 1), t.TempDir()
	p.answer(t, "destroyed", strings.Join(append([]string{"<<EOT", "", ""}, append(destroyed, "EOT", "")...), "\n"))
	p.answer(t, "unproven", `""`)
	for name, content := range map[string]string{"former.json": "{}", "serving": `{"s": "r"}`, "allowed": "\n"} {
		p.write(t, filepath.Join(workspace, name), content, 0o600)
	}
	p.write(t, filepath.Join(p.bin, "terraform"), `#!/bin/sh -e
echo "$1" >>"$GCLOUD_STATE/terraform"
n=$(grep -c "^$1$" "$GCLOUD_STATE/terraform")
case "$1 $n ${2:-}" in `+strings.ReplaceAll(fails, " ", `\ `)+`*) exit 1 ;; esac
[ "$1" != init ] || [ "$2" = -lockfile=readonly ]
case $1 in
	plan) [ "$2" = "-out=`+workspace+`/plan" ] && echo "$TF_VAR_release $TF_VAR_serving" >"`+workspace+`/plan" ;;
	show) cat "$3" ;;
	console) case $PWD in */plan.d) cat "$GCLOUD_STATE/destroyed" ;; *) cat "$GCLOUD_STATE/unproven" ;; esac ;;
	apply) mv "$2" "$GCLOUD_STATE/applied" ;;
	output) printf %s "${2#-}-${3:-}" ;;
esac
`, 0o755)
	return p, workspace
}

// runApply runs the script as the build does.
func (p project) runApply(t *testing.T, workspace string) (out string, err error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(p.root, "terraform/apply.sh"), workspace)
	cmd.Env = append(os.Environ(), "PATH="+p.bin+":"+os.Getenv("PATH"), "GCLOUD_STATE="+p.state,
		"RELEASE=20260102-030405", "TF_VAR_image=image@sha256:1", "TF_CLI_CONFIG_FILE=/dev/null")
	b, err := cmd.CombinedOutput()
	return string(b), err
}

// TestApply_RepeatsPlanAndApply runs the script with a Terraform that fails some times.
func TestApply_RepeatsPlanAndApply(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		fails   string
		applies int
		ends    bool
		release string
	}{
		"it succeeds":            {fails: "none", applies: 1, release: "1"},
		"one apply fails":        {fails: "apply 1", applies: 2, release: "2"},
		"one plan fails":         {fails: "plan 1", applies: 1, release: "2"},
		"two applies fail":       {fails: "apply [12]", applies: 3, release: "3"},
		"every apply fails":      {fails: "apply ?", applies: 3, ends: true},
		"init fails":             {fails: "init ?", applies: 0, ends: true},
		"a plan cannot be read":  {fails: "show ?", applies: 0, ends: true},
		"cells cannot be read":   {fails: "console 1", applies: 0, ends: true},
		"no address can be read": {fails: "console 2", applies: 0, ends: true},
		"an output is not there": {fails: "output 4", applies: 1, ends: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, workspace := applying(t, row.fails)
			out, err := p.runApply(t, workspace)
			if (err != nil) != row.ends {
				t.Fatalf("error = %v, want one: %t\n%s", err, row.ends, out)
			}
			if got := strings.Count(read(t, filepath.Join(p.state, "terraform")), "apply\n"); got != row.applies {
				t.Errorf("%d applies, want %d\n%s", got, row.applies, out)
			}
			if _, missing := os.Stat(filepath.Join(workspace, "applied")); (missing == nil) == row.ends {
				t.Errorf("the build goes on to the cells: %t, want %t", missing == nil, !row.ends)
			}
			if err != nil {
				return
			}
			want := "base_url raw-base_url\napi_address raw-api_address\napi_certificate raw-api_certificate\n" +
				"candidate_url raw-candidate_url\nmaintenance raw-maintenance\n"
			if got := read(t, filepath.Join(workspace, "release/deployment")); got != want {
				t.Errorf("keeps %q, want %q", got, want)
			}
			want = "20260102-030405-" + row.release + ` {"s": "r"}` + "\n"
			if got := read(t, filepath.Join(p.state, "applied")); got != want {
				t.Errorf("applies the release and the traffic %q, want %q", got, want)
			}
		})
	}
}

// TestApply_DestroysOnlyWhatWasNamed runs the script with plans that destroy things.
func TestApply_DestroysOnlyWhatWasNamed(t *testing.T) {
	t.Parallel()
	const index, topic = `google_firestore_index.this["agents status"]`, `google_pubsub_topic.this["x"]`
	for name, row := range map[string]struct {
		allowed, unproven string
		refused           []string
	}{
		"nothing is named":       {allowed: "\n", refused: []string{index, topic}},
		"one is named":           {allowed: index + "\n", refused: []string{topic}},
		"all are named":          {allowed: topic + "\n" + index + "\n"},
		"a prefix is named":      {allowed: "google_firestore_index.*\n", refused: []string{topic}},
		"everything is named":    {allowed: "*\n"},
		"a part is named":        {allowed: "google_pubsub_topic.this\n", refused: []string{index, topic}},
		"an open cell is new":    {allowed: "*\n", unproven: `"b1"`, refused: []string{`"b1"`, "closed = true"}},
		"an address is a prefix": {allowed: topic + "*\n", refused: []string{index}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, workspace := applying(t, "none", index, topic)
			p.write(t, filepath.Join(workspace, "allowed"), row.allowed, 0o600)
			if row.unproven != "" {
				p.answer(t, "unproven", row.unproven)
			}
			out, err := p.runApply(t, workspace)
			if (err != nil) != (row.refused != nil) {
				t.Fatalf("error = %v, want one: %t\n%s", err, row.refused != nil, out)
			}
			for _, address := range []string{index, topic, `"b1"`, "closed = true"} {
				want := false
				for _, refused := range row.refused {
					want = want || refused == address
				}
				if strings.Contains(out, address) != want {
					t.Errorf("names %s: %t, want %t\n%s", address, !want, want, out)
				}
			}
			applied := strings.Contains(read(t, filepath.Join(p.state, "terraform")), "apply")
			if applied == (err != nil) {
				t.Errorf("applies: %t", applied)
			}
		})
	}
}

// TestApply_ReadsPlansOfTerraform runs the script with Terraform itself, in a module that needs no provider.
func TestApply_ReadsPlansOfTerraform(t *testing.T) {
	t.Parallel()
	testtier.RequireFull(t, "runs Terraform")
	require(t, "terraform")
	p, workspace := newProject(t, 1), t.TempDir()
	module := func(generation, cells string, resources ...string) {
		text := read(t, "testdata/module.tf.txt")
		for _, name := range resources {
			text += "resource \"terraform_data\" \"" + name + "\" {\n  for_each         = toset([\"a b\"])\n" +
				"  triggers_replace = " + generation + "\n}\n"
		}
		p.write(t, filepath.Join(p.root, "terraform/main.tf"), text, 0o600)
		p.write(t, filepath.Join(p.root, "terraform/terraform.tfvars"), "cells = "+cells+"\n", 0o600)
	}
	apply := func(allowed string, refused ...string) {
		t.Helper()
		for name, content := range map[string]string{"serving": "{}", "allowed": allowed + "\n"} {
			p.write(t, filepath.Join(workspace, name), content, 0o600)
		}
		if err := os.RemoveAll(filepath.Join(workspace, "release")); err != nil {
			t.Fatal(err)
		}
		out, err := p.runApply(t, workspace)
		if (err != nil) != (len(refused) > 0) {
			t.Fatalf("error = %v, want one about %q:\n%s", err, refused, out)
		}
		wantParts(t, "the output", out, refused...)
	}
	p.write(t, filepath.Join(workspace, "former.json"), "{}", 0o600)
	module("1", `{ "a1" = {} }`, "kept", "dropped")
	apply("")
	p.write(t, filepath.Join(workspace, "former.json"), read(t, filepath.Join(workspace, "outputs.json")), 0o600)
	apply("") // nothing changes
	module("2", `{ "a1" = {} }`, "kept")
	apply("", `--allow='terraform_data.dropped["a b"]'`, `--allow='terraform_data.kept["a b"]'`)
	apply(`terraform_data.dropped["a b"]`, `--allow='terraform_data.kept["a b"]'`)
	apply("terraform_data.*")
	module("2", `{ "a1" = {}, "b1" = {} }`, "kept")
	apply("", `These cells are new: "b1".`)
	module("2", `{ "a1" = {}, "b1" = { closed = true } }`, "kept")
	apply("")
	got := read(t, filepath.Join(workspace, "release/revisions"))
	if !strings.Contains(got, "test-routes-20260102-030405-1") {
		t.Errorf("the revisions are of %s", got)
	}
}

// TestApply_AppliesNoPlanThatItCannotRead lets Terraform write something else than a plan.
func TestApply_AppliesNoPlanThatItCannotRead(t *testing.T) {
	t.Parallel()
	testtier.RequireFull(t, "runs Terraform")
	terraform := require(t, "terraform")
	p, workspace := newProject(t, 1), t.TempDir()
	p.write(t, filepath.Join(p.bin, "terraform"), "#!/bin/sh\n[ \"$1\" != show ] || { echo '{'; exit; }\n"+
		"exec "+terraform+" \"$@\"\n", 0o755)
	p.write(t, filepath.Join(p.root, "terraform/main.tf"), read(t, "testdata/module.tf.txt"), 0o600)
	p.write(t, filepath.Join(p.root, "terraform/terraform.tfvars"), "cells = { a1 = {} }\n", 0o600)
	for name, content := range map[string]string{"serving": "{}", "allowed": "\n", "former.json": "{}"} {
		p.write(t, filepath.Join(workspace, name), content, 0o600)
	}
	out, err := p.runApply(t, workspace)
	if err == nil || strings.Contains(out, "Apply complete") {
		t.Errorf("applies a plan whose changes it does not know (%v):\n%s", err, out)
	}
}

// TestServe_DirectsTheTraffic runs the script for a release of two services.
func TestServe_DirectsTheTraffic(t *testing.T) {
	t.Parallel()
	const former, other = `{"a": "a-0", "b": "b-0"}`, `{"a": "a-9", "b": "b-9"}`
	const revisions = `{"a": "a-20260102-030405-1", "b": "b-20260102-030405-1"}`
	const a, b = "a-20260102-030405-1", "b-20260102-030405-1"
	for name, row := range map[string]struct {
		answers string // what the API answers
		refuses string // a command of gcloud that fails
		other   string // another deployment directs the traffic to these
		ends    bool
		serving string // the next deployment leaves the traffic there
		a, b    string // what serves
		gone    string // a revision that was deleted
		says    string // of the failure
	}{
		"all is well": {answers: a, serving: revisions, a: a, b: b},
		"a revision is gone": {
			answers: a, gone: b, ends: true, serving: former, says: "Deploy its commit and its image.",
		},
		"a revision cannot be read": {
			answers: a, refuses: "revisions describe b", ends: true, serving: former, says: "Repeat it with --serve=",
		},
		"a service refuses":          {answers: a, refuses: "update-traffic b", ends: true, serving: revisions, a: a},
		"another release answers":    {answers: "a-20260101-030405-1", ends: true, serving: revisions, a: a, b: b},
		"nothing answers":            {ends: true, serving: revisions, a: a, b: b},
		"the release is not there":   {refuses: "storage cp", ends: true, serving: former},
		"another one is directed to": {answers: a, other: other, ends: true, serving: other, a: "a-9", b: "b-9"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProject(t, 1)
			const record = "objects/state/releases/serving"
			p.write(t, filepath.Join(p.state, record), former, 0o600)
			p.write(t, filepath.Join(p.state, "objects/state/releases/20260102-030405/revisions"), revisions, 0o600)
			p.answer(t, "refusals", row.refuses)
			p.answer(t, "gone-"+row.gone, "")
			if row.other != "" {
				p.answer(t, "directed", row.other)
			}
			p.write(t, filepath.Join(p.bin, "curl"), `#!/bin/sh
echo "$*" >"$GCLOUD_STATE/curl"
[ -n "`+row.answers+`" ] && echo '{"status":"ok","revision":"`+row.answers+`"}'
`, 0o755)
			_, out, err := p.run(t, "serve.sh", "gs://state/releases", "project-1", "europe-west4",
				"20260102-030405", "https://api.example.com", "192.0.2.1")
			if (err != nil) != row.ends {
				t.Fatalf("error = %v, want one: %t\n%s", err, row.ends, out)
			}
			if !strings.Contains(out, row.says) {
				t.Errorf("does not say %q:\n%s", row.says, out)
			}
			if got := read(t, filepath.Join(p.state, record)); got != row.serving {
				t.Errorf("the next deployment leaves the traffic at %s, want %s", got, row.serving)
			}
			for service, want := range map[string]string{"a": row.a, "b": row.b} {
				got, _ := os.ReadFile(filepath.Join(p.state, "traffic-"+service)) // a file that is not there: no call
				if strings.TrimSpace(string(got)) != want {
					t.Errorf("%s serves as %q, want %q", service, got, want)
				}
			}
			if row.ends {
				return
			}
			if got := read(t, filepath.Join(p.state, "curl")); !strings.Contains(got, "--connect-to ::192.0.2.1:443") {
				t.Errorf("calls %s, want the address of the load balancer", got)
			}
		})
	}
}

// TestServe_RecordsBeforeItDirects holds the order by which a deployment that runs at the same time, or a death, leaves
// nothing that the next look at the record does not repair.
func TestServe_RecordsBeforeItDirects(t *testing.T) {
	t.Parallel()
	p := newProject(t, 1)
	p.write(t, filepath.Join(p.state, "objects/state/releases/serving"), `{"a": "a-1"}`, 0o600)
	p.write(t, filepath.Join(p.state, "objects/state/releases/2/revisions"), `{"a": "a-2-1"}`, 0o600)
	p.write(t, filepath.Join(p.bin, "curl"), "#!/bin/sh\necho a-2-1\n", 0o755)
	calls, _ := p.succeed(t, "serve.sh", "gs://state/releases", "project-1", "europe-west4", "2",
		"https://api.example.com")
	recorded := regexp.MustCompile(`storage cp \S+/wanted gs://state/releases/serving`).FindStringIndex(calls)
	directed := strings.Index(calls, "update-traffic")
	if recorded == nil || directed < recorded[0] {
		t.Errorf("the traffic is directed before the record says where to:\n%s", calls)
	}
}

// TestServe_RepairsTheTrafficAfterAnApply runs the script after a deployment has applied what served at its beginning,
// in whole or in part.
func TestServe_RepairsTheTrafficAfterAnApply(t *testing.T) {
	t.Parallel()
	const first, second = `{"a": "a-1", "b": "b-1"}`, `{"a": "a-2", "b": "b-2"}`
	for name, row := range map[string]struct {
		serving string // now
		half    bool   // the apply failed
		refuses string // a command of gcloud that fails
		ends    bool
		directs []string
		says    string
	}{
		"the same release serves":     {serving: first},
		"another release serves":      {serving: second, directs: []string{"a=a-2", "b=b-2"}},
		"half an apply":               {serving: first, half: true, ends: true, says: "The step apply failed."},
		"half an apply of another":    {serving: second, half: true, ends: true, directs: []string{"a=a-2", "b=b-2"}},
		"a service refuses":           {serving: second, refuses: "update-traffic b", ends: true, says: "--serve="},
		"what serves cannot be known": {serving: second, refuses: "storage cp", ends: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, workspace := newProject(t, 1), t.TempDir()
			p.write(t, filepath.Join(workspace, "serving"), first, 0o600)
			if !row.half {
				p.write(t, filepath.Join(workspace, "applied"), "", 0o600)
			}
			const record = "objects/state/releases/serving"
			p.write(t, filepath.Join(p.state, record), row.serving, 0o600)
			p.answer(t, "refusals", row.refuses)
			calls, out, err := p.run(t, "serve.sh", "--after="+workspace, "gs://state/releases",
				"project-1", "europe-west4")
			if (err != nil) != row.ends || !strings.Contains(out, row.says) {
				t.Fatalf("error = %v, want one: %t, and %q\n%s", err, row.ends, row.says, out)
			}
			if got := read(t, filepath.Join(p.state, record)); got != row.serving {
				t.Errorf("what serves = %s, want it as it was: %s", got, row.serving)
			}
			if row.refuses != "" {
				return
			}
			if got := strings.Count(calls, "update-traffic"); got != len(row.directs) {
				t.Errorf("%d services were directed, want %d:\n%s", got, len(row.directs), calls)
			}
			for _, d := range row.directs {
				service, revision, _ := strings.Cut(d, "=")
				want := "update-traffic " + service + " --region=europe-west4 --to-revisions=" + revision + "=100"
				if !strings.Contains(calls, want) {
					t.Errorf("no call %s in:\n%s", want, calls)
				}
			}
		})
	}
}

// TestApplyCells_LeavesNothingOfAnotherRelease deploys a release with further objects to a cluster, and then the former
// one again: after a deployment that ended, and after one that died when it had applied all of the objects, also the
// first one of the cluster.
func TestApplyCells_LeavesNothingOfAnotherRelease(t *testing.T) {
	t.Parallel()
	testtier.RequireFull(t, "runs kubectl")
	kubectl := require(t, "kubectl")
	c := clustertest.Start(t, cluster.Options{Kind: cluster.Embedded}) // what scripts do to it is the same
	p := newProject(t, 1)
	p.write(t, filepath.Join(p.bin, "gcloud.bash"), `gcloud() { cp '`+c.Kubeconfig+`' "$KUBECONFIG"; }`, 0o600)
	p.write(t, filepath.Join(p.bin, "kubectl"), `#!/bin/sh -e
case "$1" in rollout | wait) exit ;; esac
`+kubectl+` "$@"
case "$*" in apply*/a1.yaml) [ ! -e "$GCLOUD_STATE/dies" ] || kill -9 $PPID ;; esac
`, 0o755)
	deploy := func(objects ...string) (out string, err error) {
		t.Helper()
		clusters := map[string]any{"a1": map[string]string{"name": "a1", "region": "r"}}
		b, err := json.Marshal(map[string]any{
			"clusters":     map[string]any{"value": clusters},
			"cell_objects": map[string]any{"value": map[string]string{"a1": strings.Join(objects, "\n---\n")}},
		})
		if err != nil {
			t.Fatal(err)
		}
		p.answer(t, "outputs.json", string(b))
		_, out, err = p.run(t, "apply-cells.sh", filepath.Join(p.state, "outputs.json"), "project-1")
		return out, err
	}
	const core, rbac = "apiVersion: v1\nkind: ", "apiVersion: rbac.authorization.k8s.io/v1\nkind: "
	former := []string{
		core + "Namespace\nmetadata: {name: agent-gateway}",
		core + "ConfigMap\nmetadata: {name: agent-images, namespace: agent-gateway}",
		rbac + "ClusterRole\nmetadata: {name: kept}\nrules: []",
	}
	next := append(slices.Clone(former),
		rbac+"ClusterRole\nmetadata: {name: left}\nrules: []",
		"# A comment.\n"+rbac+"Role\nmetadata: {name: left, namespace: agent-gateway}\nrules: []",
		core+"Namespace\nmetadata: {name: agent-new}",
	)
	for n, dies := range []bool{true, false, true} {
		if n > 0 {
			if out, err := deploy(former...); err != nil {
				t.Fatalf("former release: %v\n%s", err, out)
			}
		}
		if dies {
			p.answer(t, "dies", "")
		}
		if out, err := deploy(next...); (err != nil) != dies {
			t.Fatalf("next release: error = %v, want one: %t\n%s", err, dies, out)
		}
		checkObjects(t, c.Kubeconfig, map[string]bool{
			"clusterroles kept": true, "clusterroles left": true, "roles left": true,
		})
		if dies {
			removeFile(t, project{root: p.state}, "dies")
		}
		out, err := deploy(former...)
		if err != nil || !strings.Contains(out, "the namespace agent-new is of a former release and stays") {
			t.Fatalf("former release again: %v\n%s", err, out)
		}
		checkObjects(t, c.Kubeconfig, map[string]bool{
			"clusterroles kept": true, "clusterroles left": false, "roles left": false, "namespaces agent-new": true,
		})
	}
}

// checkObjects holds which objects a cluster has.
func checkObjects(t *testing.T, kubeconfig string, want map[string]bool) {
	t.Helper()
	admin := client(t, kubeconfig)
	for object, there := range want {
		resource, name, _ := strings.Cut(object, " ")
		kind := schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: resource}
		if resource == "namespaces" {
			kind.Group = ""
		}
		list, err := admin.Resource(kind).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		found := slices.ContainsFunc(list.Items, func(o unstructured.Unstructured) bool { return o.GetName() == name })
		if found != there {
			t.Errorf("%s is there: %t, want %t", object, found, there)
		}
	}
}
