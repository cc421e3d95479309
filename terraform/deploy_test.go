//go:build unix

package terraform_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/zclconf/go-cty/cty"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"agents.example/controlplane/emulators/cluster"
	"agents.example/controlplane/emulators/clustertest"
	"agents.example/controlplane/emulators/dataplane"
	"agents.example/controlplane/infra/gke/cellwatch"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/dataplane/notifier"
	"agents.example/controlplane/shared/dataplane/router"
	"agents.example/controlplane/shared/provisioning"
	"agents.example/controlplane/terraform/cell"
)

// TestDeploy_RunsFourBuildsWithTheRightsOfEach holds what each build is given.
func TestDeploy_RunsFourBuildsWithTheRightsOfEach(t *testing.T) {
	t.Parallel()
	calls, out := newDeployment(t).succeed(t, "deploy.sh", "project-1", "europe-west4", "test")
	got := submissions(t, calls)
	if len(got) != 4 {
		t.Fatalf("builds = %q, want four", configs(got))
	}
	release, version := got[0].substitutions["_RELEASE"], got[0].substitutions["_CLIENTS"]
	if !regexp.MustCompile(`^\d{8}-\d{6}$`).MatchString(release) {
		t.Errorf("release = %q, want a time", release)
	}
	for i, want := range []submission{
		{
			config: "cloudbuild.yaml", source: ".", account: "test-builder@project-1.iam.gserviceaccount.com",
			staging: "gs://project-1-test-builds/source", substitutions: map[string]string{
				"_REGION": "europe-west4", "_GO": "go@sha256:1", "_CLOUD_SDK": "sdk@sha256:3", "_RELEASE": release,
				"_CLIENTS": version,
			},
		},
		{
			config: "terraform/build/deploy.yaml", source: ".",
			account: "test-deployer@project-1.iam.gserviceaccount.com",
			staging: "gs://project-1-test-terraform/source", substitutions: map[string]string{
				"_IMAGE": imageOfBuild, "_TERRAFORM": "terraform@sha256:2", "_CLOUD_SDK": "sdk@sha256:3",
				"_RELEASE": release, "_REGION": "europe-west4",
			},
		},
		{
			config: "terraform/build/smoke.yaml", source: ".", ignore: "terraform/build/smoke.ignore",
			account: "test-smoke@project-1.iam.gserviceaccount.com",
			staging: "gs://project-1-test-builds/smoke", substitutions: map[string]string{
				"_URL": "https://api.example.com/candidate", "_ADDRESS": "192.0.2.1", "_GO": "go@sha256:1",
				"_RELEASE": release,
			},
		},
		{
			config: "terraform/build/serve.yaml", source: ".",
			account: "test-deployer@project-1.iam.gserviceaccount.com",
			staging: "gs://project-1-test-terraform/source", substitutions: map[string]string{
				"_URL": "https://api.example.com", "_ADDRESS": "192.0.2.1", "_CLOUD_SDK": "sdk@sha256:3",
				"_RELEASE": release, "_REGION": "europe-west4",
			},
		},
	} {
		want.region = "global"
		want.substitutions["_ENVIRONMENT"] = "test"
		if !equal(got[i], want) {
			t.Errorf("build %d is\n%+v\nwant\n%+v", i+1, got[i], want)
		}
	}
	wantParts(t, "the output", out, "is in service: https://api.example.com", "Point api.example.com to 192.0.2.1.")
	for _, want := range []string{
		"gs://project-1-test-builds/releases/" + release + "/image",
		"gs://project-1-test-terraform/releases/" + release + "/deployment",
	} {
		if !strings.Contains(calls, "storage cat "+want) {
			t.Errorf("does not read %s:\n%s", want, calls)
		}
	}
}

