//go:build unix

package terraform_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"agents.example/controlplane/functions"
)

// TestMaintenance_DeliversNothingAndKeepsMessages holds that maintenance leads to no delivery, not even one that is
// refused: twenty of these would make a dead letter of a nudge. Nothing but pushes and ticks starts work.
func TestMaintenance_DeliversNothingAndKeepsMessages(t *testing.T) {
	t.Parallel()
	for _, on := range []bool{false, true} {
		everyTopologyWith(t, map[string]cty.Value{"maintenance": cty.BoolVal(on)}, func(t *testing.T, m *module) {
			subscriptions := m.resources(t, "google_pubsub_subscription")
			for _, w := range functions.Workers(functions.Dependencies{}) {
				s := subscriptions[`worker["`+w.Name+`"]`]
				if pushes := text(t, s, "push_config.0.push_endpoint") != "(none)"; pushes == on {
					t.Errorf("maintenance %t: the subscription of %s pushes: %t", on, w.Name, pushes)
				}
				// An empty time to live keeps a subscription that nothing reads.
				if ttl := text(t, s, "expiration_policy.0.ttl"); ttl != "" {
					t.Errorf("maintenance %t: the subscription of %s expires after %s, want never", on, w.Name, ttl)
				}
				if kept := text(t, s, "message_retention_duration"); w.Schedule == "" && kept != "604800s" {
					t.Errorf("maintenance %t: nudges for %s are kept for %s, want seven days", on, w.Name, kept)
				}
			}
			for address, job := range m.resources(t, "google_cloud_scheduler_job") {
				if got := text(t, job, "paused"); (got == "true") != on {
					t.Errorf("maintenance %t: %s is paused: %s", on, address, got)
				}
			}
			for address, s := range m.resources(t, "google_cloud_run_v2_service") {
				if got := variables(t, s)["MAINTENANCE"] == "true"; got != on {
					t.Errorf("maintenance %t: %s has MAINTENANCE: %t", on, address, got)
				}
			}
		})
	}
}

// TestMaintenance_SilencesOnlyAlertsThatItMakesTrue lists the alerts that stay.
func TestMaintenance_SilencesOnlyAlertsThatItMakesTrue(t *testing.T) {
	t.Parallel()
	m := load(t, map[string]cty.Value{"maintenance": cty.True})
	silenced := map[string]bool{}
	for address, alert := range m.resources(t, "google_monitoring_alert_policy") {
		if text(t, alert, "enabled") == "false" {
			silenced[text(t, alert, "display_name")] = true
		}
		if strings.HasPrefix(address, "log[") && text(t, alert, "enabled") != "(none)" {
			t.Errorf("%s can be off, want always on", address)
		}
	}
	want := []string{"The API is out of reach", "The API is failing", "Nudges are waiting"}
	for name := range m.local(t, "silence_windows").AsValueMap() {
		want = append(want, name+" does not run")
	}
	for _, title := range want {
		if !silenced["prod: "+title] {
			t.Errorf("the alert %q is on during maintenance, which makes it true", title)
		}
	}
	if len(silenced) != len(want) {
		t.Errorf("maintenance silences %v, want %q", silenced, want)
	}
	for address, alert := range load(t, nil).resources(t, "google_monitoring_alert_policy") {
		if text(t, alert, "enabled") == "false" {
			t.Errorf("%s is off without maintenance", address)
		}
	}
}

// TestDeploy_DoesNotTestWhatMaintenanceRefuses runs a deployment whose health check cannot succeed.
func TestDeploy_DoesNotTestWhatMaintenanceRefuses(t *testing.T) {
	t.Parallel()
	p := newDeployment(t)
	p.add(t, "deployment", "maintenance on\n")
	calls, _ := p.succeed(t, "deploy.sh", "project-1", "europe-west4", "test")
	// The new revisions, which refuse calls, get the traffic.
	want := []string{"cloudbuild.yaml", "terraform/build/deploy.yaml", "terraform/build/serve.yaml"}
	if got := configs(submissions(t, calls)); !slices.Equal(got, want) {
		t.Errorf("builds = %q, want %q", got, want)
	}
}

