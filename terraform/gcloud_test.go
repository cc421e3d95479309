//go:build unix

package terraform_test

import (
	"encoding/json"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agents.example/controlplane/shared/testtier"
)

// TestBuilds_KnowTheCommandsOfGcloud checks every command of the scripts with the parser of the real gcloud.
func TestBuilds_KnowTheCommandsOfGcloud(t *testing.T) {
	t.Parallel()
	testtier.RequireFull(t, "runs gcloud")
	gcloud, err := exec.LookPath("gcloud")
	if err != nil {
		t.Skip("gcloud is not installed")
	}
	p := newDeployment(t)
	bootstrap, _ := p.succeed(t.Context(), t, "bootstrap.sh", "project-1", "europe-west4", "test")
	deploy, _ := p.succeed(t.Context(), t, "deploy.sh", "project-1", "europe-west4", "test")
	commands := strings.Split(strings.TrimSpace(bootstrap+deploy), "\n")
	for _, b := range builds(t) {
		for _, s := range b.Steps {
			if s.Entrypoint == "gcloud" {
				commands = append(commands, "gcloud "+strings.Join(s.Args, " "))
			}
		}
	}
	type command struct {
		Text    string `json:"command_string"`
		Message string `json:"error_message,omitempty"`
		Success bool   `json:"success,omitempty"`
	}
	checked := map[string]command{}
	for _, line := range commands {
		// The parser takes a word after a flag for its value, so flags come last.
		var words, flags []string
		for _, word := range strings.Fields(strings.ReplaceAll(line, `\ `, "_")) {
			if strings.HasPrefix(word, "--") {
				flags = append(flags, word)
			} else {
				words = append(words, word)
			}
		}
		text := strings.Join(append(words, flags...), " ")
		checked[text] = command{Text: text}
	}
	file, err := json.Marshal(slices.Collect(maps.Values(checked)))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "commands.json")
	p.write(t, path, string(file), 0o600)
	out, err := exec.CommandContext(t.Context(), gcloud, "meta", "lint-gcloud-commands",
		"--commands-file="+path).Output()
	if err != nil {
		t.Skipf("this gcloud checks no commands: %v", err)
	}
	var results []command
	if err := json.Unmarshal(out, &results); err != nil || len(results) < 40 {
		t.Fatalf("%d results for %d commands: %v", len(results), len(checked), err)
	}
	for _, r := range results {
		if !r.Success {
			t.Errorf("%s: %s", r.Text, r.Message)
		}
	}
}

// TestBuilds_PackSettingsAndLocks holds that gcloud uploads what the builds need, although some of it is not committed.
func TestBuilds_PackSettingsAndLocks(t *testing.T) {
	t.Parallel()
	testtier.RequireFull(t, "runs gcloud")
	gcloud, err := exec.LookPath("gcloud")
	if err != nil {
		t.Skip("gcloud is not installed")
	}
	p := newDeployment(t)
	p.write(t, filepath.Join(p.root, ".gitignore"), read(t, "../.gitignore"), 0o600)
	p.write(t, filepath.Join(p.root, "terraform/.terraform/providers/google"), "", 0o600)
	p.write(t, filepath.Join(p.root, "terraform/terraform.tfstate"), "", 0o600)
	out, err := exec.CommandContext(t.Context(), gcloud, "meta", "list-files-for-upload", p.root).Output()
	if err != nil {
		t.Skipf("this gcloud lists no files: %v", err)
	}
	packed := strings.Fields(string(out))
	for name, want := range map[string]bool{
		"terraform/terraform.tfvars": true, "terraform/backend.tf": true, "terraform/.terraform.lock.hcl": true,
		"terraform/build/images.lock": true, "terraform/apply-cells.sh": true,
		"terraform/.terraform/providers/google": false, "terraform/terraform.tfstate": false,
	} {
		if got := slices.Contains(packed, name); got != want {
			t.Errorf("%s is packed: %t, want %t\n%s", name, got, want, out)
		}
	}
}

// TestScripts_PassShellcheck checks every script if shellcheck is installed.
func TestScripts_PassShellcheck(t *testing.T) {
	t.Parallel()
	shellcheck, err := exec.LookPath("shellcheck")
	if err != nil {
		t.Skip("shellcheck is not installed")
	}
	names, err := filepath.Glob("*.sh")
	if err != nil {
		t.Fatal(err)
	}
	names = append(names, "testdata/gcloud.bash", "../.ci/image/build")
	if out, err := exec.CommandContext(t.Context(), shellcheck, names...).CombinedOutput(); err != nil {
		t.Errorf("%s", out)
	}
}
