//go:build unix

package terraform_test

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"agents.example/controlplane/shared/clientrelease"
	"agents.example/controlplane/shared/testtier"
)

// build is a configuration of Cloud Build.
type build struct {
	Steps []struct {
		ID, Name, Entrypoint string
		Args, Env, SecretEnv []string
		AllowFailure         bool
	}
	Substitutions    map[string]string
	AvailableSecrets struct {
		SecretManager []struct{ VersionName, Env string }
	}
	Options struct {
		Logging string
		Env     []string
	}
	Timeout string
}

// builds are the configurations by the name that deploy.sh gives them.
func builds(t *testing.T) map[string]build {
	t.Helper()
	all := map[string]build{}
	for _, name := range []string{
		"cloudbuild.yaml", "terraform/build/deploy.yaml", "terraform/build/smoke.yaml", "terraform/build/serve.yaml",
	} {
		var b build
		if err := yaml.UnmarshalStrict([]byte(withoutUnknown(t, read(t, filepath.Join("..", name)))), &b); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all[name] = b
	}
	return all
}

// withoutUnknown removes the options that the tests do not read.
func withoutUnknown(t *testing.T, text string) string {
	t.Helper()
	var whole map[string]any
	if err := yaml.Unmarshal([]byte(text), &whole); err != nil {
		t.Fatal(err)
	}
	options := whole["options"].(map[string]any)
	delete(options, "volumes")
	delete(options, "machineType")
	b, err := yaml.Marshal(whole)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// script is what a step runs, with values for its substitutions, in a directory instead of /workspace.
func (b build) script(t *testing.T, id, workspace string, values map[string]string) string {
	t.Helper()
	for _, s := range b.Steps {
		if s.ID != id {
			continue
		}
		text := s.Args[len(s.Args)-1]
		for name, v := range values {
			text = strings.NewReplacer("${"+name+"}", v, "$"+name, v).Replace(text)
		}
		return strings.ReplaceAll(strings.ReplaceAll(text, "$$", "$"), "/workspace", workspace)
	}
	t.Fatalf("no step %s", id)
	return ""
}

// TestBuilds_AreGivenTheSubstitutionsThatTheyUse compares deploy.sh with the configurations: Cloud Build refuses a
// build with too many or too few.
func TestBuilds_AreGivenTheSubstitutionsThatTheyUse(t *testing.T) {
	t.Parallel()
	calls, _ := newDeployment(t).succeed(t, "deploy.sh", "project-1", "europe-west4", "test")
	for _, s := range submissions(t, calls) {
		used := map[string]bool{}
		text := regexp.MustCompile(`(?m)^\s*#.*$`).ReplaceAllString(read(t, filepath.Join("..", s.config)), "")
		text = strings.ReplaceAll(text, "$$", "")
		for _, m := range regexp.MustCompile(`\$\{?([A-Z_]+)`).FindAllStringSubmatch(text, -1) {
			if m[1] != "PROJECT_ID" {
				used[m[1]] = true
			}
		}
		if got := maps.Keys(s.substitutions); !slices.Equal(slices.Sorted(got), slices.Sorted(maps.Keys(used))) {
			t.Errorf("%s uses %q, and is given %q", s.config, slices.Sorted(maps.Keys(used)), slices.Sorted(got))
		}
	}
}

// TestBuilds_RunImagesByDigest holds that every step's image is one that lock.sh pins.
func TestBuilds_RunImagesByDigest(t *testing.T) {
	t.Parallel()
	images := read(t, "build/images")
	for name, b := range builds(t) {
		for _, s := range b.Steps {
			variable := regexp.MustCompile(`^\$\{(_[A-Z_]+)\}$`).FindStringSubmatch(s.Name)
			if variable == nil || !regexp.MustCompile(`(?m)^`+variable[1]+` +\S+:\S+$`).MatchString(images) {
				t.Errorf("%s: step %s runs %s, which build/images does not name", name, s.ID, s.Name)
			}
		}
		if b.Options.Logging != "CLOUD_LOGGING_ONLY" || b.Timeout == "" {
			t.Errorf("%s logs to %q: its account may write to Cloud Logging only", name, b.Options.Logging)
		}
	}
}

// TestDeployer_RunsNoProjectCode holds what runs as the account that may change everything.
func TestDeployer_RunsNoProjectCode(t *testing.T) {
	t.Parallel()
	all := builds(t)
	for name, want := range map[string]map[string]string{
		"terraform/build/deploy.yaml": {
			"fetch": "${_CLOUD_SDK} gcloud", "images": "${_TERRAFORM} sh",
			"admit": "${_CLOUD_SDK} terraform/apply-cells.sh", "apply": "${_TERRAFORM} terraform/apply.sh",
			"traffic": "${_CLOUD_SDK} terraform/serve.sh",
			"cells":   "${_CLOUD_SDK} terraform/apply-cells.sh", "keep": "${_CLOUD_SDK} gcloud",
		},
		"terraform/build/serve.yaml": {"serve": "${_CLOUD_SDK} terraform/serve.sh"},
	} {
		got := map[string]string{}
		for _, s := range all[name].Steps {
			got[s.ID] = s.Name + " " + s.Entrypoint
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: steps (-want +got):\n%s", name, diff)
		}
		if secrets := all[name].AvailableSecrets.SecretManager; len(secrets) > 0 {
			t.Errorf("%s reads the secrets %v", name, secrets)
		}
	}
	// The first word of each command of the scripts.
	commands := regexp.MustCompile(`(?m)(?:^|\$\(|&& |\|\| |\| |do |until |then )\s*([a-z][\w./-]*)(?: |$)`)
	allowed := strings.Fields("cd terraform attempt until echo sleep done mkdir do exit set for break trap export " +
		"gcloud kubectl while local printf mktemp import print python3 then fi if connect admit admitted new data " +
		"deployed previous dirname curl cat shift sort comm continue return remember look tidy touch identities " +
		"text group rm tail sed check destroyed allowed case esac join value unproven direct xargs gc releases " +
		"answer answers made serving earlier each fail cp cmp else")
	for name, text := range map[string]string{
		"step images": all["terraform/build/deploy.yaml"].script(t, "images", "/workspace", nil),
		"apply.sh":    read(t, "apply.sh"), "apply-cells.sh": read(t, "apply-cells.sh"),
		"serve.sh": read(t, "serve.sh"),
	} {
		for _, m := range commands.FindAllStringSubmatch(regexp.MustCompile(`(?m)^\s*#.*$`).ReplaceAllString(text, ""), -1) {
			if !slices.Contains(allowed, m[1]) {
				t.Errorf("%s runs %s", name, m[1])
			}
		}
	}
}

// TestSmokeBuild_RunsWithoutDownloads runs the step on a copy of its source, where no module can be downloaded.
func TestSmokeBuild_RunsWithoutDownloads(t *testing.T) {
	t.Parallel()
	b := builds(t)["terraform/build/smoke.yaml"]
	if got := b.AvailableSecrets.SecretManager; len(got) != 1 ||
		got[0].VersionName != "projects/$PROJECT_ID/secrets/${_ENVIRONMENT}-smoke-api-key/versions/latest" {
		t.Errorf("reads the secrets %v, want only the API key", got)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"status": "ok", "revision": "prod-routes-20260102-030405-1"}`)) // the test below fails without an answer
	}))
	t.Cleanup(server.Close)
	dir := t.TempDir()
	for _, source := range []string{"terraform/smoke", "shared/client"} {
		if err := os.CopyFS(filepath.Join(dir, source), os.DirFS(filepath.Join("..", source))); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-ceuo", "pipefail", b.script(t, "smoke", dir, nil))
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOPROXY=off", "GOFLAGS=", "SMOKE_API_KEY=none", "ADDRESS=",
		"RELEASE=20260102-030405", "URL="+server.URL)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "Only health was tested") {
		t.Errorf("error = %v, want a test of health only\n%s", err, out)
	}
}

const imageOfBuild = "europe-west4-docker.pkg.dev/project-1/test/controlplane@sha256:" +
	"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// submission is a build that deploy.sh submitted.
type submission struct {
	config, source, ignore, account, staging, region, machine string
	substitutions                                             map[string]string
}

// submissions reads the builds from recorded calls.
func submissions(t *testing.T, calls string) []submission {
	t.Helper()
	var all []submission
	for line := range strings.Lines(calls) {
		_, args, isBuild := strings.Cut(strings.TrimSpace(line), " builds submit ")
		if !isBuild {
			continue
		}
		s := submission{substitutions: map[string]string{}}
		for i, arg := range strings.Fields(strings.ReplaceAll(args, `\,`, ",")) {
			name, value, _ := strings.Cut(arg, "=")
			field := map[string]*string{
				"--config": &s.config, "--service-account": &s.account, "--gcs-source-staging-dir": &s.staging,
				"--region": &s.region, "--machine-type": &s.machine, "--ignore-file": &s.ignore,
			}[name]
			switch {
			case i == 0:
				s.source = arg
			case field != nil:
				*field = strings.TrimPrefix(value, "projects/project-1/serviceAccounts/")
			case name == "--substitutions":
				for pair := range strings.SplitSeq(value, ",") {
					key, v, _ := strings.Cut(pair, "=")
					s.substitutions[key] = v
				}
			default:
				t.Errorf("unexpected argument %s", arg)
			}
		}
		all = append(all, s)
	}
	return all
}

// newDeployment is a project with settings, whose builds succeed.
func newDeployment(t *testing.T) project {
	t.Helper()
	p := newProject(t, 100)
	p.settings(t)
	p.answer(t, "image", imageOfBuild+"\n")
	p.answer(t, "deployment", strings.Join([]string{
		"base_url https://api.example.com", "api_address 192.0.2.1", "api_certificate test-api",
		"candidate_url https://api.example.com/candidate", "",
	}, "\n"))
	p.answer(t, "next", "Point api.example.com to 192.0.2.1.\n")
	p.answer(t, "certificate", "ACTIVE\n")
	p.answer(t, "serving", "{}\n")
	// Deployments begin in different seconds.
	p.write(t, filepath.Join(p.bin, "date"), `#!/bin/sh
case "$*" in *.*) echo 20260101.000000; exit ;; esac
n=$(cat "$GCLOUD_STATE/clock" 2>/dev/null || echo 0); echo $((n + 1)) >"$GCLOUD_STATE/clock"; echo 20260201-00000$n
`, 0o755)
	return p
}

func configs(all []submission) []string {
	var names []string
	for _, s := range all {
		names = append(names, s.config)
	}
	return names
}

func equal(a, b submission) bool {
	names := func(s submission) []string {
		var all []string
		for k, v := range s.substitutions {
			all = append(all, k+"="+v)
		}
		slices.Sort(all)
		return append(all, s.config, s.source, s.ignore, s.account, s.staging, s.region, s.machine)
	}
	return slices.Equal(names(a), names(b))
}

// registry answers as a registry of images does, with a digest for each tag.
func registry(w http.ResponseWriter, req *http.Request) {
	digests := map[string]string{"go:1": strings.Repeat("1", 64), "tools/terraform:2": strings.Repeat("2", 64)}
	name, tag, isManifest := strings.Cut(strings.TrimPrefix(req.URL.Path, "/v2/"), "/manifests/")
	digest, known := digests[name+":"+tag]
	if isManifest && !known {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/vnd.oci.image.index.v1+json")
	w.Header().Set("Docker-Content-Digest", "sha256:"+digest)
	w.Header().Set("Content-Length", "2")
	if req.Method == http.MethodGet {
		_, _ = w.Write([]byte("{}")) // the client reports it
	}
}

// TestLock_PinsImagesAndProvider runs the script with a registry, and with a Terraform that writes its arguments.
func TestLock_PinsImagesAndProvider(t *testing.T) {
	t.Parallel()
	testtier.RequireFull(t, "builds the tool that reads digests")
	server := httptest.NewServer(http.HandlerFunc(registry))
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "http://")
	p := newProject(t, 1)
	p.write(t, filepath.Join(p.bin, "terraform"), "#!/bin/sh\necho \"$@\" >.terraform.lock.hcl\n", 0o755)
	for _, name := range []string{"go.mod", "go.sum"} {
		p.write(t, filepath.Join(p.root, ".ci/image", name), read(t, filepath.Join("../.ci/image", name)), 0o600)
	}
	p.write(t, filepath.Join(p.root, "go.mod"), "module test\n", 0o600)
	images := filepath.Join(p.root, "terraform/build/images")
	lock := filepath.Join(p.root, "terraform/build/images.lock")
	p.write(t, images, "# a comment\n\n_GO        "+host+"/go:1\n_TERRAFORM "+host+"/tools/terraform:2\n", 0o600)
	p.succeed(t, "lock.sh")
	want := "_GO=" + host + "/go:1@sha256:" + strings.Repeat("1", 64) + "\n" +
		"_TERRAFORM=" + host + "/tools/terraform:2@sha256:" + strings.Repeat("2", 64) + "\n"
	if got := read(t, lock); got != want {
		t.Errorf("images.lock is\n%s\nwant\n%s", got, want)
	}
	locked := read(t, filepath.Join(p.root, "terraform/.terraform.lock.hcl"))
	if !strings.HasPrefix(locked, "providers lock ") || !strings.Contains(locked, "-platform=linux_amd64") {
		t.Errorf("locks the provider with %q", locked)
	}
	p.write(t, images, "_GO "+host+"/go:unknown\n", 0o600)
	if _, out, err := p.run(t, "lock.sh"); err == nil {
		t.Errorf("an unknown tag ends nothing:\n%s", out)
	}
	if got := read(t, lock); got != want {
		t.Errorf("a failed run leaves\n%s\nwant the former lock", got)
	}
}

// TestLocks_PinWhatTheRepositoryNames compares what lock.sh wrote with what it had to pin. Without the files, the first
// deployment pins what is current on its day.
func TestLocks_PinWhatTheRepositoryNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"build/images.lock", ".terraform.lock.hcl"} {
		if _, err := os.Stat(name); err != nil {
			t.Skipf("terraform/%s is missing: run terraform/lock.sh where the internet is, and commit it", name)
		}
	}
	pinned := read(t, "build/images.lock")
	for line := range strings.Lines(read(t, "build/images")) {
		name, image, is := strings.Cut(strings.TrimSpace(line), " ")
		want := regexp.QuoteMeta(name+"="+strings.TrimSpace(image)) + `@sha256:[0-9a-f]{64}`
		if is && !strings.HasPrefix(name, "#") && !regexp.MustCompile(`(?m)^`+want+`$`).MatchString(pinned) {
			t.Errorf("images.lock does not pin %s: run terraform/lock.sh", line)
		}
	}
	locked := regexp.MustCompile(`version +=? *"(\d+)\.`).FindStringSubmatch(read(t, ".terraform.lock.hcl"))
	if major, _, _ := strings.Cut(readProviderTypes(t).Version, "."); locked == nil || locked[1] != major {
		t.Errorf(".terraform.lock.hcl locks %q, want the major version %s: run terraform/lock.sh", locked, major)
	}
}