// TestDeploy_StopsAtTheFirstFailure runs deployments that end early.
func TestDeploy_StopsAtTheFirstFailure(t *testing.T) {
	t.Parallel()
	first, second, third := "cloudbuild.yaml", "terraform/build/deploy.yaml", "terraform/build/smoke.yaml"
	fourth, record := "terraform/build/serve.yaml", "storage cat gs://project-1-test-terraform/releases/serving"
	compared := []string{"project-1", "europe-west4", "test"}
	args := append([]string{"--skip-quotas"}, compared...)
	tfvars := filepath.Join("terraform", "terraform.tfvars")
	for name, row := range map[string]struct {
		prepare  func(t *testing.T, p project)
		args     []string
		want     []string
		succeeds bool
		says     []string
	}{
		"tests fail": {
			prepare: func(t *testing.T, p project) { p.answer(t, "fail-cloudbuild.yaml", "") },
			args:    args, want: []string{first},
		},
		"Terraform fails": {
			prepare: func(t *testing.T, p project) {
				p.answer(t, "fail-deploy.yaml", "")
				p.answer(t, "serving", `{"a": "a-20260101-000000-1", "b": "b-20260101-000000-2"}`)
			},
			args: args, want: []string{first, second},
			says: []string{"was not deployed. In service: 20260101-000000. If", "--serve=RELEASE"},
		},
		"smoke test fails": {
			prepare: func(t *testing.T, p project) { p.answer(t, "fail-smoke.yaml", "") },
			args:    args, want: []string{first, second, third},
			says: []string{"failed its test. The traffic stays where it was. In service: no release that was tested"},
		},
		"traffic cannot be directed": {
			prepare: func(t *testing.T, p project) {
				p.answer(t, "fail-serve.yaml", "")
				p.answer(t, "serving", `{"a": "a-20260101-000000-1"}`)
			},
			args: args, want: []string{first, second, third, fourth},
			says: []string{"In service: 20260101-000000. Repeat it"},
		},
		"newer release that is in service": {
			prepare: func(t *testing.T, p project) { p.answer(t, "serving", `{"a": "a-29991231-000000-1"}`) },
			args:    args, want: []string{first, second, third},
			says: []string{"Release 29991231-000000 is newer than ", "--serve="},
		},
		"what is in service cannot be read before the test": {
			prepare: func(t *testing.T, p project) { p.answer(t, "refusals", record+"\n") },
			args:    args, want: []string{first, second},
			says: []string{"could not be read, and the traffic stays where it is. Go on with --smoke="},
		},
		"what is in service cannot be read after the test": {
			prepare: func(t *testing.T, p project) {
				p.answer(t, "serving", `{"a": "a-29991231-000000-1"}`)
				script := "#!/bin/sh\necho '" + record + "' >\"$GCLOUD_STATE/refusals\"\n"
				p.write(t, filepath.Join(p.state, "build-smoke.yaml"), script, 0o755)
			},
			args: args, want: []string{first, second, third},
			says: []string{"could not be read, and the traffic stays where it is. Go on with --smoke="},
		},
		"whether a maintenance serves cannot be read": {
			prepare: func(t *testing.T, p project) {
				p.answer(t, "serving", `{"a": "a-20260101-000000-1"}`)
				p.answer(t, "refusals", "releases/20260101-000000/deployment\n")
			},
			args: args, want: []string{first, second},
			says: []string{"could not be read, and the traffic stays where it is. Go on with --smoke="},
		},
		"Terraform fails, and what is in service cannot be read": {
			prepare: func(t *testing.T, p project) {
				p.answer(t, "fail-deploy.yaml", "")
				p.answer(t, "refusals", record+"\n")
			},
			args: args, want: []string{first, second},
			says: []string{"was not deployed. What is in service could not be read. If"},
		},
		"back to a former release while what is in service cannot be read": {
			prepare: func(t *testing.T, p project) { p.answer(t, "refusals", record+"\n") },
			args:    append([]string{"--serve=20260101-000000"}, args...), want: []string{fourth}, succeeds: true,
		},
		"back to a former release from a newer one": {
			prepare: func(t *testing.T, p project) { p.answer(t, "serving", `{"a": "a-29991231-000000-1"}`) },
			args:    append([]string{"--serve=20260101-000000"}, args...), want: []string{fourth}, succeeds: true,
		},
		"back to a former release": {
			args: append([]string{"--serve=20260101-000000"}, args...), want: []string{fourth}, succeeds: true,
			says: []string{"Release 20260101-000000 is in service"},
		},
		"smoke test of a release": {
			args: append([]string{"--smoke=20260101-000000"}, args...), want: []string{third, fourth}, succeeds: true,
		},
		"image of elsewhere": {
			prepare: func(t *testing.T, p project) {
				p.answer(t, "image", strings.Replace(imageOfBuild, "project-1", "other", 1))
			},
			args: args, want: []string{first}, says: []string{"no image of the registry test"},
		},
		"image that brings a substitution": {
			prepare: func(t *testing.T, p project) { p.answer(t, "image", imageOfBuild+",_TERRAFORM=mine") },
			args:    args, want: []string{first}, says: []string{"no image of the registry test"},
		},
		"image by tag": {
			args: append([]string{"--image=europe-west4-docker.pkg.dev/project-1/test/controlplane:1"}, args...),
			says: []string{"no image of the registry test"},
		},
		"former image": {
			args: append([]string{"--image=" + imageOfBuild}, args...), want: []string{second, third, fourth},
			succeeds: true,
		},
		"certificate that is not issued": {
			prepare: func(t *testing.T, p project) { p.answer(t, "certificate", "PROVISIONING\n") },
			args:    args, want: []string{first, second}, succeeds: true,
			says: []string{
				"Point api.example.com to 192.0.2.1.", "was not tested: the certificate of https://api.example.com is PROVISIONING",
			},
		},
		"no domain": {
			prepare: func(t *testing.T, p project) {
				p.answer(t, "deployment", strings.Join([]string{
					"base_url https://test-routes-1.europe-west4.run.app", "api_address ", "api_certificate ",
					"candidate_url https://candidate---test-routes-1.europe-west4.run.app", "",
				}, "\n"))
			},
			args: args, want: []string{first, second, third, fourth}, succeeds: true, says: []string{"run.app"},
		},
		"smoke test of no release": {
			prepare: func(t *testing.T, p project) { p.answer(t, "deployment", "") },
			args:    append([]string{"--smoke=20260101-000000"}, args...), says: []string{"was not deployed"},
		},
		"versions that cannot be pinned": {
			prepare: func(t *testing.T, p project) {
				removeFile(t, p, "terraform/build/images.lock")
				script := filepath.Join(p.root, "terraform/lock.sh")
				p.write(t, script, "#!/bin/sh\necho nothing pinned\nexit 1\n", 0o755)
			},
			args: args, says: []string{"nothing pinned"},
		},
		"quotas that are too small": {
			prepare: func(t *testing.T, p project) {
				p.setQuota(t, quota{service: "compute.googleapis.com", metric: "NETWORKS", scope: "project"}, 0, 0)
			},
			args: compared, says: []string{"RAISE NETWORKS"},
		},
		"quotas that are too small, skipped": {
			prepare: func(t *testing.T, p project) {
				p.setQuota(t, quota{service: "compute.googleapis.com", metric: "NETWORKS", scope: "project"}, 0, 0)
			},
			args: args, want: []string{first, second, third, fourth}, succeeds: true,
		},
		"no settings": {
			prepare: func(t *testing.T, p project) { removeFile(t, p, tfvars) },
			args:    args, says: []string{"run terraform/bootstrap.sh project-1 europe-west4 test"},
		},
		"settings of another environment": {
			args: []string{"project-1", "europe-west4", "prod"}, says: []string{"terraform.tfvars is not of prod"},
		},
		"settings that are not filled in": {
			prepare: func(t *testing.T, p project) {
				b := read(t, filepath.Join(p.root, tfvars))
				p.write(t, filepath.Join(p.root, tfvars), strings.ReplaceAll(b, "agents.example.net", ""), 0o600)
			},
			args: args, says: []string{"set agent_domain"},
		},
		"state of another environment": {
			prepare: func(t *testing.T, p project) {
				p.write(t, filepath.Join(p.root, "terraform/backend.tf"), `bucket = "project-1-prod-terraform"`, 0o600)
			},
			args: args, says: []string{"backend.tf does not name the bucket project-1-test-terraform"},
		},
		"unknown option": {args: append([]string{"--force"}, args...), says: []string{"usage:"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newDeployment(t)
			if row.prepare != nil {
				row.prepare(t, p)
			}
			calls, out, err := p.run(t, "deploy.sh", row.args...)
			if (err == nil) != row.succeeds {
				t.Errorf("error = %v, want success: %t\n%s", err, row.succeeds, out)
			}
			if got := configs(submissions(t, calls)); !slices.Equal(got, row.want) {
				t.Errorf("builds = %q, want %q", got, row.want)
			}
			wantParts(t, "the output", out, row.says...)
		})
	}
}

