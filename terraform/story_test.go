//go:build unix

package terraform_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"agents.example/controlplane/emulators/cluster"
	"agents.example/controlplane/emulators/clustertest"
	"agents.example/controlplane/shared/testtier"
)

// scriptOf is a program that runs the steps of a build one after the other, with substitutions from its environment.
func (b build) scriptOf(root, workspace string) string {
	quote := func(arg string) string {
		arg = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "`", "\\`", "$$", `\$`).Replace(arg)
		return `"` + strings.ReplaceAll(arg, "/workspace", workspace) + `"`
	}
	lines := []string{
		"#!/usr/bin/env bash", "set -euo pipefail", "mkdir -p " + workspace, "cd " + root,
		"export PROJECT_ID=project-1",
	}
	for name, value := range b.Substitutions {
		lines = append(lines, name+"=${"+name+":-"+value+"}")
	}
	for _, pair := range b.Options.Env {
		lines = append(lines, "export "+quote(pair))
	}
	for _, s := range b.Steps {
		words := []string{"SMOKE_API_KEY=none"}
		for _, pair := range s.Env {
			name, value, _ := strings.Cut(pair, "=")
			words = append(words, name+"="+quote(value))
		}
		words = append(words, s.Entrypoint)
		for _, arg := range s.Args {
			words = append(words, quote(arg))
		}
		if s.AllowFailure {
			words = append(words, "|| echo 'step "+s.ID+" failed'")
		}
		lines = append(lines, "echo '-- step "+s.ID+"'", strings.Join(words, " "))
	}
	return strings.Join(append(lines, "rm -rf "+workspace), "\n") + "\n"
}

// releases is a project whose builds run: with Terraform and kubectl, a module that needs no provider, and a cluster.
// What the first build and the test from outside do is left out.
func releases(t *testing.T) (p project, kubeconfig string) {
	t.Helper()
	testtier.RequireFull(t, "runs Terraform and kubectl")
	for _, name := range []string{"terraform", "kubectl"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skip(name + " is not installed")
		}
	}
	c := clustertest.Start(t, cluster.Options{Kind: cluster.Embedded}) // what scripts do to it is the same
	p = newProject(t, 100)
	for name, b := range builds(t) {
		script := filepath.Join(p.state, "build-"+filepath.Base(name))
		p.write(t, script, b.scriptOf(p.root, filepath.Join(p.state, "workspace")), 0o755)
	}
	p.write(t, filepath.Join(p.root, "README.md"), "go test ./...\n", 0o600)
	p.write(t, filepath.Join(p.root, "terraform/versions.tf"), "# no provider\n", 0o600)
	p.write(t, filepath.Join(p.root, ".ci/image/build"), "#!/bin/sh\necho "+imageOfBuild+"\n", 0o755)
	kubectl, err := exec.LookPath("kubectl")
	if err != nil {
		t.Fatal(err)
	}
	for name, script := range map[string]string{
		"go": `echo "go $*"
case "$*" in "run ./functions/generate/clients "*)
	mkdir -p "$4/clients/files" "$4/clients/releases"
	echo client >"$4/clients/files/0123"
	echo "$3" >"$4/clients/releases/$3.json" ;;
esac`,
		"date": `case "$*" in *.*) echo 20260101.000000; exit ;; esac
n=$(cat "$GCLOUD_STATE/clock" 2>/dev/null || echo 0); echo $((n + 1)) >"$GCLOUD_STATE/clock"; echo 20260101-00000$n`,
		// The cluster is at hand.
		"kubectl": `case "$1" in rollout | wait) exit ;; esac; exec ` + kubectl + ` --kubeconfig='` + c.Kubeconfig + `' "$@"`,
		"curl":    `cat "$GCLOUD_STATE/traffic-test-routes"`,
	} {
		p.write(t, filepath.Join(p.bin, name), "#!/bin/sh\n"+script+"\n", 0o755)
	}
	p.write(t, filepath.Join(p.root, "terraform/lock.sh"), `#!/bin/sh -e
cd "${0%/*}"
printf '_GO=1\n_TERRAFORM=2\n_CLOUD_SDK=3\n' >build/images.lock
: >.terraform.lock.hcl
`, 0o755)
	return p, c.Kubeconfig
}

