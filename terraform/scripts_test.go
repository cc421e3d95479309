//go:build unix

package terraform_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// project is a copy of what the scripts run, and the state of a fake of Google Cloud.
type project struct{ root, bin, state string }

// newProject copies the scripts. The quotas are those of a fresh project, multiplied by room.
func newProject(t *testing.T, room int) project {
	t.Helper()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("bash, which runs the scripts, is not installed")
	}
	p := project{root: t.TempDir(), bin: t.TempDir(), state: t.TempDir()}
	names, err := filepath.Glob("*.sh")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(names, "quotas.csv", "build/images") {
		p.write(t, filepath.Join(p.root, "terraform", name), read(t, name), 0o755)
	}
	p.write(t, filepath.Join(p.bin, "gcloud.bash"), read(t, "testdata/gcloud.bash"), 0o600)
	p.write(t, filepath.Join(p.bin, "sleep"), "#!/bin/sh\necho slept $1\n", 0o755)
	p.answer(t, "quotas-project", "")
	p.answer(t, "quotas-region", "")
	for _, q := range readQuotas(t) {
		p.setQuota(t, q, q.fresh*room+room-1, 0)
	}
	return p
}

// setQuota adds a quota to the answers of the fake.
func (p project) setQuota(t *testing.T, q quota, limit, usage int) {
	t.Helper()
	if q.service == "compute.googleapis.com" {
		p.add(t, "quotas-"+q.scope, q.metric+","+itoa(limit)+".0,"+itoa(usage)+".0\n")
		return
	}
	locations := map[string]string{"project": "global", "region": "europe-west1 europe-west4"}[q.scope]
	p.add(t, "quotas-"+q.service, q.metric+",us-east1,1\n"+q.metric+","+locations+","+itoa(limit)+"\n")
}

func (p project) answer(t *testing.T, name, content string) {
	t.Helper()
	p.write(t, filepath.Join(p.state, name), content, 0o600)
}

func (p project) add(t *testing.T, name, content string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(p.state, name))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	p.answer(t, name, string(b)+content)
}

func (p project) write(t *testing.T, path, content string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
}

// settings writes what bootstrap.sh and the operator write before a deployment.
func (p project) settings(t *testing.T) {
	t.Helper()
	dir := filepath.Join(p.root, "terraform")
	p.write(t, filepath.Join(dir, "backend.tf"), `bucket = "project-1-test-terraform"`, 0o600)
	p.write(t, filepath.Join(dir, "terraform.tfvars"), strings.Join([]string{
		`project_id     = "project-1"`, `region         = "europe-west4"`, `environment    = "test"`,
		`identity_issuer = "https://issuer.example"`, `agent_domain = "agents.example.net"`, "",
	}, "\n"), 0o600)
	p.write(t, filepath.Join(dir, ".terraform.lock.hcl"), "", 0o600)
	p.write(t, filepath.Join(dir, "build/images.lock"),
		"_GO=go@sha256:1\n_TERRAFORM=terraform@sha256:2\n_CLOUD_SDK=sdk@sha256:3\n", 0o600)
}

// run runs a script and returns the gcloud commands that it ran, and its output.
func (p project) run(ctx context.Context, t *testing.T, script string, args ...string) (calls, out string, err error) {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(p.state, "calls")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, filepath.Join(p.root, "terraform", script), args...)
	cmd.Env = append(os.Environ(), "PATH="+p.bin+":"+os.Getenv("PATH"), "GCLOUD_STATE="+p.state,
		"BASH_ENV="+filepath.Join(p.bin, "gcloud.bash"))
	b, err := cmd.CombinedOutput()
	recorded, readErr := os.ReadFile(filepath.Join(p.state, "calls"))
	if readErr != nil && !os.IsNotExist(readErr) {
		t.Fatal(readErr)
	}
	return string(recorded), string(b), err
}

// succeed runs a script that must succeed.
func (p project) succeed(ctx context.Context, t *testing.T, script string, args ...string) (calls, out string) {
	t.Helper()
	calls, out, err := p.run(ctx, t, script, args...)
	if err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return calls, out
}

func removeFile(t *testing.T, p project, name string) {
	t.Helper()
	if err := os.Remove(filepath.Join(p.root, name)); err != nil {
		t.Fatal(err)
	}
}
