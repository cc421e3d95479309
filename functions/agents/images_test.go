package agents_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"agents.example/controlplane/functions/backendtest"
	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/event"
	"agents.example/controlplane/shared/image"
	"agents.example/controlplane/shared/plan"
)

// imageOf is the image of an agent in an answer.
func imageOf(t *testing.T, res functiontest.Response) agent.ImageView {
	t.Helper()
	return fieldOf[agent.ImageView](t, res, "image")
}

// createWith creates an agent of org-1 with an image.
func createWith(t *testing.T, b *backendtest.Backend, p plan.ID, selection string) functiontest.Response {
	t.Helper()
	return b.CallNamed(t, "CreateAgent", functiontest.AsAdmin("org-1"),
		functiontest.Body(map[string]any{"name": "a", "resource_plan": p, "image": selection}))
}

func TestListImages_ShowsWhatClientsMayChoose(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	list := func() functiontest.Response {
		return b.CallNamed(t, "ListImages", functiontest.AsMember("org-1")).Want(t, http.StatusOK, "")
	}
	if got, want := string(list().Body), `[{"id":"default","name":"Default","description":"","docs_url":null,`+
		`"min_plan":null,"kernel":"any","default_version":"bbbbbbbbbbbb","versions":[{"version":"bbbbbbbbbbbb","digest":"`+backendtest.Digest("b")+
		`","state":"available","notes":"","created_at":null}]}]`; strings.TrimSpace(got) != want {
		t.Errorf("without a catalog: %s, want %s", got, want)
	}
	b.PutImages(t)
	got := strings.TrimSpace(string(list().Body))
	want := `[{"id":"assistant","name":"Assistant","description":"Answers.","docs_url":null,` +
		`"min_plan":"starter","kernel":"any","default_version":"2","versions":[` +
		`{"version":"2","digest":"` + backendtest.Digest("2") + `","state":"available","notes":"Notes of 2","created_at":null},` +
		`{"version":"1","digest":"` + backendtest.Digest("1") + `","state":"deprecated","notes":"Notes of 1","created_at":null}]},` +
		`{"id":"default",`
	if !strings.HasPrefix(got, want) {
		t.Errorf("with a catalog: %s, want %s…", got, want)
	}
	if strings.Contains(got, backendtest.Registry) {
		t.Errorf("%s names a registry", got)
	}
}

func TestCreate_TakesAnImage(t *testing.T) {
	t.Parallel()
	b := newRoomyBackend(t)
	b.PutImages(t)
	for _, c := range []struct {
		selection, wantID, wantVersion, wantDigest, wantAvailable string
		wantPolicy                                                image.Policy
	}{
		{selection: "assistant", wantID: "assistant", wantVersion: "2", wantDigest: backendtest.Digest("2")},
		{
			selection: "assistant@1", wantID: "assistant", wantVersion: "1", wantDigest: backendtest.Digest("1"),
			wantAvailable: "2",
		},
		{selection: "default", wantID: "default", wantVersion: "bbbbbbbbbbbb", wantDigest: backendtest.Digest("b")},
		{
			selection: "custom.test/own@" + backendtest.Digest("c"), wantID: "custom", wantVersion: "cccccccccccc",
			wantDigest: backendtest.Digest("c"), wantPolicy: image.Pinned,
		},
	} {
		res := createWith(t, b, plan.Startup, c.selection).Want(t, http.StatusCreated, "")
		got := imageOf(t, res)
		if c.wantPolicy == "" {
			c.wantPolicy = image.Auto
		}
		if got.ID != c.wantID || got.Version != c.wantVersion || got.Digest == nil || *got.Digest != c.wantDigest ||
			got.Policy != c.wantPolicy || (got.Available != nil) != (c.wantAvailable != "") {
			t.Errorf("%s: image = %s, want %+v", c.selection, res.Body, c)
		}
		if strings.Contains(string(res.Body), backendtest.Registry) {
			t.Errorf("%s: the answer %s names the operator's registry", c.selection, res.Body)
		}
		if sandbox := strings.Contains(string(res.Body), `"sandbox_enabled":true`); sandbox != (c.wantID == "custom") {
			t.Errorf("%s: sandbox %t", c.selection, sandbox)
		}
	}
}