// TestDeploy_PrintsTheCommandThatRepeatsTheSmokeTest runs the printed command after the certificate was issued.
func TestDeploy_PrintsTheCommandThatRepeatsTheSmokeTest(t *testing.T) {
	t.Parallel()
	p := newDeployment(t)
	p.answer(t, "certificate", "PROVISIONING\n")
	_, out := p.succeed(t, "deploy.sh", "project-1", "europe-west4", "test")
	printed := regexp.MustCompile(`(?m)^  terraform/deploy\.sh (--smoke=.*)$`).FindStringSubmatch(out)
	if printed == nil {
		t.Fatalf("prints no command:\n%s", out)
	}
	p.answer(t, "certificate", "ACTIVE\n")
	calls, _ := p.succeed(t, "deploy.sh", strings.Fields(printed[1])...)
	want := []string{"terraform/build/smoke.yaml", "terraform/build/serve.yaml"}
	if got := configs(submissions(t, calls)); !slices.Equal(got, want) {
		t.Errorf("builds = %q, want %q", got, want)
	}
}

// TestDeploy_FollowsBootstrap runs the command that bootstrap.sh prints, with the settings that it wrote. Each build
// can read its source, and no other build can write that of the deployment.
func TestDeploy_FollowsBootstrap(t *testing.T) {
	t.Parallel()
	p := newDeployment(t)
	removeFile(t, p, "terraform/terraform.tfvars")
	removeFile(t, p, "terraform/backend.tf")
	granted, out := p.succeed(t, "bootstrap.sh", "project-1", "europe-west4", "test")
	printed := regexp.MustCompile(`(?m)^  terraform/(deploy\.sh) (.*)$`).FindStringSubmatch(out)
	if printed == nil {
		t.Fatalf("prints no command:\n%s", out)
	}
	settings := filepath.Join(p.root, "terraform/terraform.tfvars")
	p.write(t, settings, strings.NewReplacer(`identity_issuer = ""`, `identity_issuer = "https://securetoken.google.com/x"`,
		`agent_domain = ""`, `agent_domain = "agents.example.net"`).Replace(read(t, settings)), 0o600)
	calls, _ := p.succeed(t, printed[1], strings.Fields(printed[2])...)
	if !strings.Contains(calls, "services enable identitytoolkit.googleapis.com") {
		t.Error("does not enable the API of Firebase's accounts")
	}
	grants := grantsOf(granted)
	for _, s := range submissions(t, calls) {
		account := strings.TrimPrefix(strings.Split(s.account, "@")[0], "test-")
		bucket, _, _ := strings.Cut(strings.TrimPrefix(s.staging, "gs://"), "/")
		on := " on storage bucket " + bucket
		if !slices.ContainsFunc([]string{"storage.objectViewer", "storage.admin"}, func(role string) bool {
			return slices.Contains(grants[account], role+on)
		}) {
			t.Errorf("%s cannot read its source in %s", account, bucket)
		}
		for other, roles := range grants {
			for _, r := range roles {
				if s.config == "terraform/build/deploy.yaml" && other != "deployer" && strings.HasSuffix(r, on) {
					t.Errorf("%s has %s, where the source of the deployment is", other, r)
				}
			}
		}
	}
}

