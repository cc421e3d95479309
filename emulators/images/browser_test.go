package images_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"agents.example/controlplane/emulators/consoletest"
)

// visit is what a browser saw of a page.
type visit struct {
	// received counts the frames of WebSockets.
	received atomic.Int64
	text     string
}

// browse opens an address in Chromium until a condition of the page holds, and writes a screenshot below -screenshots.
func browse(ctx context.Context, t *testing.T, address, until, name string) (*visit, error) {
	t.Helper()
	path, err := consoletest.FindBrowser()
	if err != nil {
		t.Skip(err)
	}
	allocator, stop := chromedp.NewExecAllocator(ctx, append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.UserDataDir(t.TempDir()), chromedp.NoSandbox,
		chromedp.Flag("headless", "new"), chromedp.Flag("no-proxy-server", true), chromedp.WindowSize(1280, 900))...)
	defer stop()
	tab, done := chromedp.NewContext(allocator)
	defer done()
	v := &visit{}
	err = chromedp.Listen(tab, func(event any) {
		if _, ok := event.(*network.EventWebSocketFrameReceived); ok {
			v.received.Add(1)
		}
	})
	if err != nil {
		return v, err
	}
	if _, err := chromedp.Call(tab, network.Enable, network.EnableParams{}); err != nil {
		return v, err
	}
	err = chromedp.Do(tab, chromedp.Navigate(address))
	for attempt := 0; err == nil && attempt < 6; attempt++ { // a program may serve before its pages do
		_, err = chromedp.Run(tab, chromedp.Poll[bool](until, chromedp.WithPollingTimeout(20*time.Second)))
		if !errors.Is(err, chromedp.ErrPollingTimeout) {
			break
		}
		if attempt < 5 {
			err = chromedp.Do(tab, chromedp.Reload())
		}
	}
	v.text, _ = chromedp.Run(tab, chromedp.Evaluate[string]("document.body.innerText"))
	if dir := *screenshots; dir != "" {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return v, err
		}
		picture, shot := chromedp.Call(tab, page.CaptureScreenshot, page.CaptureScreenshotParams{})
		if shot == nil {
			shot = os.WriteFile(filepath.Join(dir, name+".png"), picture.Data, 0o600)
		}
		err = errors.Join(err, shot)
	}
	if err != nil {
		return v, fmt.Errorf("%w; the page says %q", err, v.text)
	}
	return v, nil
}
