//go:build unix

package consoletest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"
)

// enableDomains turns on the events that record needs, and lets the tab believe that it has the focus: other tests'
// tabs are open, too.
func enableDomains(ctx context.Context) error {
	if _, err := chromedp.Call(ctx, audits.Enable, cdp.Empty{}); err != nil {
		return err
	}
	if _, err := chromedp.Call(ctx, accessibility.Enable, cdp.Empty{}); err != nil {
		return err
	}
	if _, err := chromedp.Call(ctx, performance.Enable, performance.EnableParams{}); err != nil {
		return err
	}
	_, err := chromedp.Call(ctx, emulation.SetFocusEmulationEnabled,
		emulation.SetFocusEmulationEnabledParams{Enabled: true})
	return err
}

// Expect names faults that the story wants: those whose text or kind contains the words. One that does not occur fails
// the test, too.
func (p *Page) Expect(words string) {
	r := p.tab.record
	r.mu.Lock()
	defer r.mu.Unlock()
	r.expected = append(r.expected, words)
}

// judge separates the faults that are not expected, and the expectations without a fault.
func (r *record) judge() (unexpected []Fault, missing []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	met := map[string]bool{}
	for _, f := range r.faults {
		i := slices.IndexFunc(r.expected, func(words string) bool { return strings.Contains(f.String(), words) })
		if i < 0 {
			unexpected = append(unexpected, f)
			continue
		}
		met[r.expected[i]] = true
	}
	for _, words := range r.expected {
		if !met[words] {
			missing = append(missing, words)
		}
	}
	return unexpected, missing
}

// flushTimeout bounds the wait for a page that does not answer, such as one with a dialog of the browser.
const flushTimeout = 30 * time.Second

// flush waits until the events of what the page has done so far are recorded: events and answers arrive in order. The
// page first runs the tasks that it has queued, such as the reports of violations. flush returns an error if the page
// does not answer in time. It returns none for a page that is closed, which has nothing more to record.
func (p *Page) flush() error {
	ctx, cancel := context.WithTimeout(p.tab.ctx, flushTimeout)
	defer cancel()
	_, err := chromedp.Run(ctx, chromedp.Evaluate[int](`new Promise(done => setTimeout(() => done(0), 1))`,
		chromedp.EvalAwaitPromise))
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("the page did not answer within %s", flushTimeout)
	}
	return nil
}

// finish reports the page's faults, and keeps a screenshot if the test failed.
func (p *Page) finish() {
	p.t.Helper()
	if err := p.flush(); err != nil {
		p.t.Errorf("some faults may be unknown: %v", err)
	}
	unexpected, missing := p.tab.record.judge()
	if len(unexpected) > 0 {
		p.t.Errorf("the page has faults:\n%s", listFaults(unexpected))
	}
	for _, words := range missing {
		p.t.Errorf("the page has no fault %q, which the test expects", words)
	}
	if p.t.Failed() {
		p.t.Log("screenshot:", p.failureScreenshot())
	}
}

func listFaults(faults []Fault) string {
	var out strings.Builder
	for _, f := range faults {
		fmt.Fprintf(&out, "  %s\n", f)
	}
	return out.String()
}

// shownText is how much of a page's text a failure prints.
const shownText = 3000

// fail ends the test with what the page shows.
func (p *Page) fail(what string, err error) {
	p.t.Helper()
	_ = p.flush() // the failure below says the same
	ctx, cancel := context.WithTimeout(p.tab.ctx, flushTimeout)
	defer cancel()
	state, failure := chromedp.Run(ctx, chromedp.Evaluate[[]string](
		`[location.href, document.title, document.body?.innerText ?? ""]`))
	if failure != nil {
		p.t.Fatalf("%s: %v\nThe page does not answer: %v", what, err, failure)
	}
	if text := []rune(state[2]); len(text) > shownText {
		state[2] = string(text[:shownText]) + " …"
	}
	unexpected, _ := p.tab.record.judge()
	p.t.Fatalf("%s: %v\npage: %s\ntitle: %s\nfaults:\n%stext:\n%s", what, err, state[0], state[1],
		listFaults(unexpected), state[2])
}
