//go:build unix

package terraform_test

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestDeploy_RunsThreeBuildsWithTheRightsOfEach holds what each build is given.
func TestDeploy_RunsThreeBuildsWithTheRightsOfEach(t *testing.T) {
	t.Parallel()
	calls, out := newDeployment(t).succeed(t.Context(), t, "deploy.sh", "project-1", "europe-west4", "test")
	got := submissions(t, calls)
	if len(got) != 3 {
		t.Fatalf("builds = %q, want three", configs(got))
	}
	release := got[0].substitutions["_RELEASE"]
	if !regexp.MustCompile(`^\d{8}-\d{6}$`).MatchString(release) {
		t.Errorf("release = %q, want a time", release)
	}
	for i, want := range []submission{
		{
			config: "cloudbuild.yaml", source: ".", account: "test-builder@project-1.iam.gserviceaccount.com",
			staging: "gs://project-1-test-builds/source", substitutions: map[string]string{
				"_REGION": "europe-west4", "_GO": "go@sha256:1", "_CLOUD_SDK": "sdk@sha256:3", "_RELEASE": release,
			},
		},
		{
			config: "terraform/build/deploy.yaml", source: ".",
			account: "test-deployer@project-1.iam.gserviceaccount.com",
			staging: "gs://project-1-test-terraform/source", substitutions: map[string]string{
				"_IMAGE": imageOfBuild, "_TERRAFORM": "terraform@sha256:2", "_CLOUD_SDK": "sdk@sha256:3",
				"_RELEASE": release,
			},
		},
		{
			config: "terraform/build/smoke.yaml", source: ".", ignore: "terraform/build/smoke.ignore",
			account: "test-smoke@project-1.iam.gserviceaccount.com",
			staging: "gs://project-1-test-builds/smoke", substitutions: map[string]string{
				"_URL": "https://api.example.com", "_ADDRESS": "192.0.2.1", "_GO": "go@sha256:1",
			},
		},
	} {
		want.region = "global"
		want.substitutions["_ENVIRONMENT"] = "test"
		if !equal(got[i], want) {
			t.Errorf("build %d is\n%+v\nwant\n%+v", i+1, got[i], want)
		}
	}
	for _, want := range []string{
		"is deployed and tested: https://api.example.com", "Point api.example.com to 192.0.2.1.",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("does not say %q:\n%s", want, out)
		}
	}
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
	args := []string{"project-1", "europe-west4", "test"}
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
			prepare: func(t *testing.T, p project) { p.answer(t, "fail-deploy.yaml", "") },
			args:    args, want: []string{first, second},
		},
		"smoke test fails": {
			prepare: func(t *testing.T, p project) { p.answer(t, "fail-smoke.yaml", "") },
			args:    args, want: []string{first, second, third},
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
			args: append([]string{"--image=" + imageOfBuild}, args...), want: []string{second, third}, succeeds: true,
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
				p.answer(t, "deployment", "url https://test-routes-1.europe-west4.run.app\naddress \ncertificate \n")
			},
			args: args, want: []string{first, second, third}, succeeds: true, says: []string{"run.app"},
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
			args: args, says: []string{"RAISE NETWORKS"},
		},
		"quotas that are too small, skipped": {
			prepare: func(t *testing.T, p project) {
				p.setQuota(t, quota{service: "compute.googleapis.com", metric: "NETWORKS", scope: "project"}, 0, 0)
			},
			args: append([]string{"--skip-quotas"}, args...), want: []string{first, second, third}, succeeds: true,
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
			calls, out, err := p.run(t.Context(), t, "deploy.sh", row.args...)
			if (err == nil) != row.succeeds {
				t.Errorf("error = %v, want success: %t\n%s", err, row.succeeds, out)
			}
			if got := configs(submissions(t, calls)); !slices.Equal(got, row.want) {
				t.Errorf("builds = %q, want %q", got, row.want)
			}
			for _, want := range row.says {
				if !strings.Contains(out, want) {
					t.Errorf("does not say %q:\n%s", want, out)
				}
			}
		})
	}
}

// TestDeploy_PrintsTheCommandThatRepeatsTheSmokeTest runs the printed command after the certificate was issued.
func TestDeploy_PrintsTheCommandThatRepeatsTheSmokeTest(t *testing.T) {
	t.Parallel()
	p := newDeployment(t)
	p.answer(t, "certificate", "PROVISIONING\n")
	_, out := p.succeed(t.Context(), t, "deploy.sh", "project-1", "europe-west4", "test")
	printed := regexp.MustCompile(`(?m)^  terraform/deploy\.sh (--smoke=.*)$`).FindStringSubmatch(out)
	if printed == nil {
		t.Fatalf("prints no command:\n%s", out)
	}
	p.answer(t, "certificate", "ACTIVE\n")
	calls, _ := p.succeed(t.Context(), t, "deploy.sh", strings.Fields(printed[1])...)
	if got := configs(submissions(t, calls)); !slices.Equal(got, []string{"terraform/build/smoke.yaml"}) {
		t.Errorf("builds = %q, want only the smoke test", got)
	}
}

// TestDeploy_FollowsBootstrap runs the command that bootstrap.sh prints, with the settings that it wrote. Each build
// can read its source, and no other build can write that of the deployment.
func TestDeploy_FollowsBootstrap(t *testing.T) {
	t.Parallel()
	p := newDeployment(t)
	removeFile(t, p, "terraform/terraform.tfvars")
	removeFile(t, p, "terraform/backend.tf")
	granted, out := p.succeed(t.Context(), t, "bootstrap.sh", "project-1", "europe-west4", "test")
	printed := regexp.MustCompile(`(?m)^  terraform/(deploy\.sh) (.*)$`).FindStringSubmatch(out)
	if printed == nil {
		t.Fatalf("prints no command:\n%s", out)
	}
	settings := filepath.Join(p.root, "terraform/terraform.tfvars")
	p.write(t, settings, strings.NewReplacer(`identity_issuer = ""`, `identity_issuer = "https://securetoken.google.com/x"`,
		`agent_domain = ""`, `agent_domain = "agents.example.net"`).Replace(read(t, settings)), 0o600)
	calls, _ := p.succeed(t.Context(), t, printed[1], strings.Fields(printed[2])...)
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
	calls, _ := newDeployment(t).succeed(t.Context(), t, "deploy.sh", "project-1", "europe-west4", "test")
	for i, s := range submissions(t, calls) {
		machine := map[int]string{0: "e2-highcpu-32"}[i]
		if s.region != "us-west2" || s.machine != machine {
			t.Errorf("build %d runs in %s on %q, want us-west2 and %q", i+1, s.region, s.machine, machine)
		}
	}
}
