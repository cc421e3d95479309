//go:build unix

package consoletest_test

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agents.example/controlplane/emulators/consoletest"
)

// TestPage_GuardsCatchFaults plants each fault in a page, and checks that its test fails with it.
func TestPage_GuardsCatchFaults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		body, script string
		path, file   string // of another page than the site's first
		want         []string
	}{
		"inline script": {
			body: `<script>document.title = "changed"</script>`,
			want: []string{"violation of the Content-Security-Policy: script-src-elem", `"inline"`},
		},
		"inline style": {
			body: `<p style="color: red">Text</p>`,
			want: []string{"violation of the Content-Security-Policy: style-src-attr"},
		},
		"event handler in markup": {
			body: `<button onclick="go()">Go</button>`, script: `document.querySelector("button").click()`,
			want: []string{"violation of the Content-Security-Policy: script-src-attr"},
		},
		"eval": {
			script: `try { eval("1") } catch {}`,
			want:   []string{"violation of the Content-Security-Policy: require-trusted-types-for", "eval|1"},
		},
		"markup from text": {
			script: `try { document.body.innerHTML = "<b>x</b>" } catch {}`,
			want:   []string{"violation of the Content-Security-Policy: require-trusted-types-for"},
		},
		"console.error": {
			script: `console.error("broke", {a: 1}, 7)`,
			want:   []string{"console error: broke Object 7", "/script.js:1"},
		},
		"console.assert": {
			script: `console.assert(false, "not so")`,
			want:   []string{"console error: not so"},
		},
		"uncaught exception": {
			script: `setTimeout(() => { throw new TypeError("oops") })`,
			want:   []string{"uncaught exception: Uncaught TypeError: oops"},
		},
		"unhandled rejection": {
			script: `Promise.reject(new Error("late"))`,
			want:   []string{"uncaught exception: Uncaught (in promise) Error: late"},
		},
		"missing asset": {
			body: `<img src="/file/missing.svg" alt="A chart">`,
			want: []string{"asset that did not load: Image", "/file/missing.svg: status 404"},
		},
		"missing module": {
			script: `import("/file/missing.js").catch(() => {})`,
			want:   []string{"asset that did not load: Script", "/file/missing.js: status 404"},
		},
		"request to another host that the policy blocks": {
			script: `fetch("https://tracker.example/pixel").catch(() => {})`,
			want:   []string{`connect-src blocked "https://tracker.example/pixel"`},
		},
		"request to another host": {
			path: "/file/plain", file: `<!doctype html><link rel="icon" href="data:,"><h1>Test page</h1>
				<img alt="" src="https://tracker.example/pixel?secret=1">`,
			want: []string{"request to another host: https://tracker.example/pixel\n"},
		},
		"no doctype": {
			path: "/file/plain", file: `<html><link rel="icon" href="data:,"><h1>Test page</h1>`,
			want: []string{"issue of the document: quirks mode"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := site(t, c.body, c.script, map[string]string{c.path: c.file})
			got := try(t, server.URL, func(p *consoletest.Page) {
				p.Open(cmp.Or(c.path, "/"))
				p.WaitFor("heading", "Test page")
				p.WaitIdle() // the load event does not wait for a module that a script imports
			})
			for _, want := range c.want {
				if !strings.Contains(got, want) {
					t.Errorf("the failures do not have %q:\n%s", want, got)
				}
			}
		})
	}
}

func TestPage_PassesWithoutFaults(t *testing.T) {
	t.Parallel()
	const script = `const r = await fetch("/file/none"); answer.textContent = "status " + r.status`
	server := site(t, `<p id="answer"></p>`, script, nil)
	dir := t.TempDir()
	got := try(t, server.URL, func(p *consoletest.Page) {
		p.ScreenshotsTo(dir)
		p.Open("/")
		p.WaitText("status 404") // a response to fetch is no fault
		p.Review("page")
	})
	if got != "" {
		t.Errorf("the test failed: %s", got)
	}
	for _, name := range []string{"page-light-360", "page-dark-360", "page-light-1280", "page-dark-1280"} {
		if _, err := os.Stat(filepath.Join(dir, name+".png")); err != nil {
			t.Errorf("screenshot of the review: %v", err)
		}
	}
}

func TestPage_ExpectedFaultsMustOccur(t *testing.T) {
	t.Parallel()
	server := site(t, "", `console.error("wanted")`, nil)
	got := try(t, server.URL, func(p *consoletest.Page) {
		p.Expect("wanted")
		p.Expect("never seen")
		p.Open("/")
	})
	if want := `the page has no fault "never seen", which the test expects`; got != want {
		t.Errorf("failures = %q, want %q", got, want)
	}
}

func TestPage_AxeFailsOnSeriousViolations(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ body, style, want string }{
		"contrast": {
			body: `<p class="faint">Hard to read</p>`, style: `.faint { color: #ccc; background: #fff }`,
			want: "color-contrast (serious)",
		},
		"contrast in the dark theme": {
			body: `<p class="faint">Hard to read</p>`,
			style: `body { background: #fff; color: #000 }
				@media (prefers-color-scheme: dark) { body { background: #111; color: #222 } }`,
			want: "dark at 360 pixels: color-contrast (serious)",
		},
		"contrast in the light theme": {
			body: `<p>Hard to read</p>`,
			style: `body { background: #fff; color: #ccc }
				@media (prefers-color-scheme: dark) { body { background: #111; color: #fff } }`,
			want: "light at 360 pixels: color-contrast (serious)",
		},
		"link without a line in the light theme": {
			body: `<p>Some text with <a href="/file/other">a link</a> inside of it.</p>`,
			style: `body { background: #fff; color: #000 } a { color: #222; text-decoration: none }
				@media (prefers-color-scheme: dark) { a { text-decoration: underline } }`,
			want: "light at 360 pixels: link-in-text-block (serious)",
		},
		"button that only the light theme shows": {
			body:  `<button></button>`,
			style: `@media (prefers-color-scheme: dark) { button { display: none } }`,
			want:  "light at 360 pixels: button-name (critical)",
		},
		"button without a name": {body: `<button></button>`, want: "button-name (critical)"},
		"small target": {
			body:  `<button class="small">A</button><button class="small">B</button>`,
			style: `.small { width: 12px; height: 12px; padding: 0; border: 0; margin: 0; font-size: 8px; color: #000 }`,
			want:  "target-size (serious)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := site(t, c.body, "", map[string]string{"/style.css": c.style})
			got := try(t, server.URL, func(p *consoletest.Page) {
				p.Open("/")
				p.Review("page")
			})
			if !strings.Contains(got, c.want) {
				t.Errorf("the failures do not have %q:\n%s", c.want, got)
			}
		})
	}
}
