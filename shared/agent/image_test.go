package agent_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agent/agenttest"
	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/egress"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/image"
	"agents.example/controlplane/shared/plan"
)

// edited applies a change with a catalog.
func edited(a agent.Agent, images image.Set, apply func(*agent.Agent) error) (agent.Agent, error) {
	after, _, err := a.Edit(apply, func([]string) (image.Set, error) { return images, nil })
	return after, err
}

// patched applies a client's patch a minute later.
func patched(a agent.Agent, images image.Set, p agent.Patch) (agent.Agent, error) {
	return edited(a, images, func(a *agent.Agent) error { return a.Apply(p, at(60)) })
}

// mustPatch applies a client's patch that must succeed.
func mustPatch(t *testing.T, a agent.Agent, images image.Set, p agent.Patch) agent.Agent {
	t.Helper()
	after, err := patched(a, images, p)
	if err != nil {
		t.Fatalf("patch %+v: %v", p, err)
	}
	return after
}

// withCustom is a catalog that also allows custom images.
func withCustom(current string) image.Set {
	set := twoVersions(current)
	set.BuiltIn.Registries = []string{"registry.example.com/"}
	return set
}

func customReference(digit string) string {
	return "registry.example.com/team/image@sha256:" + strings.Repeat(digit, 64)
}

// customAgent is a running agent with a custom image.
func customAgent(t *testing.T) agent.Agent {
	t.Helper()
	a := agent.New(agenttest.ID(), "cell-1", agent.Draft{Name: "a", Plan: plan.Pro, Image: customReference("1")}, at(0))
	if err := a.ChooseImages(agent.Agent{}, withCustom("1")); err != nil {
		t.Fatal(err)
	}
	a.BecameReady(at(1))
	return a
}

// windowAround returns a window that is open at a time, and none of its other days.
func windowAround(now time.Time) *image.MaintenanceWindow {
	return &image.MaintenanceWindow{
		Days:  []image.Day{image.Day(strings.ToLower(now.UTC().Weekday().String()))},
		Start: now.UTC().Format("15:04"), Hours: 1, Timezone: "UTC",
	}
}

// TestChooseImages_FollowsThePolicyAtEachStart holds for every action that starts a pod. What the pod runs does not
// change otherwise.
func TestChooseImages_FollowsThePolicyAtEachStart(t *testing.T) {
	t.Parallel()
	closed := windowAround(at(60).Add(-2 * time.Hour))
	for name, row := range map[string]struct {
		policy image.Policy
		window *image.MaintenanceWindow
		want   string
	}{
		"none":                {want: "2"},
		"auto":                {policy: image.Auto, want: "2"},
		"in the window":       {policy: image.Window, window: windowAround(at(60)), want: "2"},
		"outside the window":  {policy: image.Window, window: closed, want: "1"},
		"without a window":    {policy: image.Window, want: "1"},
		"pinned":              {policy: image.Pinned, want: "1"},
		"auto with a window":  {policy: image.Auto, window: closed, want: "2"},
		"a later one":         {policy: "of_later", want: "1"},
		"pinned in a windows": {policy: image.Pinned, window: windowAround(at(60)), want: "1"},
	} {
		for _, actions := range [][]agent.Trigger{
			{agent.Stop, agent.Start}, {agent.Pause, agent.Resume}, {agent.Restart},
		} {
			a := runningOn(t)
			a.ImagePolicy, a.MaintenanceWindow = row.policy, row.window
			for _, action := range actions {
				equal(t, name+": version before "+string(action), a.Image.Version, "1")
				a = acted(t, a, action, twoVersions("2"))
			}
			what := name + ", " + string(actions[len(actions)-1])
			equal(t, what+": version", a.Image.Version, row.want)
			equal(t, what+": front", a.Front.Version, "2")
		}
	}
	for name, change := range map[string]func(a *agent.Agent) error{
		"a variable": func(a *agent.Agent) error {
			return a.Apply(agent.Patch{Env: map[string]*string{"LOG_LEVEL": new("debug")}}, at(60))
		},
		"a sandbox": func(a *agent.Agent) error { return a.Migrate(true, at(60)) },
	} {
		a, err := edited(runningOn(t), twoVersions("2"), change)
		equal(t, name+": error", err, nil)
		equal(t, name+": version", a.Image.Version, "1")
		equal(t, name+": front", a.Front.Version, "1")
	}
}

