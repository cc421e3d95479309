package agentctl

import (
	"io"
	"os"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"github.com/cli/browser"
	"golang.org/x/term"
)

// Terminal says which streams of the tool are terminals.
type Terminal struct {
	In, Out, Err bool
	// Width returns the present number of columns; 0 if it is not known.
	Width func() int
}

// terminalOf looks at the streams of the process.
func terminalOf(in, out, errors *os.File) Terminal {
	is := func(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }
	return Terminal{In: is(in), Out: is(out), Err: is(errors), Width: func() int {
		for _, f := range []*os.File{out, errors} {
			if width, _, err := term.GetSize(int(f.Fd())); err == nil {
				return width
			}
		}
		return 0
	}}
}

// openBrowser opens a URL in the user's browser, and keeps the browser's messages out of the tool's output.
func openBrowser(url string) error {
	browser.Stdout, browser.Stderr = io.Discard, io.Discard
	return browser.OpenURL(url)
}

// When to color the output.
const (
	colorAuto   = "auto"
	colorAlways = "always"
	colorNever  = "never"
)

func (t *tool) checkColor() error {
	switch t.color {
	case colorAuto, colorAlways, colorNever:
		return nil
	}
	return usagef("--color must be auto, always or never, not %q", t.color)
}

// screen is a stream with what is known about its reader.
type screen struct {
	io.Writer
	// terminal is true if a person reads the stream.
	terminal bool
	// width is the number of columns; 0 if lines have no limit.
	width int
	paint bool
	// unicode is true if block characters can be shown.
	unicode bool
}

// stdout returns standard output.
func (t *tool) stdout() screen { return t.screen(t.app.Stdout, t.app.Terminal.Out) }

// stderr returns standard error.
func (t *tool) stderr() screen { return t.screen(t.app.Stderr, t.app.Terminal.Err) }

func (t *tool) screen(w io.Writer, terminal bool) screen {
	s := screen{Writer: w, terminal: terminal, paint: t.color == colorAlways, unicode: t.isUTF8()}
	if !terminal {
		return s
	}
	if t.app.Terminal.Width != nil {
		s.width = t.app.Terminal.Width()
	}
	if t.color == colorAuto || t.color == "" {
		none, _ := t.app.Lookup("NO_COLOR")
		kind, _ := t.app.Lookup("TERM")
		s.paint = none == "" && kind != "dumb"
	}
	return s
}

// canRedraw reports whether lines that are shown already can be replaced.
func (t *tool) canRedraw() bool {
	kind, _ := t.app.Lookup("TERM")
	return t.app.Terminal.Err && kind != "dumb"
}

// isUTF8 reports whether the user's locale has Unicode. A system without locale variables is taken to have it, because
// containers have none.
func (t *tool) isUTF8() bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if value, _ := t.app.Lookup(name); value != "" {
			value = strings.ToLower(value)
			return strings.Contains(value, "utf-8") || strings.Contains(value, "utf8")
		}
	}
	return true
}

// asScreen returns what is known about the reader of w.
func asScreen(w io.Writer) screen {
	if s, ok := w.(screen); ok {
		return s
	}
	return screen{Writer: w, unicode: true}
}

// style is the parameter of the escape sequence that colors text.
type style string

const (
	bold   style = "1"
	dim    style = "2"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
)

// in colors text.
func (s screen) in(color style, text string) string {
	if !s.paint || color == "" || text == "" {
		return text
	}
	return "\x1b[" + string(color) + "m" + text + "\x1b[0m"
}

// status colors the name of a status.
func (s screen) status(name string) string { return s.in(statusStyle(name), name) }

// statusStyle returns the color of a status.
func statusStyle(name string) style {
	switch name {
	case "running", "succeeded", "active", "trialing":
		return green
	case "error", "failed", "past_due", "suspended":
		return red
	case "pending", "provisioning", "deleting":
		return yellow
	}
	return dim
}

// fit cuts text that is wider than width.
func (s screen) fit(text string, width int) string {
	ellipsis := "…"
	if !s.unicode {
		ellipsis = "..."
	}
	return ansi.Truncate(text, width, ellipsis)
}

// pad fills text with spaces up to width.
func pad(text string, width int) string {
	return text + strings.Repeat(" ", max(0, width-ansi.StringWidth(text)))
}