// TestDeploy_TakesRegionAndMachineOfBuilds holds the settings for projects that lack quotas.
func TestDeploy_TakesRegionAndMachineOfBuilds(t *testing.T) {
	t.Setenv("BUILD_REGION", "us-west2")
	t.Setenv("BUILD_MACHINE", "e2-highcpu-32")
	calls, _ := newDeployment(t).succeed(t, "deploy.sh", "project-1", "europe-west4", "test")
	for i, s := range submissions(t, calls) {
		machine := map[int]string{0: "e2-highcpu-32"}[i]
		if s.region != "us-west2" || s.machine != machine {
			t.Errorf("build %d runs in %s on %q, want us-west2 and %q", i+1, s.region, s.machine, machine)
		}
	}
}

// TestOutputs_TellDeploymentsWhatToTest holds the outputs that the builds read.
func TestOutputs_TellDeploymentsWhatToTest(t *testing.T) {
	t.Parallel()
	blocks := load(t, nil).Blocks()
	for _, file := range []string{"apply.sh", "apply-cells.sh"} {
		outputs := regexp.MustCompile(`output -raw ([a-z_]+)|\["([a-z_]+)"\]\["value"\]`).FindAllStringSubmatch(
			read(t, file), -1)
		if len(outputs) == 0 {
			t.Errorf("%s reads no output", file)
		}
		for _, m := range outputs {
			if name := m[1] + m[2]; blocks["output."+name] == nil {
				t.Errorf("%s reads the output %s, which does not exist", file, name)
			}
		}
	}
	for name, row := range map[string]struct{ domain, url, certificate string }{
		"no domain": {url: "https://prod-routes-123456789012.us-central1.run.app"},
		"a domain":  {domain: "api.example.com", url: "https://api.example.com", certificate: "prod-api-"},
	} {
		m := load(t, map[string]cty.Value{"domain": cty.StringVal(row.domain)})
		for output, want := range map[string]string{"base_url": row.url, "api_certificate": row.certificate} {
			got, err := m.Output(output)
			if err != nil || !strings.HasPrefix(got.AsString(), want) || want == "" && got.AsString() != "" {
				t.Errorf("%s: %s = %#v (%v), want %q", name, output, got, err, want)
			}
		}
		address, err := m.Output("api_address")
		if err != nil || (address.AsString() == "") != (row.domain == "") {
			t.Errorf("%s: api_address = %#v (%v), want it only with a domain", name, address, err)
		}
	}
}

