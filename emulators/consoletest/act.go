//go:build unix

package consoletest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// enabled returns the only element that a locator names, if it can be used.
func (p *Page) enabled(ctx context.Context, l locator) (Element, error) {
	found, err := p.find(ctx, l)
	if err != nil {
		return Element{}, err
	}
	e, err := only(l, found)
	if err == nil && e.Disabled {
		err = fmt.Errorf("%s is disabled: %s", l, e.Description)
	}
	return e, err
}

// selectText focuses an element and selects its text, so that typing replaces it.
const selectText = `function() {
	this.scrollIntoView({ block: "nearest", behavior: "instant" });
	this.focus();
	if (document.activeElement !== this) return { problem: "does not take the focus" };
	if (this.select) this.select();
	else getSelection().selectAllChildren(this);
	return { value: this.value ?? this.textContent };
}`

// Fill replaces the text of the field with this label, as typing or pasting does.
func (p *Page) Fill(label, text string) {
	p.t.Helper()
	p.await(fmt.Sprintf("fill %q", label), func(ctx context.Context) error {
		e, err := p.field(ctx, label)
		if err != nil {
			return err
		}
		old, err := onElement[string](ctx, e, selectText)
		if err != nil {
			return err
		}
		switch {
		case text != "":
			_, err = chromedp.Call(ctx, input.InsertText, input.InsertTextParams{Text: text})
		case old != "":
			err = chromedp.Do(ctx, chromedp.KeyEvent(kb.Delete))
		}
		if err != nil {
			return err
		}
		_, err = onElement[string](ctx, e, hasText, text)
		return err
	})
}

// hasText checks the text of a field without showing it: it may be a secret. An empty argument does not arrive.
const hasText = `function(want = "") {
	return (this.value ?? this.textContent) === want ? { value: "" } : { problem: "has another text" };
}`

// field returns the only element with a label that takes text.
func (p *Page) field(ctx context.Context, label string) (Element, error) {
	found, err := p.find(ctx, locator{name: label})
	if err != nil {
		return Element{}, err
	}
	found = slices.DeleteFunc(found, func(e Element) bool {
		return !slices.Contains([]string{"textbox", "searchbox", "combobox", "spinbutton", "Date", "DateTime"}, e.Role)
	})
	e, err := only(locator{role: "field", name: label}, found)
	if err == nil && e.Disabled {
		err = fmt.Errorf("field %q is disabled: %s", label, e.Description)
	}
	return e, err
}

// choose selects the option with a text, and reports it as a user's change.
const choose = `function(text) {
	const option = [...this.options].find(o => o.text.trim() === text && !o.disabled);
	const all = [...this.options].map(o => o.text.trim()).join(", ");
	if (!option) return { problem: "has no option " + text + " but " + all };
	this.focus();
	this.value = option.value;
	this.dispatchEvent(new Event("input", { bubbles: true }));
	this.dispatchEvent(new Event("change", { bubbles: true }));
	return { value: option.value };
}`

// Select chooses an option of the list (a select element) with this label.
func (p *Page) Select(label, option string) {
	p.t.Helper()
	p.await(fmt.Sprintf("select %q in %q", option, label), func(ctx context.Context) error {
		e, err := p.enabled(ctx, locator{role: "combobox", name: label})
		if err != nil {
			return err
		}
		_, err = onElement[string](ctx, e, choose, option)
		return err
	})
}

// Focus moves the focus to an element without a click.
func (p *Page) Focus(role, name string) {
	p.t.Helper()
	l := locator{role: role, name: name}
	p.await("focus "+l.String(), func(ctx context.Context) error {
		e, err := p.enabled(ctx, l)
		if err != nil {
			return err
		}
		_, err = onElement[string](ctx, e, `function() {
			this.focus();
			return document.activeElement === this ? { value: "" } : { problem: "does not take the focus" };
		}`)
		return err
	})
}

// Focused returns the element that has the focus; the zero value if none has.
func (p *Page) Focused() Element {
	p.t.Helper()
	ctx, cancel := p.bounded()
	defer cancel()
	active, err := chromedp.Call(ctx, runtime.Evaluate,
		runtime.EvaluateParams{Expression: "document.activeElement ?? document.body", ObjectGroup: objectGroup})
	if err != nil {
		p.fail("read the focus", err)
	}
	found, err := p.query(ctx, active.Result.ObjectID, locator{})
	if err != nil {
		p.fail("read the focus", err)
	}
	i := slices.IndexFunc(found, func(e Element) bool { return e.Focused && e.Role != "RootWebArea" })
	if i < 0 {
		return Element{}
	}
	return found[i]
}

// Type types text with the keyboard, letter by letter, into whatever has the focus.
func (p *Page) Type(text string) { p.t.Helper(); p.do("type", chromedp.KeyEvent(text)) }

// Press presses a key on whatever has the focus: a letter or a name of the DOM such as "Enter", "Tab", "ArrowDown" or
// "Escape", with modifiers before it, as in "Shift+Tab" or "Control+k".
func (p *Page) Press(key string) {
	p.t.Helper()
	down, up := p.events(key)
	p.dispatch("press "+key, down, up)
}

// Hold presses a key and holds it: once pressed has returned, the keyboard repeats it.
func (p *Page) Hold(key string, pressed func()) {
	p.t.Helper()
	down, up := p.events(key)
	p.dispatch("press "+key, down)
	pressed()
	again := down
	again.AutoRepeat = new(true)
	p.dispatch("hold "+key, again, again, up)
}

func (p *Page) dispatch(what string, events ...input.DispatchKeyEventParams) {
	p.t.Helper()
	p.do(what, chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		for _, event := range events {
			if _, err := cdp.Call(ctx, t, input.DispatchKeyEvent, event); err != nil {
				return err
			}
		}
		return nil
	}))
}

// events returns what the keyboard says about a key.
func (p *Page) events(key string) (down, up input.DispatchKeyEventParams) {
	p.t.Helper()
	var modifiers int64
	rest := key
	for name, bit := range map[string]kb.Modifier{
		"Shift+": kb.ModifierShift, "Control+": kb.ModifierCtrl, "Alt+": kb.ModifierAlt,
		"Meta+": kb.ModifierMeta,
	} {
		if strings.Contains(rest, name) {
			rest, modifiers = strings.Replace(rest, name, "", 1), modifiers|int64(bit)
		}
	}
	code, known := map[string]string{
		"Enter": kb.Enter, "Tab": kb.Tab, "Escape": kb.Escape, "Backspace": kb.Backspace, "Delete": kb.Delete,
		"ArrowDown": kb.ArrowDown, "ArrowUp": kb.ArrowUp, "ArrowLeft": kb.ArrowLeft, "ArrowRight": kb.ArrowRight,
		"Home": kb.Home, "End": kb.End, "PageUp": kb.PageUp, "PageDown": kb.PageDown, "Space": " ",
	}[rest]
	if !known {
		code = rest
	}
	if !known && len([]rune(rest)) != 1 {
		p.t.Fatalf("press %q: unknown key", key)
	}
	events := kb.Encode([]rune(code)[0])
	down, up = *events[0], *events[len(events)-1]
	if len(events) == 3 && modifiers&^int64(kb.ModifierShift) == 0 { // a shortcut types nothing
		// A page that handles a key gets no character of it. Sent alone, the character reached what the key had given
		// the focus to.
		down.Text, down.UnmodifiedText = events[1].Text, events[1].UnmodifiedText
	}
	down.Modifiers |= modifiers
	up.Modifiers |= modifiers
	return down, up
}
