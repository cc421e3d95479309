//go:build unix

package consoletest_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agents.example/controlplane/emulators/consoletest"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/plan"
)

const envFile = `# settings
LOG_LEVEL=debug
export OPENAI_API_KEY=sk-abcdefghijklmnopqrst123
DATABASE_URL='postgres://app:hunter2@db/app'
this line is wrong
PORT=3000`

// pasteBox is the box for a .env file.
const pasteBox = "Content of the .env file"

// pastedText is the text of the box.
const pastedText = `document.querySelector("dialog .env-paste textarea")?.value`

// inView is whether a sentence or a button of the box is neither below the dialog's end nor behind its buttons.
const inView = `(() => {
	const all = [...document.querySelectorAll("dialog .env-paste :is(.wrong, button)")];
	const part = all.find(e => e.innerText.includes(%q));
	const at = part?.getBoundingClientRect();
	return at !== undefined && part.contains(document.elementFromPoint(at.left + at.width / 2, at.top + at.height / 2));
})()`

// checkPasteRefused checks that the page asks what happens to the text in the box, and moves there.
func checkPasteRefused(t *testing.T, p *consoletest.Page) {
	t.Helper()
	p.WaitText("discard the text.")
	checkFocus(t, p, "textbox", pasteBox)
}

// TestAgentCreation_KeepsWhatIsPasted closes the dialog by accident, and forgets to add the variables.
func TestAgentCreation_KeepsWhatIsPasted(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, 0)
	c.answers = []func(http.ResponseWriter, string){c.accept("web")}
	p := c.open(t, "#/agents/new", adminToken())
	p.Click("button", "Paste a .env file")
	p.Fill(pasteBox, "LOG_LEVEL=debug\n")
	p.Press("Escape")
	p.WaitGone("dialog", "New agent")
	p.Click("button", "New agent")
	p.WaitText("This is what you typed before.")
	p.WaitTrue(pastedText + ` === "LOG_LEVEL=debug\n"`)
	p.Fill("Name", "web")
	p.Click("button", "Paste a .env file") // hides the box
	p.WaitGone("textbox", pasteBox)
	p.Click("button", "Create the agent")
	checkPasteRefused(t, p)
	p.Click("button", "Add these variables")
	p.WaitGone("textbox", pasteBox)
	p.Click("button", "Create the agent")
	p.WaitFor("heading", "web")
	want := map[string]any{"LOG_LEVEL": "debug"}
	if diff := cmp.Diff(want, c.requests()[0].body["env_vars"]); diff != "" {
		t.Errorf("variables of the request (-want +got):\n%s", diff)
	}
}

func TestAgentCreation_ReadsAnEnvFile(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, 0)
	c.answers = []func(http.ResponseWriter, string){c.accept("support bot")}
	p := c.open(t, "#/agents/new", adminToken())
	p.WaitFor("dialog", "New agent")
	p.Review("agents-new")
	p.Fill("Name", " support bot ")
	p.Click("button", "Paste a .env file")
	p.WaitFor("textbox", pasteBox)
	p.WaitGone("button", "Discard the text") // nothing is said before anything is typed
	p.WaitNoText("No variable was found")
	p.Fill(pasteBox, envFile)
	p.WaitText("3 variables found, 2 secrets among them.")
	p.WaitText("Line 5: There is no “=”. Write NAME=value.")
	p.Review("agents-new-env")
	p.Click("button", "Add the lines that are right")
	p.WaitText("2 secrets")
	p.WaitTrue(pastedText + ` === "this line is wrong\nPORT=3000"`)
	p.WaitTrue(fmt.Sprintf(inView, "Line 2: PORT is reserved for the platform."))
	p.WaitGone("button", "Add the lines that are right")
	checkFocus(t, p, "textbox", pasteBox)
	p.Click("button", "Create the agent")
	checkPasteRefused(t, p)
	p.Review("agents-new-env-refused")
	for _, width := range []int64{360, 1280} {
		p.SetViewport(width, 800)
		p.Click("button", "Create the agent")
		p.WaitTrue(fmt.Sprintf(inView, "Correct these lines, or discard the text."))
		p.WaitTrue(fmt.Sprintf(inView, "Line 2: PORT is reserved for the platform."))
		p.WaitTrue(fmt.Sprintf(inView, "Discard the text"))
		p.Screenshot("agents-new-env-in-view")
	}
	if sent := c.requests(); len(sent) != 0 {
		t.Errorf("requests = %+v, want none while a line of the file is not added", sent)
	}
	p.Click("button", "Discard the text")
	p.WaitGone("textbox", pasteBox)
	p.WaitTrue(`document.querySelectorAll(".variable input[type=password]").length === 2`)
	p.Review("agents-new-variables")
	p.SetViewport(360, 800)
	p.Focus("button", "Remove DATABASE_URL")
	p.Screenshot("agents-new-variables-narrow")
	p.SetViewport(1280, 800)
	p.Click("button", "Create the agent")
	p.WaitFor("heading", "support bot")
	p.WaitURL("#/agents/" + c.at(0).ID)
	want := map[string]any{
		"name": "support bot", "resource_plan": "hobby", "region": "us-central1", "env_vars": map[string]any{
			"LOG_LEVEL": "debug", "OPENAI_API_KEY": "sk-abcdefghijklmnopqrst123",
			"DATABASE_URL": "postgres://app:hunter2@db/app",
		},
	}
	if diff := cmp.Diff(want, c.requests()[0].body); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
}

