//go:build unix

package terraform_test

import (
	"context"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// gcloud is a fake of Google's command. It remembers what was created and refuses to create it again.
const gcloud = `#!/usr/bin/env bash
set -eu
words=()
for word in "$@"; do [[ $word == -* ]] || words+=("$word"); done
echo "${words[*]}" >>"$GCLOUD_STATE/calls"
for i in "${!words[@]}"; do
	thing="${words[*]:0:i} ${words[i+1]:-}"
	file="$GCLOUD_STATE/$(tr ' /:@.' '_____' <<<"${thing//-deployer@project-1.iam.gserviceaccount.com/-deployer}")"
	case ${words[i]} in
		create)
			[[ ${words[*]} == *"identity create"* ]] && exit 0
			[ ! -e "$file" ] || { echo "$thing exists" >&2; exit 1; }
			touch "$file"; exit 0 ;;
		describe) [[ ${words[0]} == projects ]] && { echo 123456789012; exit 0; }; [ -e "$file" ]; exit $? ;;
	esac
done
[[ ${words[*]} != *"versions add"* ]] || cat >/dev/null
`

// bootstrap runs the script in dir and returns the gcloud commands that it ran.
func bootstrap(ctx context.Context, t *testing.T, dir, state string) string {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(state, "calls")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, filepath.Join(dir, "bootstrap.sh"), "project-1", "europe-west4", "test")
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "GCLOUD_STATE="+state)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	b, err := os.ReadFile(filepath.Join(state, "calls"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestBootstrapIsIdempotent runs the script twice: the second run creates nothing and keeps the operator's settings.
func TestBootstrapIsIdempotent(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("bash, which runs bootstrap.sh, is not installed")
	}
	dir, state := t.TempDir(), t.TempDir()
	script, err := os.ReadFile("bootstrap.sh")
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{"bootstrap.sh": script, "gcloud": []byte(gcloud)} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o755); err != nil { //nolint:gosec // to be run
			t.Fatal(err)
		}
	}
	first := bootstrap(t.Context(), t, dir, state)
	for _, made := range []string{
		"storage buckets create", "artifacts repositories create", "service-accounts create",
		"secrets create",
	} {
		if !strings.Contains(first, made) {
			t.Errorf("first run: no call %q in:\n%s", made, first)
		}
	}
	settings := filepath.Join(dir, "terraform.tfvars")
	if err := os.WriteFile(settings, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	second := strings.ReplaceAll(bootstrap(t.Context(), t, dir, state), "services identity create", "")
	if strings.Contains(second, " create") || strings.Contains(second, "versions add") {
		t.Errorf("second run creates resources:\n%s", second)
	}
	if b, _ := os.ReadFile(settings); string(b) != "mine" {
		t.Errorf("second run overwrote the settings: %s", b)
	}
}

// TestBootstrapEnablesUsedAPIs compares the enabled APIs with the kinds of resources in Terraform.
func TestBootstrapEnablesUsedAPIs(t *testing.T) {
	t.Parallel()
	script, err := os.ReadFile("bootstrap.sh")
	if err != nil {
		t.Fatal(err)
	}
	api := map[string]string{
		"billing": "billingbudgets", "certificate": "certificatemanager", "cloud": "", "compute": "compute",
		"container": "container", "dns": "dns",
		"firestore": "firestore", "gke": "gkebackup", "kms": "cloudkms", "logging": "logging",
		"monitoring": "monitoring", "project": "cloudresourcemanager",
		"pubsub": "pubsub", "secret": "secretmanager", "service": "iam",
	}
	special := map[string]string{"google_cloud_run": "run", "google_cloud_scheduler": "cloudscheduler"}
	used := map[string]bool{}
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
		if !strings.Contains(string(script), " "+name+".googleapis.com") &&
			!strings.Contains(string(script), "\t"+name+".googleapis.com") {
			t.Errorf("bootstrap.sh does not enable %s.googleapis.com, which Terraform uses", name)
		}
	}
}
