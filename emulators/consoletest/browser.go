//go:build unix

package consoletest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/chromedp"

	"agents.example/controlplane/shared/testtier"
)

// errNoBrowser means that this machine has no Chromium.
var errNoBrowser = errors.New("no Chromium found: install Debian's package with " +
	"`apt-get install chromium-headless-shell`")

// FindBrowser returns the path of the browser, first of the one without windows: its main process takes half of the CPU
// time. It returns an error if none is installed.
func FindBrowser() (string, error) {
	for _, name := range []string{
		"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome-stable", "google-chrome",
		"/Applications/Chromium.app/Contents/MacOS/Chromium",
		"/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
	} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errNoBrowser
}

// sharedBrowser is one Chromium, which the first test starts.
type sharedBrowser struct {
	mu   sync.Mutex
	ctx  context.Context
	stop context.CancelFunc
	// dir is the browser's profile, and group has its processes.
	dir   string
	group int
	err   error
}

// RequireBrowser starts the browser unless it runs. It skips the test outside the full tier and without a browser.
func (s *Suite) RequireBrowser(t testing.TB) {
	t.Helper()
	s.browser.require(t)
}

// require returns the running browser. It skips the test outside the full tier and without a browser.
func (b *sharedBrowser) require(t testing.TB) context.Context {
	t.Helper()
	testtier.RequireFull(t, "needs a browser")
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ctx == nil && b.err == nil {
		b.err = b.start(t)
	}
	if errors.Is(b.err, errNoBrowser) {
		t.Skip(b.err)
	}
	if b.err != nil {
		t.Fatal(b.err)
	}
	return b.ctx
}

// startBrowserTimeout is many times what a start takes on a busy machine: a failed start fails all tests.
const startBrowserTimeout = 2 * time.Minute

// unusedFeatures are the features that chromedp turns off, and those that take CPU time for each window and serve no
// test: a renderer in advance for another site, and the pages of the suggestions below the address.
const unusedFeatures = "Translate,BlinkGenPropertyTrees," +
	"SpareRendererForSitePerProcess,WebUIOmniboxPopup,WebUIOmniboxAimPopup"

// start does not use the context of a test: the browser outlives it.
func (b *sharedBrowser) start(t testing.TB) error {
	t.Helper()
	path, err := FindBrowser()
	if err != nil {
		return err
	}
	if b.dir, err = os.MkdirTemp("", "console-browser-"); err != nil {
		return err
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.UserDataDir(b.dir), chromedp.ModifyCmdFunc(startInGroup),
		chromedp.WSURLReadTimeout(startBrowserTimeout),
		// Containers and some systems do not allow the sandbox of Chromium. The browser does without it everywhere: it
		// opens only pages of this machine.
		chromedp.NoSandbox,
		chromedp.Flag("headless", "new"),
		// Names outside of this machine do not resolve, so that no test depends on another host.
		chromedp.Flag("host-resolver-rules",
			"MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost, EXCLUDE *.localhost"),
		chromedp.Flag("no-proxy-server", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-gpu", true),
		chromedp.Flag("disable-features", unusedFeatures),
		chromedp.Flag("lang", "en-US"),
		chromedp.Flag("accept-lang", "en-US"),
	)
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, _ := chromedp.NewContext(allocator)
	version, err := chromedp.CallBrowser(ctx, browser.GetVersion, cdp.Empty{})
	if err != nil {
		stop()
		_ = os.RemoveAll(b.dir) // the error of the start says more
		return fmt.Errorf("start %s: %w (a browser from a snap may not use %s: install a package of the system, "+
			"or set TMPDIR to a directory in your home)", path, err, b.dir)
	}
	t.Logf("the browser is %s (%s)", version.Product, path)
	b.ctx, b.stop, b.group = ctx, stop, chromedp.FromContext(ctx).Browser.Process().Pid
	return nil
}

// closeTimeout bounds the graceful end of the browser. After it, the process is killed.
const closeTimeout = 20 * time.Second

// groupTimeout bounds the wait for the end of killed processes.
const groupTimeout = time.Minute

// close ends the browser and waits until its process has ended and its directory is removed.
func (b *sharedBrowser) close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ctx == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(b.ctx, closeTimeout)
	defer cancel()
	err := chromedp.Cancel(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = nil // the kill below ends a browser that is too busy
	}
	b.stop()
	b.ctx = nil
	if err = errors.Join(err, b.endGroup()); err != nil {
		return fmt.Errorf("stop the browser: %w", err)
	}
	return nil
}

// endGroup kills the children that outlive the browser, which would still write to its directory, and removes the
// directory. A child that is dead stays in the group where process 1 does not collect it, as in some containers, so
// the group may never be empty: only a directory that cannot be removed is an error.
func (b *sharedBrowser) endGroup() error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for deadline := time.Now().Add(groupTimeout); time.Now().Before(deadline); <-tick.C {
		if syscall.Kill(-b.group, syscall.SIGKILL) != nil {
			break // no process is left
		}
	}
	return os.RemoveAll(b.dir)
}
