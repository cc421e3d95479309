//go:build unix

package terraform_test

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/testtier"
)

// project is a copy of what the scripts run, and the state of a fake of Google Cloud.
type project struct{ root, bin, state string }

// newProject copies the scripts. The quotas are those of a fresh project, multiplied by room.
func newProject(t *testing.T, room int) project {
	t.Helper()
	require(t, "bash")
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
	if python, err := testtier.Python(); err == nil {
		if err := os.Symlink(python, filepath.Join(p.bin, "python3")); err != nil {
			t.Fatal(err)
		}
	}
	answers := map[string]string{"quotas-project": "", "quotas-region": ""}
	for _, q := range readQuotas(t) {
		name, lines := q.answer(q.fresh*room+room-1, 0)
		answers[name] += lines
	}
	for name, lines := range answers {
		p.answer(t, name, lines)
	}
	return p
}

// setQuota adds a quota to the answers of the fake.
func (p project) setQuota(t *testing.T, q quota, limit, usage int) {
	t.Helper()
	name, lines := q.answer(limit, usage)
	p.add(t, name, lines)
}

// answer returns the fake's answer that has the quota, and the quota's lines of it.
func (q quota) answer(limit, usage int) (name, lines string) {
	if q.service == "compute.googleapis.com" {
		return "quotas-" + q.scope, q.metric + "," + itoa(limit) + ".0," + itoa(usage) + ".0\n"
	}
	locations := map[string]string{"project": "global", "region": "europe-west1 europe-west4"}[q.scope]
	return "quotas-" + q.service, q.metric + ",us-east1,1\n" + q.metric + "," + locations + "," + itoa(limit) + "\n"
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
	if mode == 0o755 {
		testtier.WriteProgram(t, path, content)
	} else if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
}

// settings writes what bootstrap.sh and the operator write before a deployment, and the versions that the locks pin.
func (p project) settings(t *testing.T) {
	t.Helper()
	dir := filepath.Join(p.root, "terraform")
	p.write(t, filepath.Join(dir, "backend.tf"), `bucket = "project-1-test-terraform"`, 0o600)
	p.write(t, filepath.Join(dir, "terraform.tfvars"), strings.Join([]string{
		`project_id     = "project-1"`, `region         = "europe-west4"`, `environment    = "test"`,
		`identity_issuer = "https://issuer.example"`, `agent_domain = "agents.example.net"`, "",
	}, "\n"), 0o600)
	p.write(t, filepath.Join(dir, "versions.tf"), read(t, "versions.tf"), 0o600)
	p.write(t, filepath.Join(dir, ".terraform.lock.hcl"), lockOfProvider(t), 0o600)
	p.write(t, filepath.Join(dir, "build/images"), "# tags\n\n_GO go\n_TERRAFORM terraform\n_CLOUD_SDK  sdk\n", 0o600)
	p.write(t, filepath.Join(dir, "build/images.lock"),
		"_GO=go@sha256:1\n_TERRAFORM=terraform@sha256:2\n_CLOUD_SDK=sdk@sha256:3\n", 0o600)
}

// lockOfProvider returns what lock.sh writes for the provider that versions.tf names, without its checksums.
func lockOfProvider(t *testing.T) string {
	t.Helper()
	constraint := regexp.MustCompile(`(?m)^ *version *= "(.*)"$`).FindStringSubmatch(read(t, "versions.tf"))
	if constraint == nil {
		t.Fatal("versions.tf names no version of the provider")
	}
	return "provider \"registry.terraform.io/hashicorp/google\" {\n  constraints = \"" + constraint[1] + "\"\n}\n"
}

// require returns the path of a program, and skips the test if it is not installed.
func require(t *testing.T, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Skip(program + " is not installed")
	}
	return path
}

// wantParts fails the test if a text lacks some of its parts.
func wantParts(t *testing.T, what, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%s has no %q:\n%s", what, part, text)
		}
	}
}

// run runs a script and returns the gcloud commands that it ran, and its output.
func (p project) run(t *testing.T, script string, args ...string) (calls, out string, err error) {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(p.state, "calls")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(p.root, "terraform", script), args...)
	cmd.Env = append(os.Environ(), "PATH="+p.bin+":"+os.Getenv("PATH"), "GCLOUD_STATE="+p.state,
		"TF_CLI_CONFIG_FILE=/dev/null",
		"BASH_ENV="+filepath.Join(p.bin, "gcloud.bash"))
	b, err := cmd.CombinedOutput()
	recorded, readErr := os.ReadFile(filepath.Join(p.state, "calls"))
	if readErr != nil && !os.IsNotExist(readErr) {
		t.Fatal(readErr)
	}
	return string(recorded), string(b), err
}