func TestCreate_RefusesAnImageThatTheAgentMayNotRun(t *testing.T) {
	t.Parallel()
	b := newRoomyBackend(t)
	b.PutImages(t)
	for _, c := range []struct {
		selection string
		plan      plan.ID
		want      int
		wantText  string
	}{
		{selection: "other", plan: plan.Startup, want: 422, wantText: `"loc":["body","image"]`},
		{selection: "assistant@9", plan: plan.Startup, want: 422, wantText: `"loc":["body","image"]`},
		{selection: "assistant@3", plan: plan.Startup, want: 422, wantText: "withdrawn"},
		{selection: "front", plan: plan.Startup, want: 422, wantText: `"loc":["body","image"]`},
		{selection: "", plan: plan.Startup, want: 422, wantText: `"loc":["body","image"]`},
		{selection: strings.Repeat("a", 513), plan: plan.Startup, want: 422, wantText: `"loc":["body","image"]`},
		{selection: "assistant", plan: plan.Hobby, want: 402, wantText: "image_plan_required"},
		{
			selection: "custom.test/own@" + backendtest.Digest("c"), plan: plan.Hobby,
			want: 402, wantText: "custom_images_required",
		},
		{
			selection: "other.test/own@" + backendtest.Digest("c"), plan: plan.Startup,
			want: 422, wantText: "custom.test/",
		},
		{selection: "custom.test/own:latest", plan: plan.Startup, want: 422, wantText: "digest"},
	} {
		res := createWith(t, b, c.plan, c.selection)
		if res.Status != c.want || !strings.Contains(string(res.Body), c.wantText) {
			t.Errorf(
				"%.40s on %s: %d %s, want %d with %s",
				c.selection,
				c.plan,
				res.Status,
				res.Body,
				c.want,
				c.wantText,
			)
		}
		if strings.Contains(string(res.Body), backendtest.Registry) {
			t.Errorf("%.40s: the answer %s names the operator's registry", c.selection, res.Body)
		}
	}
}

func TestUpdate_MovesAndSchedulesTheImage(t *testing.T) {
	t.Parallel()
	b := newRoomyBackend(t)
	b.PutImages(t)
	id := createWith(t, b, plan.Startup, "assistant@1").Want(t, http.StatusCreated, "").Text("id")
	const window = `{"days":["monday"],"start":"02:30","hours":2,"timezone":"Europe/Berlin"}`
	for _, c := range []struct {
		body, wantError string
		want            int
		check           func(v agent.ImageView) bool
	}{
		{
			body: `{"image":"assistant"}`, check: func(v agent.ImageView) bool { return v.Version == "2" && v.Available == nil },
		},
		{
			body: `{"image":"assistant@1"}`, check: func(v agent.ImageView) bool { return v.Version == "1" && *v.Available == "2" },
		},
		{body: `{"image":"default"}`, want: 409, wantError: "image_differs"},
		{body: `{"image":"assistant@3"}`, want: 422, wantError: `["body","image"]`},
		{body: `{"image_policy":"window"}`, want: 422, wantError: `["body","image_policy"]`},
		{body: `{"image_policy":"never"}`, want: 422, wantError: `["body","image_policy"]`},
		{body: `{"image_policy":"pinned"}`, check: func(v agent.ImageView) bool { return v.Policy == image.Pinned }},
		{
			body: `{"image_policy":"window","maintenance_window":` + window + `}`,
			check: func(v agent.ImageView) bool {
				return v.Policy == image.Window &&
					v.MaintenanceWindow.String() == "monday 02:30 for 2 h (Europe/Berlin)"
			},
		},
		{body: `{"name":"b"}`, check: func(v agent.ImageView) bool { return v.MaintenanceWindow != nil }},
		{body: `{"maintenance_window":null}`, want: 422, wantError: `["body","maintenance_window"]`},
		{
			body:  `{"image_policy":"auto","maintenance_window":null}`,
			check: func(v agent.ImageView) bool { return v.Policy == image.Auto && v.MaintenanceWindow == nil },
		},
		{body: `{"maintenance_window":{}}`, want: 422, wantError: `["body","maintenance_window","days"]`},
		{body: `{"maintenance_window":"nights"}`, want: 422, wantError: `["body","maintenance_window"]`},
		{
			body: `{"maintenance_window":{"days":["mon"],"start":"02:30","hours":2,"timezone":"UTC"}}`, want: 422,
			wantError: `["body","maintenance_window","days",0]`,
		},
		{
			body: `{"maintenance_window":{"days":[],"start":"02:30","hours":2,"timezone":"UTC"}}`, want: 422,
			wantError: `["body","maintenance_window","days"]`,
		},
		{
			body: `{"maintenance_window":{"days":["monday"],"start":"2:30","hours":2,"timezone":"UTC"}}`, want: 422,
			wantError: `["body","maintenance_window","start"]`,
		},
		{
			body: `{"maintenance_window":{"days":["monday"],"start":"02:30","hours":25,"timezone":"UTC"}}`, want: 422,
			wantError: `["body","maintenance_window","hours"]`,
		},
		{
			body: `{"maintenance_window":{"days":["monday"],"start":"02:30","hours":1` + strings.Repeat("0", 20) +
				`,"timezone":"UTC"}}`, want: 422, wantError: `["body","maintenance_window","hours"]`,
		},
		{
			body: `{"maintenance_window":{"days":["monday"],"start":"02:30","hours":2,"timezone":"Mars"}}`, want: 422,
			wantError: `["body","maintenance_window","timezone"]`,
		},
		{ // a name that only resembles that of a field is unknown, and hides nothing
			body: `{"maintenance_window":{"days":["monday"],"start":"02:30","hours":2,"timezone":"Mars","Hours":"x"}}`,
			want: 422, wantError: `["body","maintenance_window","timezone"]`,
		},
	} {
		res := patchAgent(t, b, id, c.body)
		if c.want == 0 {
			res.Want(t, http.StatusOK, "")
			if !c.check(imageOf(t, res)) {
				t.Errorf("%s: image = %s", c.body, res.Body)
			}
			continue
		}
		if res.Status != c.want || strings.Count(string(res.Body), `"loc"`) > 4 ||
			!strings.Contains(string(res.Body), c.wantError) {
			t.Errorf("%s: %d %s, want %d with %s", c.body, res.Status, res.Body, c.want, c.wantError)
		}
	}
}

