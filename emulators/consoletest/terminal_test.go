//go:build unix

package consoletest_test

import (
	"net/http"
	"testing"

	"agents.example/controlplane/emulators/consoletest"
	"agents.example/controlplane/shared/agentexec/channel"
	"agents.example/controlplane/shared/plan"
)

// TestTerminal_ShowsWhatTheShellDoes types a command, whose output has colors, and ends the shell.
func TestTerminal_ShowsWhatTheShellDoes(t *testing.T) {
	t.Parallel()
	_, _, p := openAgent(t, "has a shell", "/terminal")
	p.WaitText("Connected")
	p.Focus("textbox", "Terminal input")
	p.Type(`printf '\033[38;2;9;200;9mcolor%s\033[0m\n' $((40+2))`)
	p.Press("Enter")
	p.WaitTrue(`document.querySelector(".xterm-rows").innerText.includes("color42")`)
	p.WaitTrue(`[...document.querySelectorAll(".xterm-rows span")].some(s => getComputedStyle(s).color === "rgb(9, 200, 9)")`)
	p.Review("agent-terminal")
	p.Focus("textbox", "Terminal input")
	p.Type("exit")
	p.Press("Enter")
	p.WaitText("The shell has ended.")
	p.Click("button", "Open another shell")
	p.WaitText("Connected")
}

// countHeld counts the bytes of outputs that the page has received, and those of them that it has not shown yet.
const countHeld = `(() => {
	const w = window, Socket = WebSocket, send = Socket.prototype.send;
	w.received = w.held = w.mostHeld = 0;
	Socket.prototype.send = function (message) {
		if (message[0] === 5) w.held -= Number(new TextDecoder().decode(message.subarray(1)));
		return send.call(this, message);
	};
	w.WebSocket = class extends Socket {
		constructor(...args) {
			super(...args);
			this.addEventListener("message", ({ data }) => {
				w.received += data.byteLength - 1;
				w.held += data.byteLength - 1;
				w.mostHeld = Math.max(w.mostHeld, w.held);
			});
		}
	};
})()`

// TestTerminal_HoldsWhatItCanShow runs a program that prints faster than a page can show.
func TestTerminal_HoldsWhatItCanShow(t *testing.T) {
	t.Parallel()
	admin := suite.Admin(t, plan.Starter)
	agent := admin.RunningAgent("prints")
	p := admin.Page(t)
	p.RunFirst(countHeld)
	p.Open("/console#/agents/" + agent + "/terminal")
	p.WaitText("Connected")
	p.Focus("textbox", "Terminal input")
	p.Type(`yes | head -c 4000000; echo do$((40+2))ne`)
	p.Press("Enter")
	p.WaitTrue(`document.querySelector(".xterm-rows").innerText.includes("do42ne")`)
	received, most := consoletest.Eval[int](p, "received"), consoletest.Eval[int](p, "mostHeld")
	if received < 4_000_000 || most >= channel.Window+channel.MaxFrame {
		t.Errorf("the page held up to %d of %d bytes, want a window of %d at most", most, received, channel.Window)
	}
}

// TestTerminal_SaysWhyItIsRefused: browsers do not tell a page the answer to its WebSocket.
func TestTerminal_SaysWhyItIsRefused(t *testing.T) {
	t.Parallel()
	admin := suite.Admin(t, plan.Starter)
	agent := admin.RunningAgent("is closed")
	p := admin.Open(t, "/console#/usage")
	consoletest.Eval[int](p, loseAnswers)
	p.Click("button", "Turn off for everyone")
	p.WaitText(isUnknown)
	p.WaitFor("button", "Turn on for admins")
	consoletest.Eval[int](p, restoreAnswers)
	p.Click("button", "Try again") // to turn it off
	p.WaitText("No one may enter containers now.")
	p.Open("/console#/agents/" + agent + "/terminal")
	p.WaitText("The organization's setting exec is off.")
}

// TestTerminal_SaysThatTheIssuerFails opens a terminal when the token has expired and cannot be renewed.
func TestTerminal_SaysThatTheIssuerFails(t *testing.T) {
	t.Parallel()
	admin := suite.Admin(t, plan.Starter)
	agent := admin.RunningAgent("has no shell")
	p := signedIn(t, admin)
	p.Open("/console#/agents/" + agent)
	p.WaitFor("heading", "has no shell")
	p.Respond(http.MethodPost, tokenEndpoint, consoletest.Response{
		Status: http.StatusServiceUnavailable, Header: map[string]string{"Access-Control-Allow-Origin": "*"},
	})
	consoletest.Eval[int](p, passDay)
	p.Click("link", "Terminal")
	p.Within("region", "Terminal").WaitText("The identity provider answered with status 503.")
}
