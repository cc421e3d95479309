//go:build unix

package consoletest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"
)

// Popup returns the window or tab that an action opens, such as a click on a link to another page. It shares the
// cookies of the page, and closes with the test.
func (p *Page) Popup(action func()) *Page {
	p.t.Helper()
	ctx, cancel := p.bounded()
	defer cancel()
	own := chromedp.FromContext(p.tab.ctx).Target.TargetID
	opened := chromedp.WaitNewTarget(ctx, func(i *target.Info) bool { return i.OpenerID == own })
	action()
	select {
	case id := <-opened:
		one := &tab{suite: p.tab.suite, base: p.tab.base, shots: p.tab.shots, origins: p.tab.origins}
		// A connection that ends early leaves the window open. It closes with the cookies of the page.
		return openTab(p.tab.ctx, p.t, one, chromedp.WithTargetID(id), chromedp.WithDetachOnCancel())
	case <-ctx.Done():
		p.fail("wait for a window", context.Cause(ctx))
		return nil
	}
}

// Closes waits until the page has closed itself after an action.
func (p *Page) Closes(action func()) {
	p.t.Helper()
	closed, err := chromedp.Detached(p.tab.ctx)
	if err != nil {
		p.fail("watch the window", err)
	}
	action()
	select {
	case <-closed:
	case <-time.After(cmp.Or(p.patience, patience)):
		p.fail("wait until the window closes", context.DeadlineExceeded)
	}
}

// Allow lets the page send requests to another origin, such as that of an agent's dashboard.
func (p *Page) Allow(origin string) {
	r := p.tab.record
	r.mu.Lock()
	defer r.mu.Unlock()
	r.origins = append(r.origins, origin)
	p.tab.origins = append(p.tab.origins, origin)
}

// Download returns the name and the content of the file that an action downloads.
func (p *Page) Download(action func()) (name string, content []byte) {
	p.t.Helper()
	dir, err := os.MkdirTemp("", "console-download-")
	if err != nil {
		p.fail("make a directory for a download", err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary directory
	ctx, cancel := p.bounded()
	defer cancel()
	enabled := true
	_, err = chromedp.CallBrowser(ctx, browser.SetDownloadBehavior, browser.SetDownloadBehaviorParams{
		Behavior: browser.SetDownloadBehaviorBehaviorAllow, DownloadPath: dir, EventsEnabled: &enabled,
		BrowserContextID: chromedp.FromContext(p.tab.ctx).BrowserContextID,
	})
	if err != nil {
		p.fail("allow downloads", err)
	}
	action()
	p.await("wait for a download", func(context.Context) error {
		found, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil || len(found) != 1 || filepath.Ext(found[0]) == ".crdownload" {
			return errors.Join(err, fmt.Errorf("the directory has %v", found))
		}
		name = filepath.Base(found[0])
		content, err = os.ReadFile(found[0])
		return err
	})
	return name, content
}

// Clipboard returns the text that the page copied last. All tabs of the browser share the clipboard, so tests that read
// it must not run in parallel.
func (p *Page) Clipboard() string {
	p.t.Helper()
	if err := p.grant("clipboard-read"); err != nil {
		p.fail("read the clipboard", err)
	}
	return Eval[string](p, "navigator.clipboard.readText()")
}

// grant gives a permission to all pages that share the page's cookies.
func (p *Page) grant(permission string) error {
	ctx, cancel := p.bounded()
	defer cancel()
	_, err := chromedp.CallBrowser(ctx, browser.SetPermission, browser.SetPermissionParams{
		Permission: &browser.PermissionDescriptor{Name: permission}, Setting: browser.PermissionSettingGranted,
		BrowserContextID: chromedp.FromContext(p.tab.ctx).BrowserContextID,
	})
	return err
}

// Hide makes the page believe that its tab is in the background, or in front again. Timers keep their pace.
func (p *Page) Hide(hidden bool) {
	p.t.Helper()
	state := "visible"
	if hidden {
		state = "hidden"
	}
	p.evaluate(fmt.Sprintf(`Object.defineProperty(document, "visibilityState", {value: %q, configurable: true});
		Object.defineProperty(document, "hidden", {value: %t, configurable: true});
		document.dispatchEvent(new Event("visibilitychange"));`, state, hidden))
}

// Patient returns the page with another time that actions wait, for a failure that a test wants:
//
//	page.Patient(time.Second).WaitText("Running")
func (p *Page) Patient(most time.Duration) *Page {
	return &Page{t: p.t, tab: p.tab, scope: p.scope, patience: most}
}
