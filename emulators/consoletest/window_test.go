//go:build unix

package consoletest_test

import (
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/emulators/consoletest"
)

const windows = `<button id="open">Open window</button>
	<a href="/file/other" target="_blank" rel="noopener">Other page</a>
	<button id="save">Save report</button><button id="copy">Copy</button><p id="result"></p>
	<button id="load">Load</button>`

const windowsScript = `
	const byId = id => document.getElementById(id), show = text => byId("result").textContent = text;
	byId("open").addEventListener("click", () => open("/file/other", "", "popup"));
	byId("copy").addEventListener("click", async () => {
		await navigator.clipboard.writeText("copied text");
		show("copied");
	});
	byId("save").addEventListener("click", () => {
		const a = document.createElement("a");
		a.href = URL.createObjectURL(new Blob(["line 1\n"], {type: "application/x-ndjson"}));
		a.download = "report.ndjson";
		a.click();
	});
	byId("load").addEventListener("click", () => fetch("/file/data").then(
		async r => show(r.status + " " + await r.text() + " " + r.headers.get("X-Request-Id")), e => show(e.name)));
	document.addEventListener("visibilitychange", () => show("now " + document.visibilityState));`

func windowsPage(t *testing.T) *consoletest.Page {
	t.Helper()
	p := suite.NewPage(t, site(t, windows, windowsScript, map[string]string{
		"/file/other": `<!doctype html><html lang="en"><link rel="icon" href="data:,"><title>Other</title><h1>Other</h1>`,
		"/file/data":  "from the service",
	}).URL)
	p.Open("/")
	return p
}

func TestPage_FollowsNewWindows(t *testing.T) {
	t.Parallel()
	p := windowsPage(t)
	for role, name := range map[string]string{"button": "Open window", "link": "Other page"} {
		other := p.Popup(func() { p.Click(role, name) })
		other.WaitFor("heading", "Other")
		if !strings.HasSuffix(other.URL(), "/file/other") {
			t.Errorf("address of the window = %q", other.URL())
		}
	}
	closing := p.Popup(func() { p.Click("button", "Open window") })
	closing.Closes(func() { consoletest.Eval[any](closing, "(setTimeout(close), 0)") })
	p.WaitFor("heading", "Test page")
}

// hops is a page that goes to the other name of this machine, and back, until its number is 0. Each hop leaves for
// another process of the browser, as a link to an agent's dashboard does.
const hops = `<!doctype html><html lang="en"><link rel="icon" href="data:,"><title>Hop</title><h1></h1><script>
	const left = Number(location.hash.slice(1)), other = location.hostname === "localhost" ? "127.0.0.1" : "localhost";
	document.querySelector("h1").textContent = left === 0 ? "Arrived" : "Under way";
	if (left > 0) location.replace("http://" + other + ":" + location.port + "/file/hops#" + (left - 1));
	</script>`

// TestPage_FollowsNewWindowsThatNavigate attaches to windows that keep changing their process: the browser answers the
// commands that are under way then with an error.
func TestPage_FollowsNewWindowsThatNavigate(t *testing.T) {
	t.Parallel()
	server := site(t, `<a href="/file/hops#6" target="_blank" rel="noopener">Dashboard</a>`, "",
		map[string]string{"/file/hops": hops})
	p := suite.NewPage(t, server.URL, strings.Replace(server.URL, "127.0.0.1", "localhost", 1))
	p.Open("/")
	for range 3 {
		other := p.Popup(func() { p.Click("link", "Dashboard") })
		other.WaitFor("heading", "Arrived")
	}
}

// TestPage_ClickThatMissesDoesNothing moves another button under the pointer when the click arrives.
func TestPage_ClickThatMissesDoesNothing(t *testing.T) {
	t.Parallel()
	p := suite.NewPage(t, site(t, `<button id="keep">Keep</button><p id="result"></p>`, `
		const show = text => { document.getElementById("result").textContent += text + "."; };
		const keep = document.getElementById("keep"), other = document.createElement("button");
		other.textContent = "Drop";
		for (const name of ["pointerdown", "mousedown", "click"]) other.addEventListener(name, () => show(name));
		keep.addEventListener("click", () => show("kept"));
		keep.addEventListener("pointermove", () => keep.before(other), {once: true});`,
		map[string]string{"/style.css": `button { display: block; width: 100px; height: 40px }`}).URL)
	p.Open("/")
	p.Click("button", "Keep")
	p.WaitText("kept")
	if got := consoletest.Eval[string](p, `document.getElementById("result").textContent`); got != "kept." {
		t.Errorf("the page shows %q, want no effect of the click that missed", got)
	}
}

