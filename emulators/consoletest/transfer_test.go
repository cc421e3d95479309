//go:build unix

package consoletest_test

import (
	"testing"

	"github.com/chromedp/cdproto/network"

	"agents.example/controlplane/emulators/consoletest"
	"agents.example/controlplane/shared/plan"
)

const (
	// firstViewBytes is the most that the first view of the console may transfer, compressed and with headers.
	firstViewBytes = 120_000
	// firstViewScript is the most JavaScript that the browser may have to read for it, without compression.
	firstViewScript = 150_000
)

// TestFirstView_IsSmall counts the bytes of a first visit by a guest, and by a user who is signed in.
func TestFirstView_IsSmall(t *testing.T) {
	t.Parallel()
	for name, visit := range map[string]struct {
		page   *consoletest.Page
		button string // with which the view can be used
	}{
		"guest": {page: suite.Guest(t), button: "Continue with *"},
		"admin": {page: suite.Admin(t, plan.Hobby).Page(t), button: "Create an agent"},
	} {
		p := visit.page
		p.Open("/console")
		p.WaitFor("button", visit.button)
		p.WaitIdle()
		transfers, total, script := p.Transfers(), int64(0), int64(0)
		for _, one := range transfers {
			total += one.Bytes
			if one.Type == network.ResourceTypeScript {
				script += one.Decoded
			}
		}
		m := p.Measure()
		t.Logf("%s: %d kB of JavaScript ran for %s of %s on the main thread, heap %d kB\n%s", name, script/1000,
			m.Script, m.Task, m.HeapBytes/1000, consoletest.TransferTable(transfers))
		if total > firstViewBytes {
			t.Errorf("the first view of a %s transfers %d bytes, want at most %d", name, total, firstViewBytes)
		}
		if script == 0 || script > firstViewScript {
			t.Errorf("the first view of a %s reads %d bytes of JavaScript, want at most %d", name, script,
				firstViewScript)
		}
	}
}
