package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/image"
	"agents.example/controlplane/shared/image/imagetest"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/release"
)

// admitted are the references that the cells admit.
type admitted struct {
	references []string
	// err is what the cells answer, and settles what they answer to Settle.
	err, settles error
}

func (a *admitted) Admit(_ context.Context, images []image.Image) error {
	if a.err == nil {
		a.references = append(a.references, referencesOf(images)...)
		slices.Sort(a.references)
		a.references = slices.Compact(a.references)
	}
	return a.err
}

func (a *admitted) Settle(ctx context.Context, list func(context.Context) ([]image.Image, error)) error {
	images, err := list(ctx)
	if err = errors.Join(err, a.err, a.settles); err == nil {
		a.references = referencesOf(images)
		slices.Sort(a.references)
	}
	return err
}

func referencesOf(images []image.Image) (all []string) {
	for _, i := range images {
		for _, v := range i.Versions {
			all = append(all, v.Reference)
		}
	}
	return all
}

// file writes an entry of the catalog to a file and returns its path.
func (f fixture) file(i image.Image) string {
	f.t.Helper()
	b, err := json.Marshal(i)
	if err != nil {
		f.t.Fatal(err)
	}
	return f.text(string(b))
}

func (f fixture) text(text string) string {
	f.t.Helper()
	name := filepath.Join(f.t.TempDir(), "image.json")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
	return name
}

func (f fixture) stored(id string) image.Image {
	f.t.Helper()
	i, err := f.client.Images().Get(f.t.Context(), id)
	if err != nil {
		f.t.Fatal(err)
	}
	return i
}

// runs makes an agent run a version of an image.
func (f fixture) runs(i image.Image, version int) agent.Agent {
	f.t.Helper()
	f.run("set-plan -organization org_1 -plan enterprise")
	a, err := f.client.WorkerStore().Update(f.t.Context(), f.create(plan.Hobby), func(a *agent.Agent) {
		a.Image.Choice = image.Choice{
			ID: i.ID, Version: i.Versions[version].Version, Reference: i.Versions[version].Reference,
		}
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return a
}

func (f fixture) wantAdmitted(what string, want ...string) {
	f.t.Helper()
	slices.Sort(want)
	if diff := cmp.Diff(want, f.cells.references); diff != "" && len(want)+len(f.cells.references) > 0 {
		f.t.Errorf("%s: the cells admit (-want +got):\n%s", what, diff)
	}
}

func TestImages_PutListShowRemove(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	at := time.Date(2026, time.April, 1, 10, 0, 0, 0, time.UTC)
	f.operator.Now = func() time.Time { return at }
	f.run("images list", "The catalog is empty")
	full := imagetest.Full("assistant")
	f.run("images put "+f.file(full), "assistant with 2 versions", "take 1.1 within 15s")
	got := f.stored("assistant")
	want := full
	want.Versions = slices.Clone(full.Versions)
	for i := range want.Versions {
		want.Versions[i].CreatedAt = at
	}
	want.Revision, want.Rest, want.DefaultBy = got.Revision, got.Rest, "" // a release sets it
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the stored image (-want +got):\n%s", diff)
	}
	f.wantAdmitted("after put", referencesOf([]image.Image{full})...)
	f.run("images list", "IMAGE", "assistant", "1.1", "pro", `"Assistant"`)
	f.runs(full, 1)
	f.run("images show -image assistant", "https://docs.example.com", `"health_path":"/healthz"`, "withdrawn",
		"available, default  1 ", full.Versions[1].Reference)
	f.fail("images remove -image assistant", "1 agents run versions of assistant", "1.1", "-force")
	f.run("images remove -image assistant -force", "no image assistant any more")
	f.wantAdmitted("after remove")
	f.fail("images show -image assistant", "image_not_found")
	f.fail("images remove -image assistant", "image_not_found")
	var line map[string]any
	lines := strings.Split(strings.TrimSpace(f.warnings.String()), "\n")
	if err := json.Unmarshal([]byte(lines[0]), &line); err != nil || len(lines) != 2 {
		t.Fatalf("log = %q, want two lines", lines)
	}
	for key, want := range map[string]any{
		"action": "put", "image": "assistant", "operator": "grace", "note": "on call", "default_version": "1.1",
	} {
		if line[key] != want {
			t.Errorf("%s of the log line = %v, want %v", key, line[key], want)
		}
	}
}

// TestImages_ShowPrintsWhatPutTakes goes through standard input.
func TestImages_ShowPrintsWhatPutTakes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.run("images put " + f.file(imagetest.Full("assistant")))
	before := f.stored("assistant")
	f.operator.In = strings.NewReader(f.run("images show -image assistant -json"))
	f.operator.Now = func() time.Time { return time.Now().Add(time.Hour) }
	f.run("images put -")
	after := f.stored("assistant")
	after.Revision, after.Rest = before.Revision, before.Rest
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("the image (-before +after):\n%s", diff)
	}
}

