//go:build unix

package consoletest

import (
	"context"
	"errors"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
)

// point finds where a user would click the element: its middle, after it is scrolled into view and rests. What covers
// the middle is a problem.
const point = `async function(focusing) {
	const frame = () => Promise.race([new Promise(requestAnimationFrame), new Promise(r => setTimeout(r, 200))]);
	const box = () => this.getClientRects()[0];
	if (!box()) return { problem: "is not visible" };
	const middle = b => ({ x: b.left + b.width / 2, y: b.top + b.height / 2 });
	const hit = m => document.elementFromPoint(m.x, m.y);
	const mine = e => e && (this === e || this.contains(e) || e.closest("label")?.control === this);
	if (!mine(hit(middle(box())))) this.scrollIntoView({ block: "center", inline: "nearest", behavior: "instant" });
	const before = middle(box());
	await frame();
	if (!box()) return { problem: "is not visible" };
	const after = middle(box());
	if (before.x !== after.x || before.y !== after.y) return { problem: "moves" };
	const top = hit(after);
	if (!top) return { problem: "is outside of the window" };
	if (!mine(top)) return { problem: "is covered by " + top.outerHTML.slice(0, 120) };
	// The page may change before the click arrives. Then the click must not use what is there: it would be lost.
	const again = e => !this.isConnected && e.closest(this.localName)?.textContent === this.textContent;
	// An element that is replaced while it is pressed gets no click.
	const missed = Symbol.for("consoletest.missed");
	window[missed] = "nothing";
	let pressed = true;
	const watch = new AbortController();
	for (const name of ["pointerdown", "mousedown", "pointerup", "mouseup", "click"]) {
		addEventListener(name, e => {
			const ours = mine(e.target) || again(e.target);
			if (name === "pointerdown") pressed = ours;
			const lost = !pressed || name === "click" && !ours;
			if (lost) { e.preventDefault(); e.stopImmediatePropagation(); }
			if (lost) window[missed] = e.target.outerHTML.slice(0, 120);
			else if (name === "click") window[missed] = "";
			if (name === "mouseup") setTimeout(() => watch.abort());
		}, { capture: true, signal: watch.signal });
	}
	return { value: after };
}`

// Click clicks an element, which must be enabled, visible and not covered. A click that hits another element or none,
// because the page has just changed, does nothing and is repeated.
func (p *Page) Click(role, name string) {
	p.t.Helper()
	l := locator{role: role, name: name}
	what := "click " + l.String()
	p.await(what, func(ctx context.Context) error {
		x, y, err := p.pointOf(ctx, l)
		if err != nil {
			return err
		}
		err = chromedp.Do(ctx, chromedp.Steps(
			chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, x, y), chromedp.MouseClickXY(x, y)))
		if err != nil {
			p.fail(what, err) // the click may have had an effect, so it is not repeated
		}
		missed, err := chromedp.Run(ctx, chromedp.Evaluate[string](clickMissed))
		if err == nil && missed != "" {
			return errors.New("the click hit " + missed)
		}
		return nil // or the click has opened another document or closed the page
	})
}

// clickMissed is what the last click hit instead of its element; empty if it hit the element.
const clickMissed = `window[Symbol.for("consoletest.missed")] ?? ""`

func (p *Page) pointOf(ctx context.Context, l locator) (x, y float64, err error) {
	e, err := p.enabled(ctx, l)
	if err != nil {
		return 0, 0, err
	}
	at, err := onElement[struct{ X, Y float64 }](ctx, e, point)
	return at.X, at.Y, err
}