// TestUpdate_ReportsAWrongWindowOnce: the schema and the rules of a window do not report the same.
func TestUpdate_ReportsAWrongWindowOnce(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	id := b.RunningAgent(t, "org-1", nil).ID
	for _, window := range []string{
		`{"days":["mon"],"start":"02:30","hours":2,"timezone":"UTC"}`,
		`{"days":["monday"],"start":"02:30","hours":2}`,
		`{"days":"monday","start":"02:30","hours":2,"timezone":"UTC"}`,
		`{"days":["monday"],"start":"x","hours":2,"timezone":"UTC"}`,
	} {
		res := patchAgent(t, b, id, `{"maintenance_window":`+window+`}`).
			Want(t, http.StatusUnprocessableEntity, "validation_error")
		if n := strings.Count(string(res.Body), `"loc"`); n != 1 {
			t.Errorf("%s: %d violations, want one: %s", window, n, res.Body)
		}
	}
}

func TestUpdate_KeepsACustomImagePinnedInItsSandbox(t *testing.T) {
	t.Parallel()
	b := newRoomyBackend(t)
	id := createWith(
		t,
		b,
		plan.Startup,
		"custom.test/own@"+backendtest.Digest("c"),
	).Want(t, http.StatusCreated, "").
		Text("id")
	patchAgent(t, b, id, `{"image_policy":"auto"}`).Want(t, http.StatusConflict, "custom_image_pinned")
	callAgent(t, b, id, "MigrateAgentSandbox",
		functiontest.RawBody(`{"enabled":false}`)).Want(t, http.StatusConflict, "sandbox_required")
	moved := patchAgent(t, b, id, `{"image":"custom.test/own@`+backendtest.Digest("d")+`"}`).Want(t, http.StatusOK, "")
	if got := imageOf(t, moved); *got.Digest != backendtest.Digest("d") || got.Policy != image.Pinned {
		t.Errorf("image = %s, want the other build, pinned", moved.Body)
	}
}

func TestList_FindsAgentsByTheirImage(t *testing.T) {
	t.Parallel()
	b := newRoomyBackend(t)
	b.PutImages(t)
	for _, selection := range []string{"assistant@1", "assistant@2", "default"} {
		createWith(t, b, plan.Startup, selection).Want(t, http.StatusCreated, "")
	}
	for query, want := range map[string]string{
		"":                          "default assistant@2 assistant@1",
		"image=assistant":           "assistant@2 assistant@1",
		"image=assistant&version=1": "assistant@1",
		"version=2":                 "assistant@2",
		"image=other":               "",
	} {
		values, err := url.ParseQuery(query)
		must(t, err)
		var page []agent.View
		b.CallNamed(t, "ListAgents", functiontest.AsMember("org-1"), functiontest.Query(values)).
			Want(t, http.StatusOK, "").Decode(t, &page)
		var got []string
		for _, v := range page {
			name := v.Image.ID + "@" + v.Image.Version
			if v.Image.ID == "default" {
				name = "default"
			}
			got = append(got, name)
		}
		if found := strings.Join(got, " "); found != want {
			t.Errorf("%s: found %s, want %s", query, found, want)
		}
	}
}