// TestDeploy_TestsAReleaseThatServesCalls tests a release while a maintenance begins: in the settings of the working
// copy, with which the next deployment begins it, or after that, when a later release has the traffic.
func TestDeploy_TestsAReleaseThatServesCalls(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ deployed bool }{
		"the next deployment begins it": {},
		"a later release began it":      {deployed: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newDeployment(t)
			args := []string{"project-1", "europe-west4", "test"}
			p.succeed(t, "deploy.sh", args...)
			settings := filepath.Join(p.root, "terraform", "terraform.tfvars")
			p.write(t, settings, read(t, settings)+"maintenance = true\n", 0o600)
			if row.deployed {
				p.answer(t, "objects/project-1-test-terraform/settings/terraform.tfvars", read(t, settings))
				p.answer(t, "serving", `{"a": "a-20260102-000000-1"}`)
				p.answer(t, "objects/project-1-test-terraform/releases/20260102-000000/deployment", "maintenance on\n")
			}
			calls, _ := p.succeed(t, "deploy.sh", append([]string{"--smoke=20260101-000000"}, args...)...)
			want := []string{"terraform/build/smoke.yaml", "terraform/build/serve.yaml"}
			if got := configs(submissions(t, calls)); !slices.Equal(got, want) {
				t.Errorf("builds = %q, want %q", got, want)
			}
		})
	}
}

// TestDeploy_EndsAMaintenanceBeforeItsTest holds that a release is not tested while the workers that serve refuse
// messages: no agent would run, and the maintenance would not end.
func TestDeploy_EndsAMaintenanceBeforeItsTest(t *testing.T) {
	t.Parallel()
	tests, smokes, serves := "cloudbuild.yaml", "terraform/build/smoke.yaml", "terraform/build/serve.yaml"
	applies := "terraform/build/deploy.yaml"
	for name, row := range map[string]struct {
		serving string
		fails   bool
		want    []string
		says    string
	}{
		"a maintenance serves": {
			serving: "maintenance on", want: []string{tests, applies, serves, smokes}, says: "is in service",
		},
		"a maintenance serves, and the test fails": {
			serving: "maintenance on", fails: true, want: []string{tests, applies, serves, smokes},
			says: "failed its test. It has the traffic",
		},
		"calls are served": {
			serving: "maintenance ", want: []string{tests, applies, smokes, serves}, says: "is in service",
		},
		"calls are served, and the test fails": {
			serving: "maintenance ", fails: true, want: []string{tests, applies, smokes},
			says: "failed its test. The traffic stays where it was",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newDeployment(t)
			p.answer(t, "serving", `{"a": "a-20260101-000000-1"}`)
			p.answer(t, "objects/project-1-test-terraform/releases/20260101-000000/deployment", row.serving+"\n")
			if row.fails {
				p.answer(t, "fail-smoke.yaml", "")
			}
			calls, out, err := p.run(t, "deploy.sh", "project-1", "europe-west4", "test")
			if (err != nil) != row.fails || !strings.Contains(out, row.says) {
				t.Errorf("error = %v, want one: %t, and to read %q\n%s", err, row.fails, row.says, out)
			}
			if got := configs(submissions(t, calls)); !slices.Equal(got, row.want) {
				t.Errorf("builds = %q, want %q", got, row.want)
			}
		})
	}
}

// TestMaintenance_IsRecordedOfARelease holds what tells a deployment whether a release refuses calls.
func TestMaintenance_IsRecordedOfARelease(t *testing.T) {
	t.Parallel()
	for maintenance, want := range map[bool]string{true: "on", false: ""} {
		m := load(t, map[string]cty.Value{"maintenance": cty.BoolVal(maintenance)})
		if got, err := m.Output("maintenance"); err != nil || got.AsString() != want {
			t.Errorf("with maintenance %t the output is %v (%v), want %q", maintenance, got, err, want)
		}
	}
}
