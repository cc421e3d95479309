//go:build unix

package consoletest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// locator names elements by role, and by name or by a text inside. An empty field matches all.
type locator struct{ role, name, inside string }

// String implements fmt.Stringer.
func (l locator) String() string {
	if l.inside != "" {
		return fmt.Sprintf("%s with the text %q", l.role, l.inside)
	}
	return strings.TrimSpace(fmt.Sprintf("%s %q", l.role, l.name))
}

// matches reports whether an element has the locator's name. A name that ends with "*" is the beginning of names.
func (l locator) matches(e Element) bool {
	if prefix, cut := strings.CutSuffix(l.name, "*"); cut {
		return strings.HasPrefix(e.Name, prefix)
	}
	return l.name == "" || e.Name == l.name
}

// Element is what assistive technology knows about an element.
type Element struct {
	Role, Name, Description, Value    string
	Disabled, Focused, Invalid, Modal bool
	// Checked, Pressed, Selected and Expanded are "true", "false" or "mixed", or empty for elements that have no such
	// state.
	Checked, Pressed, Selected, Expanded string

	backend cdp.BackendNodeID
}

func newElement(n *accessibility.Node) Element {
	e := Element{
		Role: text(n.Role), Name: strings.Join(strings.Fields(text(n.Name)), " "), Description: text(n.Description),
		Value: text(n.Value), backend: n.BackendDOMNodeID,
	}
	for _, p := range n.Properties {
		v := text(p.Value)
		switch p.Name {
		case accessibility.PropertyNameDisabled:
			e.Disabled = v == "true"
		case accessibility.PropertyNameFocused:
			e.Focused = v == "true"
		case accessibility.PropertyNameInvalid:
			e.Invalid = v != "" && v != "false"
		case accessibility.PropertyNameModal:
			e.Modal = v == "true"
		case accessibility.PropertyNameChecked:
			e.Checked = v
		case accessibility.PropertyNamePressed:
			e.Pressed = v
		case accessibility.PropertyNameSelected:
			e.Selected = v
		case accessibility.PropertyNameExpanded:
			e.Expanded = v
		default:
		}
	}
	return e
}

// text returns a value of the accessibility tree as text.
func text(v *accessibility.Value) string {
	if v == nil {
		return ""
	}
	var s string
	if json.Unmarshal(v.Value, &s) == nil {
		return s
	}
	return string(v.Value)
}

// find returns the elements of the page's scope that a locator names, in their order in the document.
func (p *Page) find(ctx context.Context, l locator) ([]Element, error) {
	root, err := p.root(ctx)
	if err != nil {
		return nil, err
	}
	return p.query(ctx, root, l)
}

// root returns the object of the scope: the document, or the only element that matches.
func (p *Page) root(ctx context.Context) (runtime.RemoteObjectID, error) {
	result, err := chromedp.Call(ctx, runtime.Evaluate, runtime.EvaluateParams{
		Expression: "document", ObjectGroup: objectGroup,
	})
	if err != nil {
		return "", err
	}
	root := result.Result.ObjectID
	for _, l := range p.scope {
		found, err := p.query(ctx, root, l)
		if err != nil {
			return "", err
		}
		e, err := only(l, found)
		if err != nil {
			return "", err
		}
		if root, err = resolve(ctx, e); err != nil {
			return "", err
		}
	}
	return root, nil
}

// objectGroup holds the references to the page's objects.
const objectGroup = "consoletest"

// query returns the elements below an object that a locator names, without those that assistive technology ignores.
func (p *Page) query(ctx context.Context, root runtime.RemoteObjectID, l locator) ([]Element, error) {
	result, err := chromedp.Call(ctx, accessibility.QueryAXTree,
		accessibility.QueryAXTreeParams{ObjectID: root, Role: l.role})
	if err != nil {
		return nil, err
	}
	var found []Element
	for _, n := range result.Nodes {
		if n.Ignored || n.BackendDOMNodeID == 0 || l.role == "" && isText(text(n.Role)) {
			continue
		}
		e := newElement(n)
		if !l.matches(e) {
			continue
		}
		if l.inside != "" {
			shown, err := onElement[string](ctx, e, `function() { return { value: this.innerText ?? "" } }`)
			if err != nil || !strings.Contains(shown, l.inside) {
				continue // or it is gone
			}
		}
		found = append(found, e)
	}
	return found, nil
}

// isText reports whether a role is one of text, which has no role for assistive technology.
func isText(role string) bool {
	return slices.Contains([]string{"StaticText", "InlineTextBox", "LabelText", "none", "generic"}, role)
}

// only returns the element of a list that has one.
func only(l locator, found []Element) (Element, error) {
	switch len(found) {
	case 0:
		return Element{}, fmt.Errorf("the page has no %s", l)
	case 1:
		return found[0], nil
	}
	var names []string
	for _, e := range found {
		names = append(names, locator{role: e.Role, name: e.Name}.String())
	}
	return Element{}, fmt.Errorf("%d elements match %s; use Within or a longer name: %s", len(found), l,
		strings.Join(names, ", "))
}

func resolve(ctx context.Context, e Element) (runtime.RemoteObjectID, error) {
	result, err := chromedp.Call(ctx, dom.ResolveNode,
		dom.ResolveNodeParams{BackendNodeID: e.backend, ObjectGroup: objectGroup})
	if err != nil {
		return "", fmt.Errorf("%s %q is gone: %w", e.Role, e.Name, err)
	}
	return result.Object.ObjectID, nil
}

// onElement calls a JavaScript function with an element as this. A result with a problem is an error.
func onElement[T any](ctx context.Context, e Element, function string, args ...any) (T, error) {
	var zero T
	object, err := resolve(ctx, e)
	if err != nil {
		return zero, err
	}
	var result struct {
		Problem string
		Value   T
	}
	on := func(c *runtime.CallFunctionOnParams) {
		yes := true
		c.ObjectID, c.AwaitPromise, c.UserGesture = object, &yes, &yes
	}
	raw, err := chromedp.Run(ctx, chromedp.CallFunctionOn[json.RawMessage](function, on, args...))
	if err != nil {
		return zero, err
	}
	if err := json.Unmarshal(raw, &result); err != nil {
		return zero, err
	}
	if result.Problem != "" {
		return zero, errors.New(e.Role + " " + fmt.Sprintf("%q", e.Name) + " " + result.Problem)
	}
	return result.Value, nil
}
