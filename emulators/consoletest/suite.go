//go:build unix

// Package consoletest drives the web console in a real browser, against the running local cloud. It provides one
// Chromium and one cloud for the tests of a package, pages that act as a user does, and an organization for each test.
// It does not know the console: stories live in the tests.
//
// A story reads like this:
//
//	func TestAgents_CreatedFromAnEmptyList(t *testing.T) {
//		t.Parallel()
//		admin := suite.Admin(t, plan.Startup) // an organization that no other test uses
//		page := admin.Page(t)                 // signed in
//		page.Open("/console#/agents")
//		page.Click("button", "Create agent")
//		dialog := page.Within("dialog", "Create agent")
//		dialog.Fill("Name", "support bot")
//		dialog.Click("button", "Create")
//		page.WaitText("Running")
//		page.Review("agents") // axe: light and dark, wide and narrow
//	}
//
// Elements are found by their role and name in Chromium's accessibility tree, so a control without a name cannot be
// used. Roles are those of ARIA, such as button, link, textbox, row and dialog. A name must match completely; one that
// ends with "*" matches names that begin with it. Actions wait for their element and fail the test after two
// minutes with the page's text, its faults and a screenshot. There is no need to wait between two actions.
//
// Every page fails its test on violations of the Content-Security-Policy, console errors, uncaught exceptions, assets
// that did not load, and requests to other hosts. Page.Expect names the ones that a story wants. Responses with an
// error status to fetch are no faults: the console shows them.
//
// Tests are skipped outside the full tier and where no Chromium is installed.
package consoletest

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
)

// Suite is the browser and the cloud that the tests of a package share. The first test that needs one of them starts
// it; TestMain runs the tests with Run, which ends both. The zero value is ready to use.
type Suite struct {
	// Screenshots is the directory of screenshots. Without it, reviews take none, and the others, also of failures, are
	// in console-screenshots below the temporary directory.
	Screenshots string

	browser sharedBrowser
	cloud   sharedCloud
	// failures counts the screenshots of failed tests.
	failures atomic.Int64
}

// Run returns the tests of a package, with the end of the browser and the cloud as their last step. goleak then finds
// no process or connection of them.
func (s *Suite) Run(m *testing.M) goleak.TestingM { return closing{m, s} }

type closing struct {
	tests *testing.M
	suite *Suite
}

// Run implements goleak.TestingM.
func (c closing) Run() int {
	code := c.tests.Run()
	if err := errors.Join(c.suite.browser.close(), c.suite.cloud.close(code != 0)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(code, 1)
	}
	return code
}