// TestPage_FillRepeatsLostText fills a field that the page empties when the first text arrives.
func TestPage_FillRepeatsLostText(t *testing.T) {
	t.Parallel()
	p := suite.NewPage(t, site(t, `<label>Name <input id="name"></label>`, `
		document.getElementById("name").addEventListener("input", e => { e.target.value = ""; }, {once: true});`, nil).URL)
	p.Open("/")
	p.Fill("Name", "support bot")
	if got := p.WaitFor("textbox", "Name").Value; got != "support bot" {
		t.Errorf("the field has %q, want the text", got)
	}
}

func TestPage_ReceivesDownloads(t *testing.T) {
	t.Parallel()
	p := windowsPage(t)
	name, content := p.Download(func() { p.Click("button", "Save report") })
	if name != "report.ndjson" || string(content) != "line 1\n" {
		t.Errorf("download = %q with %q", name, content)
	}
	p.Hide(true)
	p.WaitText("now hidden")
	p.Hide(false)
	p.WaitText("now visible")
}

// TestPage_ReadsTheClipboard does not run in parallel to others: see Page.Clipboard.
func TestPage_ReadsTheClipboard(t *testing.T) {
	p := windowsPage(t)
	p.Click("button", "Copy")
	p.WaitText("copied")
	if got := p.Clipboard(); got != "copied text" {
		t.Errorf("clipboard = %q", got)
	}
}

func TestPage_GetsPlannedResponses(t *testing.T) {
	t.Parallel()
	p := windowsPage(t)
	load := func(want string) {
		t.Helper()
		p.Click("button", "Load")
		p.WaitText(want)
	}
	load("200 from the service null")
	hold := make(chan struct{})
	p.Respond("GET", "/file/data", consoletest.Response{Hold: hold, Times: 1})
	p.Respond("GET", "/file/data", consoletest.Response{Lost: true, Times: 1})
	p.Respond("GET", "/file/data", consoletest.Response{
		Status: 503, Body: `{"code": "x"}`, Header: map[string]string{"X-Request-Id": "r1"}, Times: 1,
	})
	p.Respond("POST", "/file/data", consoletest.Response{Status: 500})
	load(`503 {"code": "x"} r1`)
	load("TypeError")
	p.Click("button", "Load")
	p.WaitText("TypeError")
	close(hold)
	p.WaitText("200 from the service null")
}

// TestPage_IsIdleAfterCanceledRequests cancels requests that wait for their answer: by the page, and by its end.
func TestPage_IsIdleAfterCanceledRequests(t *testing.T) {
	t.Parallel()
	for name, cancel := range map[string]string{
		"by the page":            "controller.abort()",
		"by another document":    `location.href = "/file/other"`,
		"by the same page again": "location.reload()",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := windowsPage(t)
			hold := make(chan struct{})
			p.Respond("GET", "/file/data", consoletest.Response{Hold: hold})
			consoletest.Eval[int](p, `(window.controller = new AbortController(),
				fetch("/file/data", {signal: controller.signal}).catch(() => {}), 0)`)
			consoletest.Eval[any](p, "("+cancel+", 0)")
			close(hold)
			p.WaitIdle()
		})
	}
}

func TestPage_ActionsFailWithWhatThePageShows(t *testing.T) {
	t.Parallel()
	server := site(t, form, formScript, nil)
	for name, c := range map[string]struct {
		act  func(*consoletest.Page)
		want []string
	}{
		"ambiguous": {
			act:  func(p *consoletest.Page) { p.Click("button", "Open") },
			want: []string{`click button "Open": timed out after 5s`, `2 elements match button "Open"`, "text:\nTest page"},
		},
		"missing": {
			act:  func(p *consoletest.Page) { p.Click("button", "Ope") },
			want: []string{`the page has no button "Ope"`, "page: " + server.URL},
		},
		"disabled": {
			act:  func(p *consoletest.Page) { p.Click("button", "Save") },
			want: []string{`button "Save" is disabled: Enter a name first.`},
		},
		"no field": {
			act:  func(p *consoletest.Page) { p.Fill("Save", "text") },
			want: []string{`the page has no field "Save"`},
		},
		"no option": {
			act:  func(p *consoletest.Page) { p.Select("Region", "mars") },
			want: []string{"has no option mars but us-central1, europe-west1"},
		},
		"text": {
			act:  func(p *consoletest.Page) { p.WaitText("Paris") },
			want: []string{`wait until the page shows "Paris"`},
		},
		"exception": {
			act:  func(p *consoletest.Page) { consoletest.Eval[int](p, "missing.field") },
			want: []string{"ReferenceError: missing is not defined"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := try(t, server.URL, func(p *consoletest.Page) {
				p.Open("/")
				c.act(p.Patient(5 * time.Second))
			})
			for _, want := range c.want {
				if !strings.Contains(got, want) {
					t.Errorf("the failure does not have %q:\n%s", want, got)
				}
			}
		})
	}
}
