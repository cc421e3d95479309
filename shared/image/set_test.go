package image_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/image"
	"agents.example/controlplane/shared/plan"
)

// reference is a valid reference of a build that a digit names.
func reference(digit string) string {
	return "registry.example.com/team/image@sha256:" + strings.Repeat(digit, 64)
}

func version(name, digit string, state image.State) image.Version {
	return image.Version{Version: name, Reference: reference(digit), State: state}
}

// fullSet is a catalog with one image whose versions have all states, and a front.
func fullSet() image.Set {
	return image.Set{
		Catalog: []image.Image{
			{
				ID: "assistant", Name: "Assistant", DefaultVersion: "2", MinPlan: plan.Startup,
				Runtime: image.Runtime{Port: 4000, Env: image.Env{{Name: "A", Value: "1"}}},
				Versions: []image.Version{
					version("1", "1", image.Deprecated), version("2", "2", image.Available),
					version("3", "3", image.Available), version("4", "4", image.Withdrawn),
				},
			},
			{
				ID: image.FrontID, Name: "Front", DefaultVersion: "9",
				Versions: []image.Version{version("9", "9", image.Available)},
			},
		},
		BuiltIn: image.BuiltIn{
			Platform: reference("a"), Agent: reference("b"), Cells: map[string]string{"own": reference("c")},
			Runtime: image.Runtime{Port: 5000}, Registries: []string{"registry.example.com/team/"},
		},
	}
}

