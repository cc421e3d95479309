//go:build unix

package consoletest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// Theme is what the user's system prefers.
type Theme string

// The themes.
const (
	Light Theme = "light"
	Dark  Theme = "dark"
)

// SetTheme changes the preferred theme.
func (p *Page) SetTheme(theme Theme) {
	p.t.Helper()
	p.tab.theme = theme
	p.applyMedia()
}

// ReducedMotion changes whether the user prefers reduced motion. At first, the user does.
func (p *Page) ReducedMotion(reduced bool) {
	p.t.Helper()
	p.tab.reduced = reduced
	p.applyMedia()
}

func (p *Page) applyMedia() {
	p.t.Helper()
	motion := "no-preference"
	if p.tab.reduced {
		motion = "reduce"
	}
	call(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: string(p.tab.theme)},
		{Name: "prefers-reduced-motion", Value: motion},
	}})
}

// SetViewport changes the size of the page, in CSS pixels.
func (p *Page) SetViewport(width, height int64) {
	p.t.Helper()
	p.tab.width, p.tab.height = width, height
	call(p, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: width, Height: height, DeviceScaleFactor: 1,
	})
}

// settle waits until the page's fonts are there and its transitions have ended, so that colors are final.
const settle = `(async () => {
	await document.fonts.ready;
	const finite = a => a.playState === "running" && a.effect?.getComputedTiming().endTime !== Infinity;
	await Promise.allSettled(document.getAnimations().filter(finite).map(a => a.finished));
	const frame = () => new Promise(requestAnimationFrame);
	const drawn = frame().then(frame).then(() => new Promise(r => setTimeout(r, 0)));
	await Promise.race([drawn, new Promise(r => setTimeout(r, 2_000))]);
	return 0;
})()`

// tallest is the height at which a screenshot of a long page ends.
const tallest = 5000

// Screenshot writes an image of the whole page, also of what is below the window, and returns its path:
// NAME-THEME-WIDTH.png in the directory of the suite. A directory that this user may not write is no failure.
func (p *Page) Screenshot(name string) string {
	p.t.Helper()
	Eval[int](p, settle)
	path, err := p.screenshot(name)
	switch {
	case errors.Is(err, fs.ErrPermission):
		p.t.Logf("screenshot %s is not kept: %v", name, err)
	case err != nil:
		p.fail("screenshot "+name, err)
	}
	return path
}

// ScreenshotsTo changes the directory of the page's screenshots.
func (p *Page) ScreenshotsTo(dir string) { p.tab.shots = dir }

func (p *Page) screenshot(name string) (string, error) {
	dir := p.tab.shots
	if dir == "" {
		dir = filepath.Join(os.TempDir(), "console-screenshots")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	ctx, cancel := p.bounded()
	defer cancel()
	size, err := chromedp.Run(ctx, chromedp.Evaluate[[]float64](
		`[innerWidth, Math.max(innerHeight, document.documentElement.scrollHeight)]`))
	if err != nil {
		return "", err
	}
	if len(size) != 2 {
		return "", errors.New("the page has no size")
	}
	beyond, fast := true, true
	image, err := chromedp.Call(ctx, page.CaptureScreenshot, page.CaptureScreenshotParams{
		Clip:                  &page.Viewport{Width: size[0], Height: min(size[1], tallest), Scale: 1},
		CaptureBeyondViewport: &beyond,
		OptimizeForSpeed:      &fast,
	})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, fmt.Sprintf("%s-%s-%d.png", fileName(name), p.tab.theme, p.tab.width))
	return path, os.WriteFile(path, image.Data, 0o644)
}

// fileName replaces what a file's name must not have.
func fileName(name string) string {
	return regexp.MustCompile(`[^A-Za-z0-9_.-]+`).ReplaceAllString(name, "-")
}

// failureScreenshot returns the path of a screenshot, or why there is none. Its name has a number: a test may have
// several pages.
func (p *Page) failureScreenshot() string {
	path, err := p.screenshot(fmt.Sprintf("failed-%s-%d", p.t.Name(), p.tab.suite.failures.Add(1)))
	if err != nil {
		return err.Error()
	}
	return path
}

const (
	// smallest is the width at which a page must still fit: that of a desktop's window which is enlarged four times.
	smallest = 320
	// largest is the width of a 4K screen.
	largest = 3840
)

// Review looks at the page as it is now in both themes, on a desktop's and on a phone's width: it checks each with axe,
// and takes a screenshot of each if the suite or the page has a directory for them. It fails the test if the page
// scrolls sideways, also on the smallest and on the largest width. Afterwards the page is light, 1280 pixels wide, and
// at its top.
func (p *Page) Review(name string) {
	p.t.Helper()
	for _, width := range []int64{largest, smallest, 360, 1280} {
		p.SetViewport(width, 800)
		p.evaluate("scrollTo(0, 0)") // or what sticks to the window covers the middle of the screenshot
		p.checkWidth(name)
		if width == smallest || width == largest {
			continue
		}
		for i, theme := range []Theme{Dark, Light} {
			p.SetTheme(theme)
			if p.tab.shots != "" {
				p.Screenshot(name)
			}
			p.reportAxe(p.axeViolations(i > 0))
		}
	}
}

// overhang names the elements that are wider than the page or than an open dialog. Elements that scroll by themselves
// hide what they have inside.
const overhang = `(() => {
	const scrolls = e => getComputedStyle(e).overflowX !== "visible";
	const hidden = (e, top) => e !== top && (scrolls(e) || hidden(e.parentElement, top));
	const dialogs = [...document.querySelectorAll("dialog[open]")];
	return [document.documentElement, ...dialogs].filter(top => top.scrollWidth > top.clientWidth).flatMap(top => {
		const edge = top.getBoundingClientRect().left + top.clientLeft + top.clientWidth;
		const wide = [...top.querySelectorAll("*")].filter(e =>
			e.getBoundingClientRect().right > edge + 1 && !hidden(e.parentElement, top));
		return [top.localName + " is " + (top.scrollWidth - top.clientWidth) + " pixels too narrow", ...wide.map(e =>
			e.outerHTML.slice(0, 100))];
	});
})()`

// checkWidth fails the test if the page or an open dialog scrolls sideways.
func (p *Page) checkWidth(name string) {
	p.t.Helper()
	Eval[int](p, settle)
	if wide := Eval[[]string](p, overhang); len(wide) > 0 {
		p.t.Errorf("%s scrolls sideways at %d pixels:\n\t%s", name, p.tab.width, strings.Join(wide, "\n\t"))
	}
}
