//go:build unix

package terraform_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agents.example/controlplane/shared/testtier"
)

// interruptions are what happens at one call of gcloud: the script dies after it, the call is refused, or it takes
// effect and its answer is lost.
var interruptions = []string{"dies", "refused", "lost"}

// interrupt lets a call of the next script end as one of interruptions.
func (p project) interrupt(t *testing.T, call, how string) {
	t.Helper()
	p.answer(t, "interrupts", call+" "+how+"\n")
	p.answer(t, "count", "")
	fake := strings.Replace(read(t, "testdata/gcloud.bash"), "\ngcloud() {", "\nanswered() {", 1)
	p.write(t, filepath.Join(p.bin, "gcloud.bash"), fake+`
export SCRIPT=${SCRIPT:-$$}
gcloud() {
	local counted at how
	echo >>"$GCLOUD_STATE/count"
	mapfile counted <"$GCLOUD_STATE/count"
	read -r at how <"$GCLOUD_STATE/interrupts"
	[ "$at" = "${#counted[@]}" ] || { answered "$@"; return; }
	echo "$*" >"$GCLOUD_STATE/interrupted"
	[ "$how" = refused ] || answered "$@" >/dev/null
	[ "$how" != dies ] || kill -9 "$SCRIPT" "$BASHPID"
	return 1
}
`, 0o600)
}

// left is what a project has after calls: its files, and what they granted.
func (p project) left(t *testing.T, calls string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, dir := range []string{p.state, filepath.Join(p.root, "terraform")} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() && d.Name() != "generations" {
				return err
			}
			if d.IsDir() {
				return filepath.SkipDir
			}
			switch d.Name() {
			case "calls", "count", "interrupts", "interrupted":
				return nil
			}
			b, err := os.ReadFile(path)
			all[strings.TrimPrefix(path, dir)] = string(b)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for line := range strings.Lines(calls) {
		if strings.Contains(line, "add-iam-policy-binding") {
			all[line] = "granted"
		}
	}
	return all
}

// countCalls is how many calls of gcloud a script makes.
func countCalls(calls string) int { return strings.Count(calls, "\n") }

// interrupted runs a script with each of its calls interrupted in each way, and then again, and compares what is left.
func interrupted(t *testing.T, prepare func(t *testing.T) project, script string, args ...string) {
	t.Helper()
	testtier.RequireFull(t, "runs a script many times")
	undisturbed := prepare(t)
	calls, _ := undisturbed.succeed(t, script, args...)
	want := undisturbed.left(t, calls)
	for n := range countCalls(calls) {
		for _, how := range interruptions {
			t.Run(itoa(n+1)+" "+how, func(t *testing.T) {
				t.Parallel()
				p := prepare(t)
				p.interrupt(t, itoa(n+1), how)
				first, out, _ := p.run(t, script, args...)
				p.answer(t, "interrupts", "0 none\n")
				second, again, err := p.run(t, script, args...)
				if err != nil {
					at := read(t, filepath.Join(p.state, "interrupted"))
					t.Fatalf("after %s: %v\n%s\n-- again\n%s", at, err, out, again)
				}
				if diff := cmp.Diff(want, p.left(t, first+second)); diff != "" {
					t.Errorf("after %s (-want +got):\n%s", read(t, filepath.Join(p.state, "interrupted")), diff)
				}
			})
		}
	}
}

// TestBootstrap_GoesOnFromEachCall interrupts the script at each of its calls.
func TestBootstrap_GoesOnFromEachCall(t *testing.T) {
	t.Parallel()
	interrupted(t, func(t *testing.T) project { return newProject(t, 100) }, "bootstrap.sh",
		"--cells-project=cells-1", "project-1", "europe-west4", "test")
}

// TestServe_GoesOnFromEachCall interrupts the script at each of its calls.
func TestServe_GoesOnFromEachCall(t *testing.T) {
	t.Parallel()
	interrupted(t, func(t *testing.T) project {
		p := newProject(t, 1)
		p.write(t, filepath.Join(p.state, "objects/state/releases/serving"), `{"a": "a-1"}`, 0o600)
		p.write(t, filepath.Join(p.state, "objects/state/releases/2/revisions"), `{"a": "a-2-1"}`, 0o600)
		p.write(t, filepath.Join(p.bin, "curl"), "#!/bin/sh\necho a-2-1\n", 0o755)
		return p
	}, "serve.sh", "gs://state/releases", "project-1", "europe-west4", "2", "https://api.example.com")
}

// TestRestore_GoesOnFromEachCall interrupts the script at each of its calls.
func TestRestore_GoesOnFromEachCall(t *testing.T) {
	t.Parallel()
	interrupted(t, func(t *testing.T) project {
		p := newProject(t, 1)
		p.settings(t)
		p.answer(t, "operations", "op-1,True,\n")
		for _, answer := range []string{"firestore-composite", "firestore-fields", "firestore-schedules"} {
			p.answer(t, answer, "[]\n")
		}
		return p
	}, "restore.sh", "--backup=BACKUP", "agents-test-2", "project-1")
}