// TestChooseImages_OfAnAgentOfAFormerRelease: its record names no image until it starts.
func TestChooseImages_OfAnAgentOfAFormerRelease(t *testing.T) {
	t.Parallel()
	former := runningOn(t)
	former.Image, former.Front = agent.Software{}, agent.Software{}
	renamed := mustPatch(t, former, twoVersions("2"), agent.Patch{Name: new("b")})
	equal(t, "image after a rename", renamed.Image.ID, "")
	restarted := acted(t, former, agent.Restart, twoVersions("2"))
	equal(t, "image", restarted.Image.String(), "default@2")
	equal(t, "front", restarted.Front.String(), "front@2")
	moved := mustPatch(t, former, twoVersions("2"), agent.Patch{Image: new("default@1")})
	equal(t, "image that its client chose", moved.Image.String(), "default@1")
	without := acted(t, former, agent.Restart, image.Set{})
	equal(t, "image of a service that names none", without.Image.ID, "")
}

// TestChooseImages_OfAnAgentThatBecomesRestricted: the front of a former release may not know the gate.
func TestChooseImages_OfAnAgentThatBecomesRestricted(t *testing.T) {
	t.Parallel()
	former := runningOn(t)
	restrict := agent.Patch{Egress: func(egress.Rules) (egress.Rules, error) {
		return egress.Rules{Mode: egress.AllowList}, nil
	}}
	restricted := mustPatch(t, former, twoVersions("2"), restrict)
	equal(t, "image", restricted.Image.Version, "1")
	equal(t, "front", restricted.Front.Version, "2")
	restrict.Image = new("default@1")
	restricted = mustPatch(t, former, twoVersions("2"), restrict)
	equal(t, "front of one whose client chooses an image", restricted.Front.Version, "2")
}

func TestChooseImages_OfANewAgent(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		selection string
		plan      plan.ID
		want      string
		wantErr   fault.Kind
	}{
		"none":             {plan: plan.Hobby, want: "default@2"},
		"an image":         {selection: "default", plan: plan.Hobby, want: "default@2"},
		"a version":        {selection: "default@1", plan: plan.Hobby, want: "default@1"},
		"a custom image":   {selection: customReference("1"), plan: plan.Startup, want: customReference("1")},
		"an unknown one":   {selection: "other", plan: plan.Startup, wantErr: fault.Invalid},
		"a plan too small": {selection: customReference("1"), plan: plan.Hobby, wantErr: fault.PaymentRequired},
	} {
		a := agent.New(agenttest.ID(), "cell-1", agent.Draft{Name: "a", Plan: row.plan, Image: row.selection}, at(0))
		err := a.ChooseImages(agent.Agent{}, withCustom("2"))
		if row.wantErr != 0 {
			wantKind(t, name, err, row.wantErr, "")
			continue
		}
		equal(t, name+": error", err, nil)
		equal(t, name+": image", a.Image.String(), row.want)
		equal(t, name+": front", a.Front.Version, "2")
		custom := strings.Contains(row.want, "/")
		equal(t, name+": sandbox", a.Sandbox, custom)
		equal(t, name+": pinned", a.ImagePolicy == image.Pinned, custom)
	}
}

func wantKind(t *testing.T, what string, err error, kind fault.Kind, code string) {
	t.Helper()
	var f *fault.Error
	if !errors.As(err, &f) || f.Kind != kind || code != "" && f.Code != code {
		t.Errorf("%s: %v, want kind %v %s", what, err, kind, code)
	}
}