// succeed runs a script that must succeed.
func (p project) succeed(t *testing.T, script string, args ...string) (calls, out string) {
	t.Helper()
	calls, out, err := p.run(t, script, args...)
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

// TestScripts_ReadSettingsWithoutTheirComments runs the scripts with settings whose comments have quotation marks.
func TestScripts_ReadSettingsWithoutTheirComments(t *testing.T) {
	t.Parallel()
	p := newDeployment(t)
	file := filepath.Join(p.root, "terraform/terraform.tfvars")
	settings := read(t, file) + "domain = \"\"\ndatabase = \"agents-test-2\"\ncells_project = \"\"\n"
	p.write(t, file, strings.ReplaceAll(settings, "\"\n", "\" # such as \"x\"\n"), 0o600)
	p.succeed(t, "bootstrap.sh", "project-1", "europe-west4", "test")
	_, out := p.succeed(t, "deploy.sh", "project-1", "europe-west4", "test")
	if !strings.Contains(out, "SECURITY_POLICIES (global) has 99, needs 0") {
		t.Errorf("counts what a domain needs, without one:\n%s", out)
	}
	_, out, err := p.run(t, "restore.sh", "--backup=BACKUP", "agents-test-2", "project-1")
	if err == nil || !strings.Contains(out, "agents-test-2 is in use") {
		t.Errorf("restores into the database that is in use (%v):\n%s", err, out)
	}
}

// TestBuilds_KnowTheCommandsOfGcloud checks every command of the scripts with the parser of the real gcloud.
func TestBuilds_KnowTheCommandsOfGcloud(t *testing.T) {
	t.Parallel()
	testtier.RequireFull(t, "runs gcloud")
	gcloud := require(t, "gcloud")
	p := newDeployment(t)
	bootstrap, _ := p.succeed(t, "bootstrap.sh", "project-1", "europe-west4", "test")
	deploy, _ := p.succeed(t, "deploy.sh", "project-1", "europe-west4", "test")
	p.write(t, filepath.Join(p.state, "objects/state/releases/1/revisions"), `{"a": "a-1-1"}`, 0o600)
	p.write(t, filepath.Join(p.bin, "curl"), "#!/bin/sh\necho a-1-1\n", 0o755)
	serve, _ := p.succeed(t, "serve.sh", "gs://state/releases", "project-1", "europe-west4", "1", "https://x")
	p.answer(t, "operations", "")
	for _, answer := range []string{"firestore-composite", "firestore-fields", "firestore-schedules"} {
		p.answer(t, answer, "[]\n")
	}
	restore, _ := p.succeed(t, "restore.sh", "--backup=BACKUP", "agents-test-2", "project-1")
	commands := strings.Split(strings.TrimSpace(bootstrap+deploy+serve+restore), "\n")
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
	gcloud := require(t, "gcloud")
	p := newDeployment(t)
	p.write(t, filepath.Join(p.root, ".gitignore"), read(t, "../.gitignore"), 0o600)
	p.write(t, filepath.Join(p.root, "terraform/.terraform/providers/google"), "", 0o600)
	p.write(t, filepath.Join(p.root, "terraform/terraform.tfstate"), "", 0o600)
	p.write(t, filepath.Join(p.root, "terraform/restored.json"), "{}", 0o600)
	p.write(t, filepath.Join(p.root, "signing-key.json"), "{}", 0o600)
	out, err := exec.CommandContext(t.Context(), gcloud, "meta", "list-files-for-upload", p.root).Output()
	if err != nil {
		t.Skipf("this gcloud lists no files: %v", err)
	}
	packed := strings.Fields(string(out))
	for name, want := range map[string]bool{
		"terraform/terraform.tfvars": true, "terraform/backend.tf": true, "terraform/.terraform.lock.hcl": true,
		"terraform/build/images.lock": true, "terraform/apply-cells.sh": true,
		"terraform/restored.json":               true,
		"terraform/.terraform/providers/google": false, "terraform/terraform.tfstate": false,
		"signing-key.json": false,
	} {
		if got := slices.Contains(packed, name); got != want {
			t.Errorf("%s is packed: %t, want %t\n%s", name, got, want, out)
		}
	}
}

// TestReadme_KeepsThePrivateKeyOutOfBuilds holds that the operator makes the signing key where no deployment uploads
// it: one comes before the key is stored, and the account that runs tests reads what was uploaded. An operator who
// makes it in the working copy is safe, too, because gcloud leaves out what git ignores.
func TestReadme_KeepsThePrivateKeyOutOfBuilds(t *testing.T) {
	t.Parallel()
	made := regexp.MustCompile(`keys create -private (\S+)`).FindAllStringSubmatch(read(t, "README.md"), -1)
	if len(made) == 0 {
		t.Fatal("README.md makes no signing key: correct this test")
	}
	ignored := strings.Fields(read(t, "../.gitignore"))
	for _, m := range made {
		if path := strings.Trim(m[1], `"`); !strings.HasPrefix(path, "$HOME/") {
			t.Errorf("the private key is made at %s, in the working copy", path)
		} else if name := filepath.Base(path); !slices.Contains(ignored, "/"+name) {
			t.Errorf("git does not ignore %s", name)
		}
	}
}

// TestReadme_TestsReleasesOnAPlanWithAPrice holds that the organization of the smoke test gets a plan before its API
// key, and that its agents do not count to the maximum of free agents: at the maximum, every release would fail its
// test.
func TestReadme_TestsReleasesOnAPlanWithAPrice(t *testing.T) {
	t.Parallel()
	before, _, found := strings.Cut(read(t, "README.md"), "apikeys create -organization ORG -name smoke")
	set := regexp.MustCompile(`set-plan -organization ORG -plan (\w+)`).FindStringSubmatch(before)
	if !found || set == nil {
		t.Fatal("README.md makes the key of the smoke test for an organization without a plan")
	}
	if p, err := plan.Get(plan.ID(set[1])); err != nil || p.Free() {
		t.Errorf("the organization of the smoke test gets the plan %s (%v), want one with a price", set[1], err)
	}
}

// TestReadme_DeploysBeforeTheGatewayIsDeleted holds the order in which a deployment is deleted: one that follows would
// create the load balancers again, which keep the network from being deleted.
func TestReadme_DeploysBeforeTheGatewayIsDeleted(t *testing.T) {
	t.Parallel()
	_, section, _ := strings.Cut(read(t, "README.md"), "\n## Delete\n")
	before, after, found := strings.Cut(section, "kubectl delete namespace agent-gateway")
	if !found || !strings.Contains(before, "Set `deletion_protection = false` and deploy") {
		t.Errorf("README.md does not end the protection before the Gateway is deleted:\n%s", before)
	}
	if strings.Contains(after, "deploy") {
		t.Errorf("README.md deploys after the Gateway was deleted:\n%s", after)
	}
}

// TestReadme_SaysWhatTakesSnapshotsAlong compares what an operator may rely on with the class of agents' snapshots:
// with this policy, the cluster deletes the data of a VolumeSnapshot that goes with its namespace.
func TestReadme_SaysWhatTakesSnapshotsAlong(t *testing.T) {
	t.Parallel()
	if !strings.Contains(read(t, "cell/snapshots.yaml"), "\ndeletionPolicy: Delete\n") {
		t.Fatal("snapshots outlive their namespace now: correct README.md and this test")
	}
	_, section, _ := strings.Cut(read(t, "README.md"), "\n### An agent's volume\n")
	section, _, _ = strings.Cut(section, "\n### ")
	_, outlived, found := strings.Cut(section, "they outlive ")
	outlived, _, _ = strings.Cut(outlived, ".")
	if !found || strings.Contains(outlived, "namespace") {
		t.Errorf("README.md says that snapshots outlive %q", outlived)
	}
	_, alert, _ := strings.Cut(read(t, "README.md"), "\n### An agent lost its volume\n")
	if alert, _, _ = strings.Cut(alert, "\n### "); !strings.Contains(alert, "took the snapshots along") {
		t.Errorf("README.md lets an operator restore a snapshot of a namespace that is gone:\n%s", alert)
	}
}

// TestReadme_GivesCIWhatDeploymentsCall compares the roles of a CI job's account with the commands of a deployment.
func TestReadme_GivesCIWhatDeploymentsCall(t *testing.T) {
	t.Parallel()
	_, section, _ := strings.Cut(read(t, "README.md"), "\n## Second operator and CI\n")
	section, _, _ = strings.Cut(section, "\n## ")
	p := newDeployment(t)
	settings := filepath.Join(p.root, "terraform/terraform.tfvars")
	p.write(t, settings, strings.Replace(read(t, settings), "https://issuer.example",
		"https://securetoken.google.com/project-1", 1), 0o600)
	p.succeed(t, "deploy.sh", "project-1", "europe-west4", "test")
	calls, _ := p.succeed(t, "deploy.sh", "project-1", "europe-west4", "test")
	roles := map[string][]string{
		// Without the right to use the project's services, gcloud refuses to stage the source.
		"beta builds submit": {
			"cloudbuild.builds.editor", "serviceusage.serviceUsageConsumer", "logging.viewer", "iam.serviceAccountUser",
		},
		"builds list":         {"cloudbuild.builds.editor"},
		"storage":             {"storage.admin"},
		"certificate-manager": {"certificatemanager.viewer"},
		"compute":             {"compute.viewer"},
		"beta quotas":         {"cloudquotas.viewer"},
		"services enable":     {"serviceusage.serviceUsageAdmin"},
	}
	called := map[string]bool{}
	for line := range strings.Lines(calls) {
		words := slices.DeleteFunc(strings.Fields(line)[1:], func(w string) bool { return strings.HasPrefix(w, "-") })
		command := strings.Join(words, " ")
		known := false
		for prefix := range roles {
			if strings.HasPrefix(command, prefix+" ") {
				known, called[prefix] = true, true
			}
		}
		if !known {
			t.Errorf("no role is known for gcloud %s", command)
		}
	}
	for prefix, needed := range roles {
		if !called[prefix] {
			t.Errorf("a deployment does not call gcloud %s", prefix)
		}
		for _, role := range needed {
			if !strings.Contains(section, "`roles/"+role+"`") {
				t.Errorf("README.md does not give a CI job roles/%s, for gcloud %s", role, prefix)
			}
		}
	}
}

// TestScripts_PassShellcheck checks every script if shellcheck is installed.
func TestScripts_PassShellcheck(t *testing.T) {
	t.Parallel()
	shellcheck := require(t, "shellcheck")
	names, err := filepath.Glob("*.sh")
	if err != nil {
		t.Fatal(err)
	}
	names = append(names, "testdata/gcloud.bash", "../.ci/image/build")
	if out, err := exec.CommandContext(t.Context(), shellcheck, names...).CombinedOutput(); err != nil {
		t.Errorf("%s", out)
	}
}

// TestTerraformTests_Hold evaluates the assertions in tests/, which terraform test evaluates with Google's provider.
func TestTerraformTests_Hold(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob("tests/*.tftest.hcl")
	if err != nil || len(names) == 0 {
		t.Fatalf("tests: %q, %v", names, err)
	}
	for _, name := range names {
		file, diags := hclparse.NewParser().ParseHCLFile(name)
		if diags.HasErrors() {
			t.Fatal(diags)
		}
		given := map[string]cty.Value{}
		for _, b := range file.Body.(*hclsyntax.Body).Blocks {
			switch b.Type {
			case "variables":
				given = values(t, b.Body)
			case "run":
				t.Run(filepath.Base(name)+" "+b.Labels[0], func(t *testing.T) {
					t.Parallel()
					checkRun(t, b, maps.Clone(given))
				})
			}
		}
	}
}

// values evaluates the arguments of a block that refers to nothing.
func values(t *testing.T, b *hclsyntax.Body) map[string]cty.Value {
	t.Helper()
	all := map[string]cty.Value{}
	for name, a := range b.Attributes {
		v, diags := a.Expr.Value(nil)
		if diags.HasErrors() {
			t.Fatal(diags)
		}
		all[name] = v
	}
	return all
}

// checkRun holds that the assertions of a run are true, and that it expects exactly the variables or
// resources that are refused.
func checkRun(t *testing.T, run *hclsyntax.Block, given map[string]cty.Value) {
	t.Helper()
	var conditions []hclsyntax.Expression
	for _, b := range run.Body.Blocks {
		switch b.Type {
		case "variables":
			maps.Copy(given, values(t, b.Body))
		case "assert":
			conditions = append(conditions, b.Body.Attributes["condition"].Expr)
		}
	}
	m := loadExactly(t, given)
	var expected []string
	if a := run.Body.Attributes["expect_failures"]; a != nil {
		for _, ref := range a.Expr.Variables() {
			expected = append(expected, strings.TrimPrefix(ref.RootName()+"."+attribute(ref[1]), "var."))
		}
	}
	refused, err := m.Invalid()
	if err == nil && len(refused) == 0 {
		refused, err = m.Refused()
	}
	if err != nil || !slices.Equal(refused, expected) {
		t.Errorf("variables or resources %q are refused (%v), want %q", refused, err, expected)
	}
	for _, condition := range conditions {
		v, err := m.Evaluate(condition)
		if err != nil {
			t.Error(err)
		} else if !v.IsKnown() || v.IsNull() || v.False() {
			t.Errorf("%s: %#v, want true", condition.Range(), v)
		}
	}
	if len(conditions)+len(expected) == 0 {
		t.Error("the run asserts nothing")
	}
}
