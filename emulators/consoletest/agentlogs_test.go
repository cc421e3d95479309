//go:build unix

package consoletest_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"agents.example/controlplane/emulators/consoletest"
	"agents.example/controlplane/shared/plan"
)

// waitBadge waits until a badge has a text. The announcement of a former state may have the same word.
func waitBadge(p *consoletest.Page, text string) {
	p.WaitTrue(fmt.Sprintf("[...document.querySelectorAll('.badge')].some(b => b.innerText.trim() === %q)", text))
}

// pressEnterWithMatches presses Enter in the search as soon as it has matches, before the page is painted.
const pressEnterWithMatches = `(() => {
	new MutationObserver((_, observer) => {
		if (document.body.innerText.includes("lines match")) {
			observer.disconnect();
			document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true }));
		}
	}).observe(document.body, { subtree: true, childList: true, characterData: true });
	return true;
})()`

// TestLogs_FollowTheAgent reads the log of an agent over a restart, searches in it and saves it.
func TestLogs_FollowTheAgent(t *testing.T) {
	t.Parallel()
	admin, agent, p := openAgent(t, "talks", "/logs")
	log := p.Within("log", "Log of talks")
	log.WaitText("serving")
	waitBadge(p, "Live")
	admin.Call(http.MethodPost, "/api/v1/agents/"+agent+"/restart", "", http.StatusOK)
	p.WaitTrue(`document.querySelectorAll(".log-rows .log-row").length > 1`)
	consoletest.Eval[bool](p, pressEnterWithMatches)
	p.Fill("Search", "serving")
	p.WaitText("that match")
	p.WaitURL("search=serving")
	p.Review("agent-logs")
	log.WaitNoText(`"message":"serving"`)
	p.Click("button", "Raw lines")
	log.WaitText(`"message":"serving"`)
	p.WaitText("that match")
	p.Click("button", "Raw lines")
	p.Select("Severity", "Errors")
	p.WaitText("No line matches the search and the severity.")
	p.Select("Severity", "Without debugging")
	log.WaitText("serving")
	p.Click("button", "Pause the log")
	waitBadge(p, "Paused")
	p.Click("button", "Resume the log")
	name, content := p.Download(func() { p.Click("button", "Download") })
	if !strings.HasPrefix(name, "talks-") || strings.Count(string(content), "serving") < 2 {
		t.Errorf("the file %s has %q, want the lines of both containers", name, content)
	}
}

// line is a line of a log that is followed, as an event.
func line(id, message string) string {
	const form = "id: ID\n" +
		`data: {"time": "2026-03-02T09:30:00.5Z", "message": "TEXT", "stream": "combined"}` + "\n\n"
	return strings.NewReplacer("ID", id, "TEXT", message).Replace(form)
}

// TestLogs_ContinueAfterTheLastLine ends an answer, and sees that the console neither loses nor repeats a line.
func TestLogs_ContinueAfterTheLastLine(t *testing.T) {
	t.Parallel()
	admin := suite.Admin(t, plan.Starter)
	agent := admin.RunningAgent("goes on")
	p := admin.Page(t)
	follow := func(body string) {
		p.Respond("GET", "follow=true", consoletest.Response{
			Status: http.StatusOK, Body: body, Times: 1, Header: map[string]string{"Content-Type": "text/event-stream"},
		})
	}
	crowded := refusal(http.StatusTooManyRequests, "too_many_followers", "Too many answers.")
	crowded.Header = map[string]string{"Retry-After": "60"}
	p.Respond("GET", "follow=true", crowded)
	follow(line("2", "<b>second</b>"))
	follow(line("1", `\u001b[31mERROR first`))
	const sent = `(() => {
		const send = window.fetch;
		window.positions = [];
		window.fetch = (url, init) => {
			if (String(url).includes("follow")) window.positions.push(init.headers.get("Last-Event-ID"));
			return send(url, init);
		};
		return true;
	})()`
	p.Open("/console#/agents/" + agent)
	p.WaitText("goes on")
	consoletest.Eval[bool](p, sent)
	p.Click("link", "Logs")
	p.WaitText("ERROR first")
	p.WaitText("<b>second</b>")
	p.WaitText("You follow too many logs at the same time")
	if got := consoletest.Eval[string](p, `JSON.stringify(window.positions)`); got != `[null,"1","2"]` {
		t.Errorf("positions of the requests = %s, want none and then those of the last lines", got)
	}
	if got := consoletest.Eval[int](p, `document.querySelectorAll(".log-rows .log-row").length`); got != 2 {
		t.Errorf("%d lines are shown, want 2", got)
	}
	p.Review("agent-logs-full")
	p.Click("button", "Read once, without following")
	waitBadge(p, "Complete")
	p.WaitText("serving")
}