// withBuilds is a deployment whose builds keep what they make. The last one directs no traffic to what was not tested.
func withBuilds(t *testing.T) project {
	t.Helper()
	p := newDeployment(t)
	for _, name := range []string{"image", "deployment", "next"} {
		removeFile(t, project{root: p.state}, name)
	}
	p.write(t, filepath.Join(p.state, "objects/project-1-test-terraform/releases/serving"), "{}\n", 0o600)
	for name, script := range map[string]string{
		"cloudbuild.yaml": `mkdir -p "$builds/$_RELEASE"; echo ` + imageOfBuild + ` >"$builds/$_RELEASE/image"`,
		"deploy.yaml": `[ -e "$releases/$_RELEASE/allowed" ]
cp "$settings/terraform.tfvars" "$GCLOUD_STATE/deployed"
: >"$releases/$_RELEASE/next"
printf 'base_url https://api.example.com\nmaintenance \n' >"$releases/$_RELEASE/deployment"`,
		"smoke.yaml": `echo "$_RELEASE" >>"$GCLOUD_STATE/tested"`,
		"serve.yaml": `grep -x "$_RELEASE" "$GCLOUD_STATE/tested"; echo "{\"a\": \"a-$_RELEASE-1\"}" >"$releases/serving"`,
	} {
		p.write(t, filepath.Join(p.state, "build-"+name), `#!/bin/sh -e
unset BASH_ENV
builds=$GCLOUD_STATE/objects/project-1-test-builds/releases
releases=$GCLOUD_STATE/objects/project-1-test-terraform/releases
settings=$GCLOUD_STATE/objects/project-1-test-terraform/settings
`+script+"\n", 0o755)
	}
	return p
}

// TestDeploy_GoesOnFromEachCall interrupts the first deployment at each of its calls, and repeats it in the working
// copy, and in another one that has no settings.
func TestDeploy_GoesOnFromEachCall(t *testing.T) {
	t.Parallel()
	testtier.RequireFull(t, "runs a script many times")
	args := []string{"--skip-quotas", "project-1", "europe-west4", "test"}
	calls, _ := withBuilds(t).succeed(t, "deploy.sh", args...)
	for n := range countCalls(calls) {
		for _, how := range interruptions {
			for _, copies := range []string{"same", "other"} {
				t.Run(itoa(n+1)+" "+how+" "+copies, func(t *testing.T) {
					t.Parallel()
					checkRepeatedDeployment(t, itoa(n+1), how, copies == "other", args)
				})
			}
		}
	}
}

func checkRepeatedDeployment(t *testing.T, call, how string, other bool, args []string) {
	t.Helper()
	p := withBuilds(t)
	want := read(t, filepath.Join(p.root, "terraform/terraform.tfvars"))
	p.interrupt(t, call, how)
	_, out, _ := p.run(t, "deploy.sh", args...)
	p.answer(t, "interrupts", "0 none\n")
	at := read(t, filepath.Join(p.state, "interrupted"))
	second := p
	_, missing := os.Stat(filepath.Join(p.state, "objects/project-1-test-terraform/settings/terraform.tfvars"))
	if other && missing == nil {
		second = p.otherCopy(t)
		second.bin = p.bin
		second.write(t, filepath.Join(second.root, "terraform/lock.sh"), `#!/bin/sh -e
cd "${0%/*}"
printf '_GO=go@sha256:1\n_TERRAFORM=terraform@sha256:2\n_CLOUD_SDK=sdk@sha256:3\n' >build/images.lock
: >.terraform.lock.hcl
`, 0o755)
	}
	_, again, err := second.run(t, "deploy.sh", args...)
	if other && missing == nil && err != nil &&
		strings.Contains(again, "backend.tf is missing: run terraform/bootstrap.sh project-1") {
		return // of the first upload alone: that command writes the rest
	}
	if err != nil {
		t.Fatalf("after %s: %v\n%s\n-- again\n%s", at, err, out, again)
	}
	release := regexp.MustCompile(`\nRelease (\S+) is in service`).FindStringSubmatch(again)
	state := func(name string) string { return read(t, filepath.Join(p.state, name)) }
	serving := state("objects/project-1-test-terraform/releases/serving")
	if release == nil || !strings.Contains(serving, release[1]) {
		t.Errorf("after %s: %s serves, want %q", at, serving, release)
	}
	if got := state("deployed"); got != want {
		t.Errorf("after %s: the settings %q are deployed, want %q", at, got, want)
	}
	kept, err := os.ReadDir(filepath.Join(p.state, "objects/project-1-test-terraform/settings"))
	if err != nil || len(kept) != 4 {
		t.Errorf("after %s: kept settings = %v, %v, want four files", at, kept, err)
	}
}