func TestAgentCreation_ShowsViolationsAtTheirFields(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, 0)
	c.answers = []func(http.ResponseWriter, string){
		refuse(fault.Validation(
			fault.Violation{Loc: []any{"body", "name"}, Type: "value_error", Msg: "Value error, a name is bad"},
			fault.Violation{
				Loc: []any{"body", "env_vars", "A-B"}, Type: "value_error",
				Msg: "Value error, the key is malformed",
			},
		)),
		c.accept("web"),
	}
	p := c.open(t, "#/agents/new", adminToken())
	p.WaitText("Room for 5 more")
	p.Click("button", "Create the agent")
	p.WaitText("Enter a name.")
	p.Fill("Name", "wep")
	p.Click("button", "Add a variable")
	p.Fill("Name of variable 1", "port")
	p.Fill("Value of port", "80")
	p.Click("button", "Create the agent")
	p.WaitText("port is reserved for the platform. Leave it out.")
	if sent := c.requests(); len(sent) != 0 {
		t.Errorf("requests = %+v, want none while a name is reserved", sent)
	}
	p.Fill("Name of port", "A-B")
	p.Click("button", "Create the agent")
	p.WaitText("2 things need a change.")
	p.WaitText("A name is bad.")
	p.WaitText("The key is malformed.")
	p.WaitTrue(`document.activeElement.getAttribute("aria-invalid") === "true"`)
	p.Review("agents-new-violations")
	p.Fill("Name", "web")
	p.WaitNoText("A name is bad.")
	p.Click("button", "Remove A-B")
	p.Click("button", "Create the agent")
	p.WaitFor("heading", "web")
	if sent := c.requests(); sent[0].key == sent[1].key {
		t.Error("another request has the Idempotency-Key of the first one")
	}
}

func TestAgentCreation_RepeatsAFailedRequestWithItsKey(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, 0)
	c.answers = []func(http.ResponseWriter, string){
		refuse(fault.New(fault.Unavailable, "unavailable", "The store is down. Retry.")), c.accept("web"),
	}
	p := c.open(t, "#/agents/new", adminToken())
	p.Fill("Name", "web")
	p.Click("button", "Create the agent")
	p.WaitText("The store is down.")
	p.WaitFor("button", "Copy the request ID")
	p.Press("Escape") // by accident
	p.WaitGone("dialog", "New agent")
	p.Click("button", "New agent")
	p.WaitText("This is what you typed before.")
	p.Click("button", "Try again")
	p.WaitFor("heading", "web")
	sent := c.requests()
	if len(sent) != 2 || sent[0].key == "" || sent[0].key != sent[1].key {
		t.Errorf("requests = %+v, want two with one Idempotency-Key", sent)
	}
}