// TestPageVisibility_ReadsAgainForAPersonWhoIsBack forgets a hidden page, and asks before and after it is visible.
func TestPageVisibility_ReadsAgainForAPersonWhoIsBack(t *testing.T) {
	t.Parallel()
	p := module(t, "agent/page-visibility.ts")
	consoletest.Eval[bool](p, `(() => {
		const later = window.setTimeout;
		window.setTimeout = (end, time) => later(end, time / 10000); // a page is forgotten after minutes
		window.page = new module.PageVisibility();
		page.watch();
		window.ask = () => {
			window.wanted = false;
			void page.wanted(new AbortController().signal).then(() => { window.wanted = !page.isLost; });
		};
		return true;
	})()`)
	p.Hide(true)
	p.WaitTrue(`page.isLost`)
	if consoletest.Eval[bool](p, `(async () => { ask(); await 0; return wanted; })()`) {
		t.Error("a hidden page that is forgotten is wanted")
	}
	p.Hide(false)
	p.WaitTrue(`wanted`)
	p.Hide(true)
	p.WaitTrue(`page.isLost`)
	p.Hide(false)
	if !consoletest.Eval[bool](p, `(async () => { ask(); await new Promise(done => setTimeout(done)); return wanted; })()`) {
		t.Error("a page that is visible again is not wanted")
	}
}

// TestLogs_ExplainThatThereAreNone shows a stopped agent, and a container that has not restarted.
func TestLogs_ExplainThatThereAreNone(t *testing.T) {
	t.Parallel()
	admin, agent, p := openAgent(t, "silent", "/logs?source=previous")
	p.WaitText("The container has not restarted")
	p.Click("button", "Show the live log")
	p.WaitText("serving")
	admin.Call(http.MethodPost, "/api/v1/agents/"+agent+"/stop", "", http.StatusOK)
	admin.AwaitAgent(agent, "stopped")
	p.Open("/console#/agents/" + agent + "/logs?tail=200")
	p.WaitText("No container runs (stopped)")
	p.Review("agent-logs-stopped")
	admin.Call(http.MethodPost, "/api/v1/agents/"+agent+"/start", "", http.StatusOK)
	p.WaitText("serving")
}

// TestLogs_StayQuietWithoutAContainer looks for a container again and again. Focus stays on the button, and assistive
// technology hears nothing until there is something to say.
func TestLogs_StayQuietWithoutAContainer(t *testing.T) {
	t.Parallel()
	admin := suite.Admin(t, plan.Starter)
	agent := admin.RunningAgent("quiet")
	p := admin.Page(t)
	p.Respond("GET", "follow=true", refusal(http.StatusConflict, "agent_not_running", "No container runs."))
	p.Open("/console#/agents/" + agent + "/logs")
	p.WaitText("No container runs")
	consoletest.Eval[bool](p, rememberAnnouncements)
	const looks = `performance.getEntriesByType("resource").filter(e => e.name.includes("follow=true")).length`
	p.Focus("button", "Look now")
	for range 2 {
		before := consoletest.Eval[int](p, looks)
		p.Press("Enter")
		p.WaitTrue(fmt.Sprintf("%s > %d", looks, before))
		if got := p.Focused().Name; got != "Look now" {
			t.Errorf("the focus is on %q after a look, want it to stay", got)
		}
	}
	// The outcome of the first look may be said late, after the page shows it.
	const heard = `JSON.stringify(window.said.filter((s, i) => i > 0 || s !== "Log: Nothing to read."))`
	if got := consoletest.Eval[string](p, heard); got != "[]" {
		t.Errorf("the page said %s, want nothing", got)
	}
	p.Respond("GET", "follow=true", consoletest.Response{}) // the container starts
	p.Press("Enter")
	p.WaitText("serving")
	said(p, "Log: Live.")
}

// TestLogs_SayMatchesOnce searches in a log that goes on. The number of matches is said after the search, and not with
// each new line.
func TestLogs_SayMatchesOnce(t *testing.T) {
	t.Parallel()
	admin := suite.Admin(t, plan.Starter)
	agent := admin.RunningAgent("busy")
	p := admin.Page(t)
	searched := make(chan struct{})
	answer := consoletest.Response{
		Status: http.StatusOK, Header: map[string]string{"Content-Type": "text/event-stream"}, Times: 1,
	}
	second := answer
	second.Body, second.Hold = line("2", "ERROR second"), searched
	answer.Body = line("1", "ERROR first")
	p.Respond("GET", "follow=true", second)
	p.Respond("GET", "follow=true", answer)
	p.Open("/console#/agents/" + agent + "/logs")
	p.WaitText("ERROR first")
	consoletest.Eval[bool](p, rememberAnnouncements)
	p.Fill("Search", "error")
	said(p, "1 line matches.")
	close(searched)
	p.WaitText("2 lines match")
	p.Press("Enter")
	said(p, "Line 2 of 2 that match.")
	if got := consoletest.Eval[string](p, `JSON.stringify(window.said)`); strings.Contains(got, "2 lines match") {
		t.Errorf("the page said %s, want no new number with a new line", got)
	}
}
