//go:build unix

package consoletest

import (
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/cdproto/runtime"
)

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