func TestApply_MovesTheAgentToAnotherVersion(t *testing.T) {
	t.Parallel()
	a := runningOn(t)
	a.RevertReason = &agent.Failure{Code: "c"}
	moved := mustPatch(t, a, twoVersions("2"), agent.Patch{Image: new("default")})
	equal(t, "version", moved.Image.Version, "2")
	equal(t, "front, which only starts change", moved.Front.Version, "1")
	equal(t, "wish in the record", moved.ImageWish, nil)
	equal(t, "warming", moved.Warming, true)
	equal(t, "has work", moved.Converged(), false)
	equal(t, "updated at", moved.UpdatedAt, at(60))
	equal(t, "reason to revert", moved.RevertReason, nil)

	same := mustPatch(t, a, twoVersions("2"), agent.Patch{Image: new("default@1")})
	equal(t, "the same version changes nothing", same.Equal(a), true)

	renamed := twoVersions("2")
	renamed.Catalog[0].Versions[1].Reference = renamed.Catalog[0].Versions[0].Reference
	named := mustPatch(t, a, renamed, agent.Patch{Image: new("default@2")})
	equal(t, "other name", named.Image.Version, "2")
	equal(t, "has work because of another name", named.Converged(), true)

	back := mustPatch(t, moved, twoVersions("2"), agent.Patch{Image: new("default@1")})
	equal(t, "older version", back.Image.Version, "1")

	stopped := acted(t, a, agent.Stop, twoVersions("2"))
	stopped.MarkObserved(at(61))
	chosen := mustPatch(t, stopped, twoVersions("2"), agent.Patch{Image: new("default@2")})
	equal(t, "status", chosen.Status, agent.Stopped)
	equal(t, "version of its next start", chosen.Image.Version, "2")
}

// TestApply_TakesTheAgentFromARelease: a client's choice is the client's, so the release counts the agent as
// interrupted.
func TestApply_TakesTheAgentFromARelease(t *testing.T) {
	t.Parallel()
	a := runningOn(t)
	a.MoveTo("release-1", to(image.DefaultID), at(2))
	a = mustPatch(t, a, twoVersions("2"), agent.Patch{Image: new("default@1")})
	equal(t, "state", a.Image.Update.State, agent.UpdateInterrupted)
	equal(t, "version", a.Image.Version, "1")
}

// TestApply_TakesTheAgentFromAReleaseByAnotherName: the release cannot take the agent back from a name that it does not
// know, so a failure is the agent's own.
func TestApply_TakesTheAgentFromAReleaseByAnotherName(t *testing.T) {
	t.Parallel()
	renamed := twoVersions("3")
	third := renamed.Catalog[0].Versions[1]
	third.Version = "3"
	renamed.Catalog[0].Versions = append(renamed.Catalog[0].Versions, third)
	watched := runningOn(t)
	watched.MoveTo("release-1", to(image.DefaultID), at(2))
	patched := mustPatch(t, watched, renamed, agent.Patch{Image: new("default@3")})
	for name, a := range map[string]agent.Agent{
		"patched": patched, "restarted": acted(t, watched, agent.Restart, renamed),
	} {
		equal(t, name+": version", a.Image.Version, "3")
		equal(t, name+": state", a.Image.Update.State, agent.UpdateInterrupted)
		a.GiveUp(agent.Failure{Code: "pod_crash_loop"}, at(61))
		equal(t, name+": status after a failure", a.Status, agent.Error)
		equal(t, name+": has no work after it", a.Converged(), true)
	}
}

func TestApply_RefusesAnotherImage(t *testing.T) {
	t.Parallel()
	set := withCustom("1")
	other := set.Catalog[0]
	other.ID = "other"
	set.Catalog = append(set.Catalog, other)
	for name, row := range map[string]struct {
		before    agent.Agent
		selection string
	}{
		"another entry":                 {before: runningOn(t), selection: "other"},
		"a version of another":          {before: runningOn(t), selection: "other@2"},
		"a custom one":                  {before: runningOn(t), selection: customReference("1")},
		"an entry in place of a custom": {before: customAgent(t), selection: "default"},
		"another than the former releases": {
			before: agent.Agent{ID: "a", Plan: plan.Pro, Status: agent.Running}, selection: "other",
		},
	} {
		after, err := patched(row.before, set, agent.Patch{Image: &row.selection})
		wantKind(t, name, err, fault.Conflict, "image_differs")
		equal(t, name+": changes nothing", after.Equal(row.before), true)
	}
	custom := mustPatch(t, customAgent(t), set, agent.Patch{Image: new(customReference("2"))})
	equal(t, "custom image", custom.Image.Reference, customReference("2"))
	_, err := patched(runningOn(t), set, agent.Patch{Image: new("default@3")})
	wantKind(t, "an unknown version", err, fault.Invalid, "")
}