// TestList_EntityTagChangesWithTheCatalog: a client that asks with the entity tag it knows learns of a new version.
func TestList_EntityTagChangesWithTheCatalog(t *testing.T) {
	t.Parallel()
	b := newRoomyBackend(t)
	assistant := b.PutImages(t)
	id := createWith(t, b, plan.Startup, "assistant").Want(t, http.StatusCreated, "").Text("id")
	known := map[string]string{}
	read := func(route string, options ...functiontest.Option) functiontest.Response {
		return b.CallNamed(t, route, append(options, functiontest.AsMember("org-1"))...)
	}
	of := functiontest.Path("agent_id", id)
	known["GetAgent"] = read("GetAgent", of).Header.Get("ETag")
	known["ListAgents"] = read("ListAgents").Header.Get("ETag")
	assistant.Versions[2].State, assistant.DefaultVersion = image.Available, "3"
	must(t, errorOf(b.ReleaseImages.Put(t.Context(), assistant)))
	for route, tag := range known {
		res := read(route, of, functiontest.Header("If-None-Match", tag)).Want(t, http.StatusOK, "")
		if !strings.Contains(string(res.Body), `"available_version":"3"`) {
			t.Errorf("%s: %s, want the available version 3", route, res.Body)
		}
		read(
			route,
			of,
			functiontest.Header("If-None-Match", res.Header.Get("ETag")),
		).Want(t, http.StatusNotModified, "")
	}
	tag := read("GetAgent", of).Header.Get("ETag")
	renamed := b.CallNamed(t, "UpdateAgent", functiontest.AsAdmin("org-1"), of, functiontest.RawBody(`{"name":"b"}`),
		functiontest.Header("If-Match", tag)).Want(t, http.StatusOK, "")
	if renamed.Header.Get("ETag") == tag {
		t.Errorf("the entity tag %s stays after a change", tag)
	}
	b.CallNamed(t, "UpdateAgent", functiontest.AsAdmin("org-1"), of, functiontest.RawBody(`{"name":"c"}`),
		functiontest.Header("If-Match", tag)).Want(t, http.StatusPreconditionFailed, "version_mismatch")
}

// TestRehearsal_ShowsTheImage: a rehearsed call looks the image up, and changes nothing.
func TestRehearsal_ShowsTheImage(t *testing.T) {
	t.Parallel()
	b := newRoomyBackend(t)
	b.PutImages(t)
	id := createWith(t, b, plan.Startup, "assistant@1").Want(t, http.StatusCreated, "").Text("id")
	update := func(body string) functiontest.Response { return patchAgent(t, b, id, body, dryRun()) }
	would := update(`{"image":"assistant"}`).Want(t, http.StatusOK, "")
	if !strings.Contains(string(would.Body), `"image":{"id":"assistant","version":"2"`) {
		t.Errorf("a rehearsed update = %s, want version 2", would.Body)
	}
	same := update(`{"name":"b"}`).Want(t, http.StatusOK, "")
	if !strings.Contains(string(same.Body), `"available_version":"2"`) {
		t.Errorf("a rehearsed rename = %s, want the available version", same.Body)
	}
	update(`{"image":"default"}`).Want(t, http.StatusConflict, "image_differs")
	if got := b.Agent(t, id).Image.Version; got != "1" {
		t.Errorf("version after the rehearsals = %s, want 1", got)
	}
}

// TestEvents_TellClientsOfTheImage: the event of a change is committed with it.
func TestEvents_TellClientsOfTheImage(t *testing.T) {
	t.Parallel()
	b := newRoomyBackend(t)
	b.PutImages(t)
	id := createWith(t, b, plan.Startup, "assistant@1").Want(t, http.StatusCreated, "").Text("id")
	patchAgent(t, b, id, `{"image":"assistant@2"}`).Want(t, http.StatusOK, "")
	found, err := b.Events.List(t.Context(), "org-1", event.Filter{AgentID: id, Type: event.AgentImageUpdated}, "", 10)
	must(t, err)
	const want = `{"image":{"id":"assistant","version":"2"},"previous_version":"1","release_id":null}`
	if len(found.Events) != 1 || string(found.Events[0].Data) != want {
		t.Errorf("events = %v, want one with %s", found.Events, want)
	}
}
