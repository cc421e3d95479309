//go:build unix

package consoletest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

const (
	// patience is how long an action waits for its element or condition. A message that is lost or late delays an agent
	// by 60 to 120 s: the sweep repeats it.
	patience = 2 * time.Minute
	// lastCheckTimeout bounds the check that follows a deadline before which no check has ended.
	lastCheckTimeout = 30 * time.Second
	// pollInterval is how often a wait looks at the page.
	pollInterval = 100 * time.Millisecond
)

// Page is a tab of the browser. Its cookies and storage belong to it and to the windows that it opens. Methods fail the
// page's test. One goroutine may use it.
type Page struct {
	t     testing.TB
	tab   *tab
	scope []locator
	// patience is how long actions wait; 0 is the usual time.
	patience time.Duration
}

// tab is what a page shares with the parts of it that Within returns.
type tab struct {
	suite   *Suite
	ctx     context.Context
	base    string
	shots   string
	origins []string
	record  *record
	answers *interception
	running sync.WaitGroup
	theme   Theme
	reduced bool
	width   int64
	height  int64
}

// NewPage opens an empty tab that closes with the test. base is the origin that relative addresses belong to. Requests
// to other origins than base and the allowed ones are faults.
func (s *Suite) NewPage(t testing.TB, base string, allowed ...string) *Page {
	t.Helper()
	one := &tab{suite: s, base: base, shots: s.Screenshots, origins: append([]string{base}, allowed...)}
	return openTab(s.browser.require(t), t, one, chromedp.WithNewBrowserContext())
}

// openTab opens a tab, or attaches to one, as the options say.
func openTab(parent context.Context, t testing.TB, one *tab, options ...chromedp.ContextOption) *Page {
	t.Helper()
	one.theme, one.reduced = Light, true // a page that moves is drawn sixty times a second
	p := &Page{t: t, tab: one}
	cancel, err := p.attach(parent, options)
	t.Cleanup(func() {
		p.finish()
		cancel()
		one.running.Wait()
	})
	if err != nil {
		t.Fatalf("open a tab: %v", err)
	}
	p.SetViewport(1280, 800)
	p.applyMedia()
	return p
}

// attach connects to the tab and prepares it. A tab that goes to another site at that moment changes its process, which
// breaks the connection: then attach tries again.
func (p *Page) attach(parent context.Context, options []chromedp.ContextOption) (context.CancelFunc, error) {
	deadline := time.Now().Add(patience)
	for {
		p.tab.record = newRecord(p.tab.origins)
		ctx, cancel := chromedp.NewContext(parent, append(options, chromedp.WithListener(p.tab.record.listen))...)
		p.tab.ctx = ctx
		err := p.prepare()
		if !hasNavigated(err) || time.Now().After(deadline) {
			return cancel, err
		}
		cancel()
	}
}

// hasNavigated reports whether a command has no result because the tab changed its process before it ended. Only the
// message tells: other errors have the same code.
func hasNavigated(err error) bool {
	answer, ok := errors.AsType[*cdproto.Error](err)
	return ok && answer.Message == "Inspected target navigated or closed"
}

// prepare installs what watches the page. The first command opens the tab for as long as the page's context lives, so
// it has no deadline.
func (p *Page) prepare() error {
	_, err := chromedp.Call(p.tab.ctx, runtime.AddBinding,
		runtime.AddBindingParams{Name: violationBinding, ExecutionContextName: worldName})
	if err != nil {
		return err
	}
	immediately := true
	_, err = chromedp.Call(p.tab.ctx, page.AddScriptToEvaluateOnNewDocument,
		page.AddScriptToEvaluateOnNewDocumentParams{
			Source: reportViolations, WorldName: worldName, RunImmediately: &immediately,
		})
	if err != nil {
		return err
	}
	// A browser with a window lets a page write to the clipboard after a click; without one it would ask forever.
	if err := p.grant("clipboard-write"); err != nil {
		return err
	}
	return enableDomains(p.tab.ctx)
}

// Within returns the part of the page inside an element. Its methods see only that part, except Open, Press and those
// that concern the whole tab.
func (p *Page) Within(role, name string) *Page { return p.within(locator{role: role, name: name}) }

// Containing returns the part of the page inside the element of a role that shows a text, such as the row of an agent.
// Rows and list items have no name.
func (p *Page) Containing(role, text string) *Page {
	return p.within(locator{role: role, inside: text})
}

func (p *Page) within(l locator) *Page {
	return &Page{t: p.t, tab: p.tab, scope: append(slices.Clone(p.scope), l), patience: p.patience}
}

// Open loads an address, absolute or relative to the page's base, and waits for the load event.
func (p *Page) Open(address string) {
	p.t.Helper()
	if strings.HasPrefix(address, "/") {
		address = p.tab.base + address
	}
	p.do("open "+address, chromedp.Navigate(address))
}

// Reload loads the page again.
func (p *Page) Reload() { p.t.Helper(); p.do("reload", chromedp.Reload()) }

// Back goes back in the tab's history, as the button of the browser does. It does not wait: the story waits for what
// the page shows then.
func (p *Page) Back() { p.t.Helper(); p.turn("history.back()") }

// Forward goes forward in the tab's history.
func (p *Page) Forward() { p.t.Helper(); p.turn("history.forward()") }

