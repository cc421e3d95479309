//go:build unix

package consoletest

import (
	"context"
	"fmt"
	"strings"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// WaitFor waits until the page has exactly one element with a role and a name, and returns it.
func (p *Page) WaitFor(role, name string) Element {
	p.t.Helper()
	return p.WaitUntil(role, name, "exists", func(Element) bool { return true })
}

// WaitUntil waits until an element has a state, such as "is disabled", and returns it.
func (p *Page) WaitUntil(role, name, state string, holds func(Element) bool) Element {
	p.t.Helper()
	l := locator{role: role, name: name}
	var found Element
	p.await("wait until "+l.String()+" "+state, func(ctx context.Context) error {
		all, err := p.find(ctx, l)
		if err != nil {
			return err
		}
		if found, err = only(l, all); err == nil && !holds(found) {
			err = fmt.Errorf("it is %+v", found)
		}
		return err
	})
	return found
}

// WaitGone waits until the page has no element with a role and a name.
func (p *Page) WaitGone(role, name string) {
	p.t.Helper()
	l := locator{role: role, name: name}
	p.await("wait until "+l.String()+" is gone", func(ctx context.Context) error {
		found, err := p.find(ctx, l)
		if err == nil && len(found) > 0 {
			err = fmt.Errorf("the page has %d", len(found))
		}
		return err
	})
}

// All returns the elements with a role and a name now; an empty role or name matches all.
func (p *Page) All(role, name string) (found []Element) {
	p.t.Helper()
	l := locator{role: role, name: name}
	p.await("find all "+l.String(), func(ctx context.Context) (err error) {
		found, err = p.find(ctx, l)
		return err
	})
	return found
}

// WaitText waits until the page shows a text.
func (p *Page) WaitText(text string) { p.t.Helper(); p.waitText(text, true) }

// WaitNoText waits until the page does not show a text.
func (p *Page) WaitNoText(text string) { p.t.Helper(); p.waitText(text, false) }

func (p *Page) waitText(text string, want bool) {
	p.t.Helper()
	what := fmt.Sprintf("wait until the page shows %q: %t", text, want)
	p.await(what, func(ctx context.Context) error {
		shown, err := p.text(ctx)
		if err == nil && strings.Contains(shown, text) != want {
			err = fmt.Errorf("the text contains it: %t", !want)
		}
		return err
	})
}

// Text returns what the page shows as text now.
func (p *Page) Text() (shown string) {
	p.t.Helper()
	p.await("read the text", func(ctx context.Context) (err error) {
		shown, err = p.text(ctx)
		return err
	})
	return shown
}

func (p *Page) text(ctx context.Context) (string, error) {
	root, err := p.root(ctx)
	if err != nil {
		return "", err
	}
	on := func(c *runtime.CallFunctionOnParams) { c.ObjectID = root }
	return chromedp.Run(ctx, chromedp.CallFunctionOn[string](
		`function() { return (this.body ?? this).innerText ?? "" }`, on))
}

// WaitTrue waits until a JavaScript expression is true.
func (p *Page) WaitTrue(expression string) {
	p.t.Helper()
	p.await("wait until "+expression, func(ctx context.Context) error {
		holds, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("!!("+expression+")"))
		if err == nil && !holds {
			err = fmt.Errorf("it is false")
		}
		return err
	})
}

// WaitURL waits until the page's address contains a text.
func (p *Page) WaitURL(part string) {
	p.t.Helper()
	p.WaitTrue(fmt.Sprintf("location.href.includes(%q)", part))
}