// TestPublishing_ReplacesNothing holds the order in which clients are published, and that a published file stays.
func TestPublishing_ReplacesNothing(t *testing.T) {
	t.Parallel()
	p := newProject(t, 100)
	script := builds(t)["cloudbuild.yaml"].script(t, "publish", "/workspace",
		map[string]string{"PROJECT_ID": "project-1", "_ENVIRONMENT": "test"})
	cmd := exec.CommandContext(t.Context(), "bash", "-ceuo", "pipefail", strings.ReplaceAll(script, "gcloud ", "echo "))
	out, err := cmd.CombinedOutput()
	want := ""
	for _, part := range []string{"files", "releases"} { // a list names files that are there
		want += "storage cp --no-clobber --recursive /workspace/published/clients/" + part +
			" gs://project-1-test-builds/clients/\n"
	}
	if err != nil || string(out) != want {
		t.Errorf("publishing runs %s, %v, want %s", out, err, want)
	}
	calls, _ := p.succeed(t, "bootstrap.sh", "project-1", "europe-west4", "test")
	if strings.Contains(calls, "storage.objectUser") || !strings.Contains(calls, "storage.objectCreator") {
		t.Errorf("the builder could replace a file:\n%s", calls)
	}
	if strings.Contains(read(t, "build/lifecycle-builds.json"), "clients") {
		t.Error("the bucket deletes clients, to which lock files refer")
	}
}