func planOf(t *testing.T, id plan.ID) plan.Plan {
	t.Helper()
	p, err := plan.Get(id)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestSet_ChoosesWhatAClientAsksFor(t *testing.T) {
	t.Parallel()
	catalog := image.Runtime{Port: 4000, Env: image.Env{{Name: "A", Value: "1"}}}
	settings := image.Runtime{Port: 5000}
	for name, c := range map[string]struct {
		selection string
		cell      string
		want      image.Choice
	}{
		"the default version": {
			selection: "assistant",
			want:      image.Choice{ID: "assistant", Version: "2", Reference: reference("2"), Runtime: catalog},
		},
		"a newer version": {
			selection: "assistant@3",
			want:      image.Choice{ID: "assistant", Version: "3", Reference: reference("3"), Runtime: catalog},
		},
		"a deprecated version": {
			selection: "assistant@1",
			want:      image.Choice{ID: "assistant", Version: "1", Reference: reference("1"), Runtime: catalog},
		},
		"the deployment's image": {
			selection: "default",
			want: image.Choice{
				ID: "default", Version: strings.Repeat("b", 12), Reference: reference("b"), Runtime: settings,
			},
		},
		"the image of a cell": {
			selection: "default", cell: "own",
			want: image.Choice{
				ID: "default", Version: strings.Repeat("c", 12), Reference: reference("c"), Runtime: settings,
			},
		},
		"a custom image": {
			selection: reference("d"),
			want: image.Choice{
				ID: image.CustomID, Version: strings.Repeat("d", 12), Reference: reference("d"), Runtime: settings,
			},
		},
	} {
		got, err := fullSet().Choose(image.Wish{Selection: c.selection, Plan: planOf(t, plan.Startup), Cell: c.cell})
		if err != nil || !got.Same(c.want) || got.Version != c.want.Version {
			t.Errorf("%s: Choose(%q) = %+v, %v; want %+v", name, c.selection, got, err, c.want)
		}
	}
}

func TestSet_RefusesWhatNoAgentMayTake(t *testing.T) {
	t.Parallel()
	noCustom := fullSet()
	noCustom.BuiltIn.Registries = nil
	for name, c := range map[string]struct {
		set       image.Set
		selection string
		plan      plan.ID
		want      fault.Kind
		wantText  string
		wantPlan  plan.ID
	}{
		"an unknown image":    {selection: "unknown", want: fault.Invalid, wantText: `no image "unknown"`},
		"no name":             {selection: "@2", want: fault.Invalid, wantText: `no image ""`},
		"the front":           {selection: image.FrontID, want: fault.Invalid, wantText: `no image "front"`},
		"a version of it":     {selection: "front@9", want: fault.Invalid, wantText: `no image "front"`},
		"an unknown version":  {selection: "assistant@5", want: fault.Invalid, wantText: `no version "5"`},
		"an empty version":    {selection: "assistant@", want: fault.Invalid, wantText: `no version ""`},
		"a withdrawn version": {selection: "assistant@4", want: fault.Invalid, wantText: "was withdrawn"},
		"the id of no entry":  {selection: image.CustomID, want: fault.Invalid, wantText: `no image "custom"`},
		"a plan too small": {
			selection: "assistant", plan: plan.Hobby, want: fault.PaymentRequired, wantText: "startup",
			wantPlan: plan.Startup,
		},
		"a tag": {
			selection: "registry.example.com/team/image:latest", want: fault.Invalid, wantText: "digest",
		},
		"a short digest": {
			selection: "registry.example.com/team/image@sha256:12", want: fault.Invalid, wantText: "digest",
		},
		"a way out of the registry": {
			selection: strings.Replace(reference("d"), "team/", "team/../other/", 1), want: fault.Invalid,
			wantText: "digest",
		},
		"no name of a repository": {
			selection: strings.Replace(reference("d"), "team/", "team/-/", 1), want: fault.Invalid, wantText: "digest",
		},
		"a plan without": {
			selection: reference("d"), plan: plan.Hobby, want: fault.PaymentRequired, wantText: "custom_images",
			wantPlan: plan.Startup,
		},
		"another registry": {
			selection: "evil." + reference("d"), want: fault.Invalid, wantText: "registry.example.com/team/",
		},
		"another repository": {
			selection: strings.Replace(reference("d"), "team", "teams", 1), want: fault.Invalid, wantText: "registry",
		},
		"no custom images": {
			set: noCustom, selection: reference("d"), want: fault.Invalid, wantText: "allows no custom",
		},
		"nothing of a service": {set: image.Set{BuiltIn: image.BuiltIn{Registries: []string{"a/"}}}, selection: "default", want: fault.Invalid, wantText: `no image "default"`},
	} {
		if c.plan == "" {
			c.plan = plan.Startup
		}
		if c.set.Catalog == nil && c.set.BuiltIn.Registries == nil {
			c.set = fullSet()
		}
		got, err := c.set.Choose(image.Wish{Selection: c.selection, Plan: planOf(t, c.plan)})
		var f *fault.Error
		if !errors.As(err, &f) || f.Kind != c.want || !strings.Contains(textOf(f), c.wantText) {
			t.Errorf("%s: Choose(%q) = %+v, %v; want kind %v with %q", name, c.selection, got, err, c.want, c.wantText)
			continue
		}
		if f.Meta["resource_plan"] != c.wantPlan && c.wantPlan != "" {
			t.Errorf("%s: meta is %v, want the plan %s, which helps", name, f.Meta, c.wantPlan)
		}
		if c.want == fault.Invalid && !slices.Equal(f.Violations[0].Loc, []any{"body", "image"}) {
			t.Errorf("%s: the violation is at %v, want body.image", name, f.Violations[0].Loc)
		}
	}
}

// textOf is everything that a client reads of an error.
func textOf(f *fault.Error) string {
	text := f.Error()
	for _, v := range f.Violations {
		text += " " + v.Msg
	}
	return text
}

func TestSet_KnowsWhatIsCurrentAndWhatIsAvailable(t *testing.T) {
	t.Parallel()
	withdrawn := fullSet()
	withdrawn.Catalog[0].Versions[1].State = image.Withdrawn // the default one
	for name, c := range map[string]struct {
		set           image.Set
		id, runs      string
		cell          string
		wantCurrent   string
		wantAvailable string
	}{
		"an older version":           {id: "assistant", runs: "1", wantCurrent: "2", wantAvailable: "2"},
		"the default version":        {id: "assistant", runs: "2", wantCurrent: "2"},
		"a newer version":            {id: "assistant", runs: "3", wantCurrent: "2"},
		"a newer one, withdrawn":     {id: "assistant", runs: "4", wantCurrent: "2", wantAvailable: "2"},
		"a version that was removed": {id: "assistant", runs: "0", wantCurrent: "2", wantAvailable: "2"},
		"a withdrawn default":        {set: withdrawn, id: "assistant", runs: "1"},
		"a removed image":            {id: "former", runs: "1"},
		"a custom image":             {id: image.CustomID, runs: strings.Repeat("d", 12)},
		"the deployment's image": {
			id: "default", runs: "old", wantCurrent: strings.Repeat("b", 12), wantAvailable: strings.Repeat("b", 12),
		},
		"a cell's image": {
			id: "default", cell: "own", runs: strings.Repeat("c", 12), wantCurrent: strings.Repeat("c", 12),
		},
	} {
		if c.set.Catalog == nil {
			c.set = fullSet()
		}
		current, ok := c.set.Current(c.id, c.cell)
		if ok != (c.wantCurrent != "") || ok && current.Version != c.wantCurrent {
			t.Errorf("%s: Current = %s, %t; want %q", name, current.Version, ok, c.wantCurrent)
		}
		if got := c.set.Available(image.Choice{ID: c.id, Version: c.runs}, c.cell); got != c.wantAvailable {
			t.Errorf("%s: Available = %q, want %q", name, got, c.wantAvailable)
		}
	}
}

func TestSet_ListsWhatClientsMayChoose(t *testing.T) {
	t.Parallel()
	ids := func(s image.Set) (ids []string) {
		for _, i := range s.Listed() {
			ids = append(ids, i.ID)
		}
		return ids
	}
	described := fullSet()
	described.Catalog = append(described.Catalog, image.Image{ID: "default", DefaultVersion: "1"})
	for name, c := range map[string]struct {
		set  image.Set
		want []string
	}{
		"a catalog":              {set: fullSet(), want: []string{"assistant", "default"}},
		"the default in it":      {set: described, want: []string{"assistant", "default"}},
		"a service without one":  {set: image.Set{BuiltIn: fullSet().BuiltIn}, want: []string{"default"}},
		"a service without both": {},
	} {
		if got := ids(c.set); !slices.Equal(got, c.want) {
			t.Errorf("%s: lists %v, want %v", name, got, c.want)
		}
	}
	if i, _ := described.Get("default", "own"); i.DefaultVersion != "1" {
		t.Errorf("the catalog's default has version %s, want 1: it replaces the deployment's", i.DefaultVersion)
	}
}

// TestSet_RunsTheSampleWithoutAnImage: a deployment that names no image of agents runs the sample agent of the
// platform.
func TestSet_RunsTheSampleWithoutAnImage(t *testing.T) {
	t.Parallel()
	set := image.Set{BuiltIn: image.BuiltIn{Platform: reference("a"), Cells: map[string]string{"own": reference("c")}}}
	for cell, want := range map[string]struct {
		reference string
		sample    bool
	}{"": {reference("a"), true}, "own": {reference("c"), false}} {
		got, ok := set.Current("default", cell)
		if !ok || got.Reference != want.reference || (len(got.Command) > 0) != want.sample {
			t.Errorf("cell %q runs %s with the command %v, want %s, the sample's command: %t", cell, got.Reference,
				got.Command, want.reference, want.sample)
		}
	}
}

func TestSet_KnowsTheNewerOfTwoVersions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		version, than string
		want          bool
	}{
		{version: "2", than: "1", want: true},
		{version: "1", than: "2"},
		{version: "2", than: "2"},
		{version: "2", than: "unknown"},
		{version: "unknown", than: "2"},
	} {
		if got := fullSet().Newer("assistant", "", c.version, c.than); got != c.want {
			t.Errorf("%s is newer than %s: %t, want %t", c.version, c.than, got, c.want)
		}
	}
}

