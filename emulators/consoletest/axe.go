//go:build unix

package consoletest

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// axeSource is axe-core. Its license is in the same directory.
//
//go:embed testdata/axe.min.js
var axeSource string

// runAxe is a function that runs all rules, with that of the size of targets (WCAG 2.2), which is off by default. After
// a change of the theme, it runs only the rules that look at colors if the last run was of the same document with the
// same elements in the same places: the other rules would find what they found then. Clocks may go on, and what turns
// may turn: numbers and transforms are not compared.
const runAxe = `async afterTheme => {
	const shape = JSON.stringify([innerWidth, document.documentElement.outerHTML.replace(/\d+/g, "0"),
		...[...document.querySelectorAll("*")].map(e => [e.offsetLeft, e.offsetTop, e.offsetWidth, e.offsetHeight,
			e.checked, e.checkVisibility({ opacityProperty: true, visibilityProperty: true })])]);
	const colorsOnly = afterTheme && shape === globalThis.checkedShape;
	globalThis.checkedShape = shape;
	const all = { rules: { "target-size": { enabled: true } } };
	const colors = { runOnly: { type: "rule", values: ["color-contrast", "link-in-text-block"] } };
	const r = await axe.run(document, { resultTypes: ["violations"], ...(colorsOnly ? colors : all) });
	return JSON.stringify(r.violations.map(v => ({
		rule: v.id, impact: v.impact, help: v.help, url: v.helpUrl,
		nodes: v.nodes.map(n => ({selector: n.target.flat(9).join(" "), html: n.html, summary: n.failureSummary})),
	})));
}`

// AxeViolation is a rule of accessibility that a page breaks.
type AxeViolation struct {
	Rule, Impact, Help, URL string
	Nodes                   []struct{ Selector, HTML, Summary string }
}

// String formats a violation with the elements that have it.
func (v AxeViolation) String() string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s (%s): %s, %s", v.Rule, v.Impact, v.Help, v.URL)
	for _, n := range v.Nodes {
		summary := strings.ReplaceAll(n.Summary, "\n", "\n      ")
		fmt.Fprintf(&out, "\n    %s\n      %s\n      %s", n.Selector, n.HTML, summary)
	}
	return out.String()
}

// Axe fails the test on violations of accessibility whose impact is serious or critical. It logs the others.
func (p *Page) Axe() { p.t.Helper(); p.reportAxe(p.AxeViolations()) }

func (p *Page) reportAxe(violations []AxeViolation) {
	p.t.Helper()
	for _, v := range violations {
		where := fmt.Sprintf("%s at %d pixels: %s", p.tab.theme, p.tab.width, v)
		if v.Impact == "serious" || v.Impact == "critical" {
			p.t.Errorf("accessibility, %s", where)
		} else {
			p.t.Logf("accessibility, %s", where)
		}
	}
}

// AxeViolations returns all violations.
func (p *Page) AxeViolations() []AxeViolation { p.t.Helper(); return p.axeViolations(false) }

// axeViolations returns all violations, or those that a change of the theme after the last call may have caused. axe
// runs in an isolated world, so the page cannot see it.
func (p *Page) axeViolations(afterTheme bool) []AxeViolation {
	p.t.Helper()
	Eval[int](p, settle)
	tree := call(p, page.GetFrameTree, cdp.Empty{})
	world := call(p, page.CreateIsolatedWorld,
		page.CreateIsolatedWorldParams{FrameID: tree.FrameTree.Frame.ID, WorldName: "axe"})
	in := func(e *runtime.EvaluateParams) { e.ContextID = world.ExecutionContextID }
	ctx, cancel := p.bounded()
	defer cancel()
	loaded, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("typeof axe === 'object'", in))
	if err == nil && !loaded {
		_, err = chromedp.Run(ctx, chromedp.Evaluate[bool](axeSource+"\n;true", in))
	}
	if err != nil {
		p.fail("load axe", err)
	}
	run := fmt.Sprintf("(%s)(%t)", runAxe, afterTheme)
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string](run, in, chromedp.EvalAwaitPromise))
	if err != nil {
		p.fail("run axe", err)
	}
	var violations []AxeViolation
	if err := json.Unmarshal([]byte(text), &violations); err != nil {
		p.fail("read the result of axe", err)
	}
	return violations
}