// turn leaves the page, perhaps before it answers.
func (p *Page) turn(expression string) {
	p.t.Helper()
	ctx, cancel := p.bounded()
	defer cancel()
	_, err := chromedp.Run(ctx, chromedp.Evaluate[int]("("+expression+", 0)"))
	if err != nil && !hasNavigated(err) {
		p.fail(expression, err)
	}
}

// URL returns the page's address.
func (p *Page) URL() (address string) {
	p.t.Helper()
	p.await("read the address", func(ctx context.Context) (err error) {
		address, err = chromedp.Run(ctx, chromedp.Evaluate[string]("location.href"))
		return err
	})
	return address
}

// Eval returns the value of a JavaScript expression, awaiting promises. The Content-Security-Policy does not apply.
func Eval[T any](p *Page, expression string) T {
	p.t.Helper()
	ctx, cancel := p.bounded()
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		p.fail("evaluate "+expression, err)
	}
	return v
}

func (p *Page) evaluate(expression string) {
	p.t.Helper()
	Eval[any](p, "(()=>{"+expression+"; return 0})()")
}

// Offline cuts the page off the network, or connects it again. The command has no function in the generated protocol.
func (p *Page) Offline(offline bool) {
	p.t.Helper()
	p.do("change the network", chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		return t.Call(ctx, "Network.emulateNetworkConditions", map[string]any{
			"offline": offline, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1,
		}, nil)
	}))
}

// SetTimezone changes the page's time zone, such as "America/New_York".
func (p *Page) SetTimezone(name string) {
	p.t.Helper()
	call(p, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: name})
}

// bounded returns the context of an action.
func (p *Page) bounded() (context.Context, context.CancelFunc) {
	most := cmp.Or(p.patience, patience)
	return context.WithTimeoutCause(p.tab.ctx, most, fmt.Errorf("timed out after %s", most))
}

// call sends a command of the DevTools protocol.
func call[P, R any](p *Page, command cdp.Command[P, R], params P) R {
	p.t.Helper()
	ctx, cancel := p.bounded()
	defer cancel()
	result, err := chromedp.Call(ctx, command, params)
	if err != nil {
		p.fail(command.Method, err)
	}
	return result
}

func (p *Page) do(what string, action chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := p.bounded()
	defer cancel()
	if err := chromedp.Do(ctx, action); err != nil {
		p.fail(what, err)
	}
}

// await polls until check returns no error. It fails the test if that takes too long. A busy machine may be too slow to
// check even once; then a last check gets more time, so that the failure names its cause.
func (p *Page) await(what string, check func(ctx context.Context) error) {
	p.t.Helper()
	ctx, cancel := p.bounded()
	defer cancel()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	var last error
	for {
		err := check(ctx)
		if err == nil {
			return
		}
		if ctx.Err() == nil {
			last = err // the error of the deadline says less
		}
		select {
		case <-ctx.Done():
			if last == nil {
				last = p.checkOnce(check)
			}
			if last != nil {
				p.fail(what, errors.Join(context.Cause(ctx), last))
			}
			return
		case <-tick.C:
		}
	}
}

func (p *Page) checkOnce(check func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(p.tab.ctx, lastCheckTimeout)
	defer cancel()
	return check(ctx)
}

// RunFirst runs a script in each document that the page opens from now on, before the document's scripts.
func (p *Page) RunFirst(script string) {
	p.t.Helper()
	call(p, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: script})
}

// SignIn gives the session token to each document of the page's origin: the tab's storage has the session when the
// console first loads. After signing out, the tab stays signed out.
func (p *Page) SignIn(token string) {
	p.t.Helper()
	session, err := json.Marshal(map[string]string{"kind": "token", "token": token})
	if err != nil {
		p.t.Fatal(err)
	}
	p.RunFirst(fmt.Sprintf(`if (location.origin === %q && !sessionStorage.getItem("consoletest.visited")) {
		sessionStorage.setItem("consoletest.visited", "yes");
		sessionStorage.setItem(%q, %q);
	}`, p.tab.base, sessionKey, session))
}

// sessionKey is where the console keeps its session.
const sessionKey = "console.session"

// Measurement is what a page uses at a time.
type Measurement struct {
	// At is when it was measured.
	At time.Time
	// HeapBytes of JavaScript objects after a garbage collection, and DOM nodes and listeners of all documents.
	HeapBytes, Nodes, Listeners, Documents int64
	// Script and Task are the times that the page has run JavaScript, and anything on its main thread, since it opened.
	Script, Task time.Duration
}

// Measure collects garbage and measures the page. Compare two of them to see what grows.
func (p *Page) Measure() Measurement {
	p.t.Helper()
	call(p, runtime.ReleaseObjectGroup, runtime.ReleaseObjectGroupParams{ObjectGroup: objectGroup})
	call(p, heapprofiler.CollectGarbage, cdp.Empty{})
	values := map[string]float64{}
	for _, m := range call(p, performance.GetMetrics, cdp.Empty{}).Metrics {
		values[m.Name] = m.Value
	}
	seconds := func(name string) time.Duration { return time.Duration(values[name] * float64(time.Second)) }
	return Measurement{
		At: time.Now(), HeapBytes: int64(values["JSHeapUsedSize"]), Nodes: int64(values["Nodes"]),
		Listeners: int64(values["JSEventListeners"]), Documents: int64(values["Documents"]),
		Script: seconds("ScriptDuration"), Task: seconds("TaskDuration"),
	}
}