func TestChoice_IsTheSameIfItRunsTheSameBuildInTheSameWay(t *testing.T) {
	t.Parallel()
	base := image.Choice{ID: "i", Version: "1", Reference: reference("1"), Runtime: image.Runtime{
		Port: 1, APIPort: 2, HealthPath: "/h", BusyPath: "/b", Auth: "front", Command: []string{"c"},
		Args: []string{"a"}, Env: image.Env{{Name: "N", Value: "v"}},
	}}
	renamed := base
	renamed.Version = "2"
	if !base.Same(base.Clone()) || !base.Same(renamed) {
		t.Error("a copy, or another name of the same build, is not the same")
	}
	for name, change := range map[string]func(c *image.Choice){
		"id":          func(c *image.Choice) { c.ID = "j" },
		"reference":   func(c *image.Choice) { c.Reference = reference("2") },
		"port":        func(c *image.Choice) { c.Port = 3 },
		"api_port":    func(c *image.Choice) { c.APIPort = 3 },
		"health_path": func(c *image.Choice) { c.HealthPath = "/" },
		"busy_path":   func(c *image.Choice) { c.BusyPath = "/" },
		"auth":        func(c *image.Choice) { c.Auth = "image" },
		"command":     func(c *image.Choice) { c.Command[0] = "d" },
		"args":        func(c *image.Choice) { c.Args[0] = "b" },
		"env":         func(c *image.Choice) { c.Env[0].Value = "w" },
	} {
		other := base.Clone()
		change(&other)
		if base.Same(other) {
			t.Errorf("%s: a choice with another one is the same", name)
		}
	}
}

func TestChoice_HasTheNameThatClientsUse(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		choice             image.Choice
		wantName, wantHash string
	}{
		{},
		{
			choice:   image.Choice{ID: "i", Version: "1", Reference: reference("1")},
			wantName: "i@1", wantHash: "sha256:" + strings.Repeat("1", 64),
		},
		{
			choice:   image.Choice{ID: image.CustomID, Version: "1", Reference: reference("1")},
			wantName: reference("1"), wantHash: "sha256:" + strings.Repeat("1", 64),
		},
		{choice: image.Choice{ID: "i", Version: "dev", Reference: "localhost/agent:dev"}, wantName: "i@dev"},
	} {
		if got := c.choice.String(); got != c.wantName {
			t.Errorf("name = %q, want %q", got, c.wantName)
		}
		if got := c.choice.Digest(); got != c.wantHash {
			t.Errorf("digest = %q, want %q", got, c.wantHash)
		}
	}
}
