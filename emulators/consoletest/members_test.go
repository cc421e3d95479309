//go:build unix

package consoletest_test

import (
	"testing"

	"agents.example/controlplane/emulators/consoletest"
	"agents.example/controlplane/shared/plan"
)

// fakeMembers answers for the service, which cannot list members of the local issuer: a list with one admin, whose
// address is that of the caller, and two members. It changes the list as the service does.
const fakeMembers = `(() => {
	const path = "/api/v1/organizations/current/members";
	const members = [
		{user_id: "grace", email: "grace@example.com", name: "Grace", role: "member"},
		{user_id: "alan", email: "alan@example.com", name: null, role: "member"},
	];
	const answer = (status, body) => new Response(body === undefined ? null : JSON.stringify(body), {status});
	const real = fetch;
	window.fetch = async (url, init = {}) => {
		const at = new URL(url).pathname;
		if (at === "/api/v1/me") {
			const me = await real(url, init);
			if (me.status === 200 && members.every(m => m.role !== "admin")) {
				const {sub} = await me.clone().json();
				members.unshift({user_id: sub, email: "ada@example.com", name: "Ada", role: "admin"});
			}
			return me;
		}
		if (!at.startsWith(path)) return real(url, init);
		if (init.method === "GET") return answer(200, members);
		const id = decodeURIComponent(at.slice(path.length + 1));
		const i = members.findIndex(m => m.user_id === id);
		if (i < 0 && id !== "new-user") return answer(404, {detail: "Member not found.", code: "member_not_found"});
		if (init.method === "DELETE") { members.splice(i, 1); return answer(204); }
		const changed = {...(members[i] ?? {user_id: id, email: null, name: null}), ...JSON.parse(init.body)};
		members.splice(i < 0 ? members.length : i, 1, changed);
		return answer(200, changed);
	};
})()`

// TestMembers_AreAddedPromotedAndRemoved manages the members of an organization whose only admin is the caller.
func TestMembers_AreAddedPromotedAndRemoved(t *testing.T) {
	t.Parallel()
	p := suite.Admin(t, plan.Starter).Page(t)
	p.RunFirst(fakeMembers)
	p.Open("/console#/members")
	own := p.Containing("row", "You")
	for _, button := range []string{"Make a member (Ada)", "Remove Ada"} {
		if b := own.WaitFor("button", button); !b.Disabled || b.Description == "" {
			t.Errorf("button %s = %+v, want it disabled for the only admin", button, b)
		}
	}
	p.Review("members")
	p.Click("button", "Add a member")
	dialog := p.Within("dialog", "Add a member")
	dialog.Fill("User ID", "no spaces allowed")
	dialog.Click("button", "Add")
	dialog.WaitText("An ID begins with a letter or digit and has no spaces.")
	checkFocus(t, p, "textbox", "User ID")
	dialog.Fill("User ID", "unknown")
	dialog.Click("button", "Add")
	dialog.WaitText("No user has this ID")
	checkFocus(t, p, "textbox", "User ID")
	p.Review("member-add")
	dialog.Fill("User ID", "grace")
	dialog.Click("button", "Add")
	dialog.WaitText("Grace is a member already. Change the role in the list.")
	dialog.Fill("User ID", "new-user")
	dialog.Click("button", "Add")
	p.WaitText("4 people")
	p.Click("button", "Make an admin (Grace)")
	p.Within("dialog", "Make Grace an admin?").Click("button", "Make an admin")
	own.WaitUntil("button", "Remove Ada", "is enabled", enabled)
	p.Click("button", "Remove alan@example.com")
	p.Within("dialog", "Remove alan@example.com?").Click("button", "Remove")
	p.WaitText("3 people")
	own.Click("button", "Remove Ada")
	p.Within("dialog", "Leave the organization?").WaitText("another admin must add you again")
	p.Review("member-leave")
}

func enabled(e consoletest.Element) bool { return !e.Disabled }