// TestAgentCreation_KeepsWhatIsTypedWhileItIsSent begins another agent before the service has answered about the first.
func TestAgentCreation_KeepsWhatIsTypedWhileItIsSent(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, 0)
	c.answers = []func(http.ResponseWriter, string){c.accept("first")}
	p := c.open(t, "#/agents/new", adminToken())
	answered := make(chan struct{})
	p.Respond(http.MethodPost, "/api/v1/agents", consoletest.Response{Hold: answered})
	p.Fill("Name", "first")
	p.WaitFor("button", "Start over")
	p.Click("button", "Create the agent")
	p.WaitFor("button", "Creating …")
	p.WaitGone("button", "Start over") // what is sent cannot be taken back
	p.Fill("Name", "second")
	close(answered)
	p.WaitFor("heading", "first")
	p.Open("/console#/agents/new")
	p.WaitTrue(`document.querySelector("dialog input").value === "second"`)
	p.WaitFor("button", "Create the agent")
}

func TestAgentCreation_SaysWhatToDoWithoutRoom(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, 0)
	c.add("nightly", time.Now(), func(a *agent.Agent) { a.Status = agent.Stopped })
	c.answers = []func(http.ResponseWriter, string){
		refuse(fault.New(fault.PaymentRequired, "plan_capacity_exceeded", "The startup plan's limit is reached.").
			WithMeta(map[string]any{"limit": "agents", "current": 5, "max": 5, "upgrade_to": plan.Pro})),
	}
	p := c.open(t, "#/agents/new", adminToken())
	p.Fill("Name", "web")
	p.Click("button", "Create the agent")
	dialog := p.Within("dialog", "New agent")
	dialog.WaitText("Deleting one of these agents makes room.")
	dialog.WaitFor("link", "nightly")
	dialog.WaitFor("link", "See larger plans")
	p.Review("agents-new-no-room")
}

// checkSize waits until a size is chosen.
func checkSize(p *consoletest.Page, size string) {
	p.WaitTrue(`document.querySelector("input[type=radio]:checked")?.closest("label").innerText.startsWith("` + size + `")`)
}

// TestAgentCreation_StartsWithTheSmallestSizeOfItsImage has an image that the smallest size cannot run.
func TestAgentCreation_StartsWithTheSmallestSizeOfItsImage(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, 0)
	p := c.open(t, "", adminToken())
	p.Respond("GET", "/api/v1/images", consoletest.Response{Status: http.StatusOK, Body: `[{"id": "default",
		"name": "Heavy", "description": "", "docs_url": null, "min_plan": "starter", "default_version": "1.0",
		"versions": [{"version": "1.0", "state": "available", "notes": ""}]}]`})
	p.Open("/console#/agents/new")
	checkSize(p, "Starter")
}

func TestAgentCreation_ShowsPlansThatDoNotFit(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, 0)
	c.account.Usage = organization.Usage{Agents: 4, CPUMillis: 9000, MemoryBytes: 9 << 30, StorageBytes: 40 << 30}
	p := c.open(t, "#/agents/new", adminToken())
	p.WaitText("has room for 1 of 5 agents")
	if startup := p.WaitFor("radio", "Startup"); !startup.Disabled {
		t.Errorf("plan = %+v, want it disabled", startup)
	}
	p.WaitText("Needs 2 cores. You have 1 core left of 10 cores.")
	p.WaitText("Needs the Pro plan.")
	checkSize(p, "Hobby")
	p.WaitText("Takes 10% of your CPU, 10% of memory, 10% of storage.") // Starter
	if pro := p.WaitFor("radio", "Pro"); strings.Contains(pro.Description, "Takes") {
		t.Errorf("size of a larger plan = %+v, want no share of the present plan", pro)
	}
	dialog := p.Within("dialog", "New agent")
	dialog.WaitText("$599 a month")
	dialog.WaitFor("group", "Size")
	p.Review("agents-new-little-room")
}

func TestAgentCreation_SaysThatThePlanIsFull(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, 1)
	c.account.Usage = organization.Usage{Agents: 5, CPUMillis: 2500, MemoryBytes: 5 << 30, StorageBytes: 25 << 30}
	p := c.open(t, "#/agents/new", adminToken())
	dialog := p.Within("dialog", "New agent")
	dialog.WaitText("Your plan has no room for another agent")
	dialog.WaitText("Deleting one of these agents makes room.")
	dialog.WaitFor("link", "worker 0000")
	p.Review("agents-new-full")
}
