//go:build unix

package consoletest_test

import (
	"os"
	"strings"
	"testing"

	"agents.example/controlplane/emulators/consoletest"
)

const form = `<form><label>Name <input id="name" required></label>
	<label>Password <input id="password" type="password"></label>
	<label>Region <select id="region"><option>us-central1</option><option>europe-west1</option></select></label>
	<button id="save" disabled aria-describedby="why">Save</button><span id="why">Enter a name first.</span></form>
	<p id="result"></p><dialog id="dialog" aria-labelledby="sure">
	<h2 id="sure">Sure?</h2><button id="yes">Yes</button></dialog>
	<table><tr><th scope="row">first</th><td><button>Open</button></td></tr>
	<tr><th scope="row">second</th><td><button>Open</button></td></tr></table>`

const formScript = `
	const byId = id => document.getElementById(id);
	byId("name").addEventListener("input", e => { byId("save").disabled = !e.target.value });
	document.querySelector("form").addEventListener("submit", e => { e.preventDefault(); byId("dialog").showModal() });
	byId("yes").addEventListener("click", () => {
		byId("dialog").close();
		byId("result").textContent = [byId("name").value, byId("password").value, byId("region").value].join(" / ");
	});
	document.querySelectorAll("table button").forEach(b => b.addEventListener("click", () => {
		byId("result").textContent = "opened " + b.closest("tr").cells[0].textContent;
	}));
	document.addEventListener("keydown", e => {
		if (e.key === "k" && e.ctrlKey) byId("result").textContent = "searching";
	});`

func TestPage_ActsAsAUser(t *testing.T) {
	t.Parallel()
	p := suite.NewPage(t, site(t, form, formScript, nil).URL)
	p.Open("/")
	save := p.WaitFor("button", "Save")
	if !save.Disabled || save.Description != "Enter a name first." {
		t.Errorf("Save = %+v, want it disabled with a description", save)
	}
	p.Fill("Name", "draft")
	p.Fill("Name", "support bot")
	p.Fill("Password", "hunter2")
	p.Select("Region", "europe-west1")
	p.Click("button", "Save")
	dialog := p.Within("dialog", "Sure?")
	if got := dialog.Text(); !strings.Contains(got, "Yes") || strings.Contains(got, "Region") {
		t.Errorf("text of the dialog = %q", got)
	}
	dialog.Click("button", "Yes")
	p.WaitText("support bot / hunter2 / europe-west1")
	p.WaitGone("dialog", "Sure?")
	p.Containing("row", "second").Click("button", "Open")
	p.WaitText("opened second")
	p.Press("Control+k")
	p.WaitText("searching")
}

// TestPage_RepeatsAClickThatTheElementLost replaces a button while it is pressed: the browser sends it no click.
func TestPage_RepeatsAClickThatTheElementLost(t *testing.T) {
	t.Parallel()
	p := suite.NewPage(t, site(t, "<p id=place><button>Save</button></p><p id=result></p>", `
	const place = document.getElementById("place");
	place.addEventListener("mousedown", () => place.replaceChildren(place.firstChild.cloneNode(true)), { once: true });
	place.addEventListener("click", e => {
		if (e.target !== place) document.getElementById("result").textContent += "saved.";
	});`, nil).URL)
	p.Open("/")
	p.Click("button", "Save")
	p.WaitText("saved.")
	if strings.Contains(p.Text(), "saved.saved.") {
		t.Error("the button was clicked twice")
	}
}

func TestPage_WorksWithTheKeyboard(t *testing.T) {
	t.Parallel()
	p := suite.NewPage(t, site(t, form, formScript, nil).URL)
	p.Open("/")
	p.Press("Tab")
	p.Type("typed")
	if got := p.Focused(); got.Role != "textbox" || got.Name != "Name" || got.Value != "typed" {
		t.Errorf("after Tab, the focus is on %+v, want the field Name with what was typed", got)
	}
	p.Press("Tab")
	p.Press("Shift+Tab")
	if got := p.Focused(); got.Name != "Name" {
		t.Errorf("after Shift+Tab, the focus is on %+v, want the field Name", got)
	}
	p.Press("Enter")
	p.WaitFor("dialog", "Sure?")
	p.Press("Escape")
	p.WaitGone("dialog", "Sure?")
	p.Fill("Name", "")
	p.WaitUntil("button", "Save", "is disabled", func(e consoletest.Element) bool { return e.Disabled })
}