// TestDeploy_NamesTheVersionOfTheClients holds that a version belongs to a commit, also in a working copy with
// settings, and that sources without one get a new version.
func TestDeploy_NamesTheVersionOfTheClients(t *testing.T) {
	t.Parallel()
	const ofCommit = "1.20260102.30405"
	for name, row := range map[string]struct {
		commits, changes bool
	}{
		"no repository":   {},
		"a commit":        {commits: true},
		"changed sources": {commits: true, changes: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newDeployment(t)
			p.write(t, filepath.Join(p.root, "terraform/restored.json"), "{}", 0o600)
			if row.commits {
				p.commit(t, "2026-01-02T03:04:05Z")
			}
			if row.changes {
				p.write(t, filepath.Join(p.root, "client.go"), "package client\n", 0o600)
			}
			calls, _ := p.succeed(t, "deploy.sh", "project-1", "europe-west4", "test")
			version := submissions(t, calls)[0].substitutions["_CLIENTS"]
			if at, ok := clientrelease.Time(version); !ok || time.Since(at) < -time.Minute {
				t.Errorf("the version of the clients is %q, want that of a time in the past", version)
			}
			if want := row.commits && !row.changes; (version == ofCommit) != want {
				t.Errorf("the version of the clients is %q, want %q: %t", version, ofCommit, want)
			}
		})
	}
}

// commit makes a repository of the project, with everything but the files of the deployment.
func (p project) commit(t *testing.T, at string) {
	t.Helper()
	require(t, "git")
	for _, args := range [][]string{
		{"init", "--quiet"},
		{"add", "terraform/quotas.csv", "terraform/versions.tf", "terraform/build/images", ":(glob)terraform/*.sh"},
		{"-c", "user.name=ada", "-c", "user.email=ada@example.com", "commit", "--quiet", "--message=one"},
	} {
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", p.root}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_COMMITTER_DATE="+at)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
}