// canaryHost is the hostname of the canary in the cell of cellObjects.
const canaryHost = cell.CanaryLabel + ".cell.agents.example.net"

// TestCanary_IsReachedAsAnAgent runs the canary's programs in a real cluster, and asks for it through the router.
func TestCanary_IsReachedAsAnAgent(t *testing.T) {
	t.Parallel()
	clustertest.Require(t)
	programs, err := dataplane.Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	image := "image@sha256:" + strings.Repeat("0", 64)
	// The other programs cannot run here.
	options := cluster.Options{Images: map[string]string{image: programs}}
	kubeconfig := clustertest.Start(t, options).Kubeconfig
	f := cellFixture{kubeconfig: kubeconfig, admin: client(t, kubeconfig)}
	f.applyTwice(t, cellObjects(t), func(o *unstructured.Unstructured) bool {
		return served(o) && (o.GetKind() != "Deployment" || o.GetNamespace() == cell.CanaryNamespace)
	})
	r := startRouter(t, f)
	clustertest.Eventually(t, func(ctx context.Context) error {
		got := ask(ctx, r, "/health/ready")
		if got.Code != http.StatusOK {
			return fmt.Errorf("the canary answers %d: %s", got.Code, got.Body)
		}
		return nil
	})
	got := ask(t.Context(), r, "/health/ready")
	want := text(t, load(t, nil).local(t, "uptime_checks"), "cell-us-central1-1.content")
	if !strings.Contains(got.Body.String(), want) {
		t.Errorf("the canary answers %q, and the uptime check looks for %q", got.Body, want)
	}
	if got := ask(t.Context(), r, "/"); got.Code != http.StatusUnauthorized {
		t.Errorf("the canary's dashboard answers %d to anyone, want 401", got.Code)
	}
	checkUnlisted(t, f)
}