// TestReleases_GoForwardAndBack deploys a release for the first time, then the next one, and then the first one again:
// first by its revisions, and then whole. Nothing of the next one is left.
func TestReleases_GoForwardAndBack(t *testing.T) {
	t.Parallel()
	p, kubeconfig := releases(t)
	args := []string{"project-1", "europe-west4", "test"}
	module := func(objects, resources string) {
		p.write(t, filepath.Join(p.root, "terraform/main.tf"), read(t, "testdata/module.tf.txt")+resources, 0o600)
		p.write(t, filepath.Join(p.root, "terraform/objects.yaml"), read(t, "testdata/objects.yaml")+objects, 0o600)
	}
	checkTraffic := func(release string) {
		t.Helper()
		got := strings.TrimSpace(read(t, filepath.Join(p.state, "traffic-test-routes")))
		if got != "test-routes-"+release {
			t.Errorf("%s serves, want %s", got, release)
		}
	}
	var transcript strings.Builder
	run := func(script string, args ...string) (out string, err error) {
		t.Helper()
		_, out, err = p.run(t, script, args...)
		transcript.WriteString("$ terraform/" + script + " " + strings.Join(args, " ") + "\n" + out + "\n")
		return out, err
	}
	defer func() {
		if path := os.Getenv("TRANSCRIPT"); path != "" {
			p.write(t, path, transcript.String(), 0o600)
		} else if t.Failed() {
			t.Log(transcript.String())
		}
	}()

	module("", "")
	if _, err := run("bootstrap.sh", args...); err != nil {
		t.Fatal(err)
	}
	settings := filepath.Join(p.root, "terraform/terraform.tfvars")
	p.write(t, settings, strings.NewReplacer(`identity_issuer = ""`, `identity_issuer = "https://issuer.example"`,
		`agent_domain = ""`, `agent_domain = "agents.example.net"`).Replace(read(t, settings)), 0o600)
	// The local backend stands for the bucket.
	p.write(t, filepath.Join(p.root, "terraform/backend.tf"), "# project: \"project-1-test-terraform\"\n", 0o600)
	if _, err := run("deploy.sh", args...); err != nil {
		t.Fatal(err)
	}
	checkTraffic("20260101-000000-1")
	published := filepath.Join(p.state, "objects/project-1-test-builds/clients/releases/1.20260101.0.json")
	if got := strings.TrimSpace(read(t, published)); got != "1.20260101.0" {
		t.Errorf("the release published the clients %q, want those of its version", got)
	}

	module("---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: left}\nrules: []\n",
		"resource \"terraform_data\" \"left\" {}\n")
	if _, err := run("deploy.sh", args...); err != nil {
		t.Fatal(err)
	}
	checkTraffic("20260101-000001-1")
	checkObjects(t, kubeconfig, map[string]bool{"clusterroles left": true})
	var state struct {
		Outputs map[string]struct{ Value json.RawMessage }
	}
	stateFile := filepath.Join(p.root, "terraform/terraform.tfstate")
	if err := json.Unmarshal([]byte(read(t, stateFile)), &state); err != nil {
		t.Fatal(err)
	}
	if got := string(state.Outputs["traffic"].Value); !strings.Contains(got, "test-routes-20260101-000000-1") {
		t.Errorf("Terraform directs the traffic to %s before the new revision is tested", got)
	}

	if _, err := run("deploy.sh", append([]string{"--serve=20260101-000000"}, args...)...); err != nil {
		t.Fatal(err)
	}
	checkTraffic("20260101-000000-1")
	module("", "")
	out, err := run("deploy.sh", append([]string{"--image=" + imageOfBuild}, args...)...)
	allow := regexp.MustCompile(`--allow='(\S+)'`).FindStringSubmatch(out)
	if err == nil || allow == nil || allow[1] != "terraform_data.left" {
		t.Fatalf("the former release destroys what was not named (%v): %q", err, allow)
	}
	whole := append([]string{"--image=" + imageOfBuild, "--allow=" + allow[1]}, args...)
	if _, err := run("deploy.sh", whole...); err != nil {
		t.Fatal(err)
	}
	checkTraffic("20260101-000003-1")
	checkObjects(t, kubeconfig, map[string]bool{"clusterroles left": false})
	if strings.Contains(read(t, stateFile), `"left"`) {
		t.Error("the state has a resource of the next release")
	}

	// Terraform takes the traffic from a release that begins to serve while it runs, and then fails.
	module("", `
resource "terraform_data" "fails" {
  provisioner "local-exec" {
    command = <<-EOT
      cd "$GCLOUD_STATE/objects/project-1-test-terraform/releases" && cp 20260101-000000/revisions serving
      echo test-routes-20260101-000003-1 >"$GCLOUD_STATE/traffic-test-routes"
      exit 1
    EOT
  }
}
`)
	out, err = run("deploy.sh", args...)
	if err == nil || !strings.Contains(out, "was not deployed. In service: 20260101-000000.") {
		t.Errorf("a deployment whose apply fails says (%v):\n%s", err, out)
	}
	checkTraffic("20260101-000000-1")
	if strings.Contains(out, "-- step cells\n") == strings.Contains(out, "step apply failed") {
		t.Errorf("the build goes on after the apply failed:\n%s", out)
	}
}