func TestPage_FindsAllElementsThatAreShown(t *testing.T) {
	t.Parallel()
	p := suite.NewPage(t, site(t, form, formScript, nil).URL)
	p.Open("/")
	if got := len(p.All("button", "Open")); got != 2 {
		t.Errorf("number of buttons = %d, want 2", got)
	}
	if got := len(p.All("button", "Yes")); got != 0 {
		t.Errorf("number of buttons in a closed dialog = %d, want 0", got)
	}
}

func TestPage_FollowsThemeWidthAndMotion(t *testing.T) {
	t.Parallel()
	p := suite.NewPage(t, site(t, "<p>Text</p>", "", nil).URL)
	p.Open("/")
	query := func(media string) bool { return consoletest.Eval[bool](p, "matchMedia('"+media+"').matches") }
	p.SetTheme(consoletest.Dark)
	p.SetViewport(360, 800)
	p.ReducedMotion(false)
	p.SetTimezone("America/New_York")
	for _, media := range []string{
		"(prefers-color-scheme: dark)", "(prefers-reduced-motion: no-preference)", "(width: 360px)", "(height: 800px)",
	} {
		if !query(media) {
			t.Errorf("the page does not match %s", media)
		}
	}
	zone := consoletest.Eval[string](p, "Intl.DateTimeFormat().resolvedOptions().timeZone")
	if zone != "America/New_York" {
		t.Errorf("time zone = %q", zone)
	}
	p.ScreenshotsTo(t.TempDir())
	path := p.Screenshot("view of a test")
	if !strings.HasSuffix(path, "view-of-a-test-dark-360.png") {
		t.Errorf("path = %q", path)
	}
	if info, err := os.Stat(path); err != nil || info.Size() == 0 {
		t.Errorf("screenshot: %v", err)
	}
	p.Offline(true)
	if consoletest.Eval[string](p, "fetch('/').then(() => 'answer', e => e.name)") != "TypeError" {
		t.Error("an offline page got an answer")
	}
	p.Offline(false)
	if consoletest.Eval[int](p, "fetch('/').then(r => r.status)") != 200 {
		t.Error("a page that is online again got no answer")
	}
}

func TestPage_PagesShareNothing(t *testing.T) {
	t.Parallel()
	server := site(t, "", "", nil)
	one, other := suite.NewPage(t, server.URL), suite.NewPage(t, server.URL)
	one.Open("/")
	other.Open("/")
	consoletest.Eval[int](one, `(localStorage.setItem("a", "1"), document.cookie = "a=1", 0)`)
	if got := consoletest.Eval[string](other, `String(localStorage.getItem("a")) + document.cookie`); got != "null" {
		t.Errorf("the other page has %q", got)
	}
}

func TestPage_MeasuresTransferAndMemory(t *testing.T) {
	t.Parallel()
	p := suite.NewPage(t, site(t, "", `window.kept = []; window.grow = () => {
		for (let i = 0; i < 200000; i++) kept.push({i});
		for (let i = 0; i < 50; i++) addEventListener("resize", () => i);
	}`, nil).URL)
	p.Open("/")
	before := p.Measure()
	consoletest.Eval[any](p, "(grow(), 0)")
	after := p.Measure()
	if after.HeapBytes-before.HeapBytes < 1<<20 || after.Listeners-before.Listeners != 50 || after.Script <= 0 {
		t.Errorf("before %+v\nafter %+v: want growth", before, after)
	}
	transfers := p.Transfers()
	table := consoletest.TransferTable(transfers)
	if len(transfers) != 3 || !strings.Contains(table, "total of 3 requests") {
		t.Errorf("transfers:\n%s", table)
	}
	for _, one := range transfers {
		if !one.Done || one.Status != 200 || one.Bytes == 0 {
			t.Errorf("transfer = %+v, want a complete one", one)
		}
	}
}