// startRouter starts the cell's router, without its network.
func startRouter(t *testing.T, f cellFixture) *router.Router {
	t.Helper()
	agents, err := cellwatch.NewEndpoints(clustertest.Config(t, f.kubeconfigOf(t, routerAccount)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var watching sync.WaitGroup
	watching.Go(func() { agents.Run(ctx) })
	t.Cleanup(func() { stop(); watching.Wait() })
	if err := agents.AwaitSync(t.Context()); err != nil {
		t.Fatal(err)
	}
	r, err := router.New(router.Options{Domain: "cell.agents.example.net", Endpoints: agents})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func ask(ctx context.Context, h http.Handler, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	req := httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil)
	req.Host = canaryHost
	h.ServeHTTP(w, req)
	return w
}

// checkUnlisted holds that no worker takes the canary, which runs, for an agent.
func checkUnlisted(t *testing.T, f cellFixture) {
	t.Helper()
	if found, err := f.clusters(t, collector).Namespaces(t.Context()); err != nil || len(found) != 0 {
		t.Errorf("orphan collection lists %v, %v; want nothing", found, err)
	}
	looks := f.clusters(t, observer)
	if found, err := looks.Pods(t.Context(), "cell"); err != nil || len(found) != 0 {
		t.Errorf("observation lists %v, %v; want nothing", found, err)
	}
	objects, err := looks.Objects(t.Context(), "cell")
	if err != nil {
		t.Fatal(err)
	}
	a := newAgent()
	a.ID = strings.TrimPrefix(cell.CanaryNamespace, "agent-")
	unseen := map[string]bool{}
	for _, d := range objects.Differences(a) {
		unseen[d.Object] = d.Problem == provisioning.Missing || d.Problem == provisioning.Lost
	}
	for _, o := range []string{"Namespace " + cell.CanaryNamespace, "Service agent in " + cell.CanaryNamespace} {
		if !unseen[o] {
			t.Errorf("the drift check sees the canary's %s; unseen: %v", o, unseen)
		}
	}
	checkUnwatched(t, f)
}

// checkUnwatched holds that the notifier reports nothing of the canary.
func checkUnwatched(t *testing.T, f cellFixture) {
	t.Helper()
	seen := &sightings{}
	w, err := cellwatch.NewPods(clustertest.Config(t, f.kubeconfigOf(t, notifierAccount)), seen)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	watching.Go(func() { w.Run(ctx) })
	clustertest.Eventually(t, func(context.Context) error {
		if !w.Synced() {
			return errors.New("the notifier has not listed the pods yet")
		}
		return nil
	})
	stop()
	watching.Wait()
	if len(seen.agents) > 0 {
		t.Errorf("the notifier sees agents %v, want none", seen.agents)
	}
}

// sightings are the agents that a notifier hears of.
type sightings struct{ agents []string }

func (s *sightings) PodFound(id string, _ notifier.Pod) { s.agents = append(s.agents, id) }

func (s *sightings) PodAdded(id string, _ notifier.Pod) { s.agents = append(s.agents, id) }

func (s *sightings) PodChanged(id string, _, _ notifier.Pod) { s.agents = append(s.agents, id) }

func (s *sightings) Gone(id string) { s.agents = append(s.agents, id) }

// TestCanary_HasTheNamesThatTerraformUses compares the names in uptime.tf with those of package cell, and with those
// that the router derives from a hostname.
func TestCanary_HasTheNamesThatTerraformUses(t *testing.T) {
	t.Parallel()
	m := load(t, nil)
	for field, want := range map[string]string{
		"namespace": cell.CanaryNamespace, "slug": cell.CanarySlug, "label": cell.CanaryLabel,
	} {
		if got := text(t, m.local(t, "canary"), field); got != want {
			t.Errorf("local.canary.%s = %q in uptime.tf, want %q", field, got, want)
		}
	}
	id, ok := agent.IDFromHostname(canaryHost, "cell.agents.example.net")
	if !ok || agent.Namespace(id) != cell.CanaryNamespace {
		t.Errorf("%s leads to the namespace %q, want %q", canaryHost, agent.Namespace(id), cell.CanaryNamespace)
	}
	canary := agent.Agent{ID: id, Slug: cell.CanarySlug, Cell: "cell"}
	if got := canary.Hostname(agent.Addresses{Domain: "agents.example.net"}); got != canaryHost {
		t.Errorf("an agent with the canary's names has the hostname %q, want %q", got, canaryHost)
	}
}

// TestCanary_IsReachedByTheRouterOnly holds the network policies between the router and the canary to the design.
func TestCanary_IsReachedByTheRouterOnly(t *testing.T) {
	t.Parallel()
	canary := object[appsv1.Deployment](t, "Deployment", "agent-canary")
	policy := object[networkingv1.NetworkPolicy](t, "NetworkPolicy", "agent-canary")
	if !selects(t, policy.Spec.PodSelector, canary) || len(policy.Spec.Ingress) != 1 || len(policy.Spec.Egress) != 0 {
		t.Fatalf("policy = %+v, want one source for the canary's pods and no destination", policy.Spec)
	}
	gateway := map[string]string{corev1.LabelMetadataName: cell.GatewayNamespace}
	from, port := policy.Spec.Ingress[0].From, policy.Spec.Ingress[0].Ports
	if len(from) != 1 || from[0].IPBlock != nil ||
		!maps.Equal(from[0].NamespaceSelector.MatchLabels, gateway) ||
		!selects(t, *from[0].PodSelector, object[appsv1.Deployment](t, "Deployment", "agent-router")) {
		t.Errorf("sources = %+v, want the router's pods", from)
	}
	if len(port) != 1 || port[0].Port.IntVal != 8080 {
		t.Errorf("ports = %+v, want 8080", port)
	}
	denied := map[string]bool{}
	for _, o := range cellObjects(t) {
		if o.GetKind() == "NetworkPolicy" && o.GetName() == "default-deny" {
			denied[o.GetNamespace()] = true
		}
	}
	if !denied[cell.CanaryNamespace] {
		t.Error("the canary's namespace has no policy that denies what no other policy allows")
	}
	routes := object[networkingv1.NetworkPolicy](t, "NetworkPolicy", "agent-router").Spec.Egress[0]
	namespace := object[corev1.Namespace](t, "Namespace", cell.CanaryNamespace)
	if !labels.SelectorFromSet(routes.To[0].NamespaceSelector.MatchLabels).Matches(labels.Set(namespace.Labels)) {
		t.Errorf("the router may reach namespaces with %v; the canary's has %v", routes.To[0].NamespaceSelector,
			namespace.Labels)
	}
}

// TestCanary_HasNoLabelOfAnAgent holds that no selector by which workers list agents matches an object of the canary.
func TestCanary_HasNoLabelOfAnAgent(t *testing.T) {
	t.Parallel()
	found := 0
	for _, o := range cellObjects(t) {
		if o.GetNamespace() != cell.CanaryNamespace && o.GetName() != cell.CanaryNamespace {
			continue
		}
		found++
		if id, ok := o.GetLabels()["agents.example/agent-id"]; ok {
			t.Errorf("%s %s has the label of agent %s: workers would list it", o.GetKind(), o.GetName(), id)
		}
	}
	if found < 5 {
		t.Errorf("found %d objects of the canary, want at least its namespace, policies, Service and Deployment", found)
	}
	template := object[appsv1.Deployment](t, "Deployment", "agent-canary").Spec.Template
	for _, selected := range []metav1.LabelSelector{
		{MatchLabels: map[string]string{"app.kubernetes.io/managed-by": "agent-control-plane"}},
		{MatchExpressions: []metav1.LabelSelectorRequirement{{
			Key: "agents.example/agent-id", Operator: metav1.LabelSelectorOpExists,
		}}},
	} {
		if s, _ := metav1.LabelSelectorAsSelector(&selected); s.Matches(labels.Set(template.Labels)) {
			t.Errorf("the canary's pods have the labels %v of an agent's", template.Labels)
		}
	}
}