func TestApply_SchedulesTheImage(t *testing.T) {
	t.Parallel()
	window := windowAround(at(0))
	var none *image.MaintenanceWindow
	for name, row := range map[string]struct {
		patch      agent.Patch
		wantPolicy image.Policy
		wantWindow *image.MaintenanceWindow
		unchanged  bool
	}{
		"pinned": {patch: agent.Patch{ImagePolicy: image.Pinned}, wantPolicy: image.Pinned},
		"window": {
			patch:      agent.Patch{ImagePolicy: image.Window, MaintenanceWindow: &window},
			wantPolicy: image.Window, wantWindow: window,
		},
		"a window to be used":  {patch: agent.Patch{MaintenanceWindow: &window}, wantWindow: window},
		"auto, as before":      {patch: agent.Patch{ImagePolicy: image.Auto}, unchanged: true},
		"no window, as before": {patch: agent.Patch{MaintenanceWindow: &none}, unchanged: true},
	} {
		before := runningOn(t)
		after := mustPatch(t, before, twoVersions("2"), row.patch)
		equal(t, name+": unchanged", after.Equal(before), row.unchanged)
		equal(t, name+": policy", after.ImagePolicy, row.wantPolicy)
		equal(t, name+": window", after.MaintenanceWindow.String(), row.wantWindow.String())
		equal(t, name+": generation", after.Generation, before.Generation)
		equal(t, name+": version", after.Image.Version, "1")
		if !row.unchanged {
			equal(t, name+": updated at", after.UpdatedAt, at(60))
		}
	}
}

func TestApply_RefusesPoliciesThatCannotBeFollowed(t *testing.T) {
	t.Parallel()
	var none *image.MaintenanceWindow
	inWindow := runningOn(t)
	inWindow.ImagePolicy, inWindow.MaintenanceWindow = image.Window, windowAround(at(0))
	for name, row := range map[string]struct {
		before agent.Agent
		patch  agent.Patch
		want   string
	}{
		"no window": {before: runningOn(t), patch: agent.Patch{ImagePolicy: image.Window}, want: "image_policy"},
		"a window that goes": {
			before: inWindow, patch: agent.Patch{MaintenanceWindow: &none}, want: "maintenance_window",
		},
		"both": {
			before: runningOn(t), patch: agent.Patch{ImagePolicy: image.Window, MaintenanceWindow: &none},
			want: "maintenance_window",
		},
	} {
		_, err := patched(row.before, twoVersions("1"), row.patch)
		var f *fault.Error
		if !errors.As(err, &f) || len(f.Violations) != 1 ||
			!slices.Equal(f.Violations[0].Loc, []any{"body", row.want}) {
			t.Errorf("%s: %v, want a violation at body.%s", name, err, row.want)
		}
	}
	gone := mustPatch(t, inWindow, twoVersions("1"), agent.Patch{ImagePolicy: image.Auto, MaintenanceWindow: &none})
	equal(t, "policy", gone.ImagePolicy, image.Auto)
	equal(t, "window", gone.MaintenanceWindow, nil)

	for _, policy := range []image.Policy{image.Auto, image.Window} {
		window := windowAround(at(0))
		_, err := patched(customAgent(t), withCustom("1"),
			agent.Patch{ImagePolicy: policy, MaintenanceWindow: &window})
		wantKind(t, "a custom image with the policy "+string(policy), err, fault.Conflict, "custom_image_pinned")
	}
	pinned := mustPatch(t, customAgent(t), withCustom("1"), agent.Patch{ImagePolicy: image.Pinned})
	equal(t, "policy of a custom image", pinned.ImagePolicy, image.Pinned)
	_, err := edited(customAgent(t), withCustom("1"), func(a *agent.Agent) error { return a.Migrate(false, at(60)) })
	wantKind(t, "a custom image without its sandbox", err, fault.Conflict, "sandbox_required")
}

func TestChanges_NameTheImage(t *testing.T) {
	t.Parallel()
	window := &image.MaintenanceWindow{Days: []image.Day{"monday"}, Start: "02:30", Hours: 2, Timezone: "UTC"}
	before := runningOn(t)
	after, err := patched(before, twoVersions("2"),
		agent.Patch{Image: new("default@2"), ImagePolicy: image.Window, MaintenanceWindow: &window})
	equal(t, "error", err, nil)
	want := []audit.Change{
		{Field: "image", Old: "default@1", New: "default@2"},
		{Field: "image_policy", Old: "auto", New: "window"},
		{Field: "maintenance_window", New: "monday 02:30 for 2 h (UTC)"},
	}
	if got := agent.Changes(before, after); !slices.Equal(got, want) {
		t.Errorf("changes = %v, want %v", got, want)
	}
}