func TestImages_PutKeepsTheBuildsOfVersions(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.run("images put " + f.file(imagetest.Full("assistant")))
	before := f.stored("assistant")
	before.DefaultBy = "assistant-1"
	if _, err := f.client.Images().Put(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	next := imagetest.Full("assistant")
	next.Versions = append([]image.Version{
		{Version: "2.0", Reference: imagetest.Reference("assistant", "3"), State: image.Available},
	}, next.Versions...)
	next.Versions[1].State, next.DefaultVersion = image.Deprecated, "2.0"
	f.run("images put "+f.file(next), "3 versions", "take 2.0")
	after := f.stored("assistant")
	var versions []string
	for _, v := range after.Versions {
		versions = append(versions, v.Version)
	}
	if want := []string{"1.0", "1.1", "2.0"}; !slices.Equal(versions, want) {
		t.Errorf("versions = %v, want %v, the newest last", versions, want)
	}
	if after.DefaultBy != "assistant-1" {
		t.Errorf("the default version is of the release %q, want it kept", after.DefaultBy)
	}
	if got, want := after.Versions[0].CreatedAt, before.Versions[0].CreatedAt; !got.Equal(want) {
		t.Errorf("version 1.0 was created at %v, want %v still", got, want)
	}
	next.Versions[0].Reference = imagetest.Reference("assistant", "4")
	next.Versions[2].Reference = imagetest.Reference("assistant", "5")
	f.fail("images put "+f.file(next), "version 2.0 is "+imagetest.Reference("assistant", "3"), "version 1.1 is ",
		"add another version")
	if got := f.stored("assistant"); got.Revision != after.Revision {
		t.Error("a refused put changed the image")
	}
	f.wantAdmitted("after a refused put", referencesOf([]image.Image{after})...)
}

func TestImages_PutRefusesWhatIsNoEntry(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	bad := imagetest.Full("Bad")
	bad.Name, bad.DefaultVersion, bad.Port, bad.Env = "", "3.0", 80, image.Env{{Name: "1"}, {Name: "PORT"}}
	for name, row := range map[string]struct {
		text string
		want []string
	}{
		"every rule that it breaks": {
			text: f.file(bad), want: []string{
				`id "Bad"`, "name is missing", `default_version "3.0"`, "port: want a port",
				`env: "1"`, `env: PORT: the platform sets it`,
			},
		},
		"a field that is unknown": {text: f.text(`{"id": "a", "colour": "red"}`), want: []string{`unknown field "colour"`}},
		"two entries":             {text: f.text(`{"id": "a"} {"id": "b"}`), want: []string{"more than one entry"}},
		"no JSON":                 {text: f.text("id: a"), want: []string{"no entry of the catalog"}},
		"no file":                 {text: "missing.json", want: []string{"missing.json"}},
		"no argument":             {want: []string{"FILE is missing; usage: images put [-force] FILE"}},
		"two files":               {text: "a b", want: []string{`"b" is not a flag`}},
	} {
		t.Run(name, func(*testing.T) { f.fail("images put "+row.text, row.want...) })
	}
	f.run("images list", "The catalog is empty")
	f.wantAdmitted("after refused puts")
}

// TestImages_AgentsKeepTheirVersions drops a version that agents run, and one that none runs.
func TestImages_AgentsKeepTheirVersions(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	full := imagetest.Full("assistant")
	f.run("images put " + f.file(full))
	a := f.runs(full, 0)
	f.runs(full, 0)
	newest := full
	newest.Versions = full.Versions[1:]
	f.fail("images put "+f.file(newest), "2 agents run versions of assistant that would go (1.0)", "-force")
	f.wantAdmitted("after a refused put", referencesOf([]image.Image{full})...)
	if _, err := f.client.WorkerStore().Update(t.Context(), a,
		func(a *agent.Agent) { a.Image.Reference = full.Versions[1].Reference }); err != nil {
		t.Fatal(err)
	}
	f.fail("images put "+f.file(newest), "1 agents run")
	f.run("images put -force " + f.file(newest))
	f.wantAdmitted("after put -force", referencesOf([]image.Image{newest})...)
	only := full
	only.Versions = full.Versions[:1]
	only.Versions[0].State, only.DefaultVersion = image.Available, "1.0"
	f.fail("images put "+f.file(only), "1 agents run versions of assistant that would go (1.1)")
}

// TestImages_OpenReleasesKeepTheirVersions holds that -force does not help.
func TestImages_OpenReleasesKeepTheirVersions(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	full := imagetest.Full("assistant")
	f.run("images put " + f.file(full))
	r, err := f.client.Releases().Create(t.Context(), release.Release{
		Image: full.ID, Target: image.Choice{ID: full.ID, Version: "1.1"}, State: release.Running,
		CreatedAt: time.Now(),
	})
	if err != nil {
		t.Fatal(err)
	}
	withdrawn, dropped := imagetest.Full("assistant"), imagetest.Full("assistant")
	withdrawn.Versions[0].State, withdrawn.Versions[1].State = image.Available, image.Withdrawn
	withdrawn.DefaultVersion = "1.0"
	dropped.Versions = dropped.Versions[1:]
	f.run("images put " + f.file(full))
	for _, command := range []string{
		"images put -force " + f.file(withdrawn), "images put -force " + f.file(dropped),
		"images remove -image assistant -force",
	} {
		f.fail(command, "release "+r.ID+" to version 1.1 is running")
	}
	r.State = release.Done
	if _, err := f.client.Releases().Save(t.Context(), r, nil); err != nil {
		t.Fatal(err)
	}
	f.run("images put " + f.file(withdrawn))
	f.run("images remove -image assistant")
}

// TestImages_ChangeNothingWithoutTheCells holds that the catalog never names a build that a cell refuses.
func TestImages_ChangeNothingWithoutTheCells(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.run("images put " + f.file(imagetest.Full("assistant")))
	f.cells.err = errors.New(`cell "a" does not answer`)
	for _, command := range []string{
		"images put " + f.file(imagetest.Full("other")), "images remove -image assistant",
	} {
		f.fail(command, `cell "a" does not answer`, "the catalog is as it was")
	}
	f.fail("images admit", `cell "a" does not answer`)
	if output := f.run("images list", "assistant"); strings.Contains(output, "other") {
		t.Errorf("the catalog is\n%s\nwant it as before", output)
	}
	f.cells.err, f.cells.settles = nil, errors.New(`cell "a" does not answer`)
	f.fail("images remove -image assistant", "the catalog has changed", "run operator images admit")
	f.run("images list", "The catalog is empty")
	f.cells.settles = nil
	f.run("images admit", "All cells admit")
	f.wantAdmitted("after admit")
}

// TestImages_AdmitTeachesANewCell forgets what the cells admit.
func TestImages_AdmitTeachesANewCell(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.run("images put " + f.file(imagetest.Full("assistant")))
	f.cells.references = []string{"a build that is not in the catalog"}
	f.run("images admit")
	f.wantAdmitted("after admit", referencesOf([]image.Image{imagetest.Full("assistant")})...)
}
