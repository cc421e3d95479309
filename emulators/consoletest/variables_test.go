//go:build unix

package consoletest_test

import (
	"net/http"
	"testing"

	"agents.example/controlplane/emulators/consoletest"
	"agents.example/controlplane/shared/plan"
)

// TestVariables_AreSetTogether sets plain variables and secrets from a .env file, and deletes one of each.
func TestVariables_AreSetTogether(t *testing.T) {
	t.Parallel()
	_, _, p := openAgent(t, "configured", "/variables")
	p.WaitText("The agent has no secrets.")
	p.Click("button", "Set variables")
	dialog := p.Within("dialog", "Set variables")
	dialog.Click("button", "Paste a .env file")
	dialog.Fill("Content of the .env file", "LOG_LEVEL=debug\nOPENAI_API_KEY='value-of-the-key'\n")
	dialog.Click("button", "Save")
	checkPasteRefused(t, p)
	dialog.Click("button", "Add these variables")
	dialog.Click("button", "Another one")
	dialog.Fill("Name of variable 3", "PORT")
	dialog.Fill("Value of PORT", "80")
	dialog.Click("button", "Save 3 variables")
	dialog.WaitText("PORT is reserved for the platform. Leave it out.")
	checkFocus(t, p, "textbox", "Name of PORT")
	p.Review("variables-set")
	dialog.Click("button", "Remove PORT from the form")
	dialog.Click("button", "Save 2 variables")
	p.WaitGone("dialog", "Set variables")
	p.WaitFor("button", "Delete LOG_LEVEL")
	p.WaitText("In use")
	p.WaitText("Done")
	p.Review("variables")
	if consoletest.Eval[bool](p, `document.documentElement.outerHTML.includes("value-of-the-key") ||
		[...document.querySelectorAll("input")].some(e => e.value.includes("value-of-the-key"))`) {
		t.Error("the page still has the value of a secret")
	}
	p.Click("button", "Delete LOG_LEVEL")
	p.Within("dialog", "Delete LOG_LEVEL?").Click("button", "Delete LOG_LEVEL")
	p.WaitText("The agent has no plain variables.")
	p.Click("button", "Delete OPENAI_API_KEY")
	p.Within("dialog", "Delete OPENAI_API_KEY?").Click("button", "Delete OPENAI_API_KEY")
	p.WaitText("The agent has no secrets.")
}

// TestFiles_AreSetAndRemoved gives an agent a file after a refusal, changes its permissions, replaces its text, empties
// it, and removes it.
func TestFiles_AreSetAndRemoved(t *testing.T) {
	t.Parallel()
	_, _, p := openAgent(t, "with files", "/variables")
	p.WaitText("The agent has no files.")
	p.Click("button", "Add a file")
	dialog := p.Within("dialog", "Add a file")
	dialog.Fill("Path", "/etc/passwd")
	dialog.Fill("Text", "Be brief.")
	dialog.Click("button", "Save")
	dialog.WaitText("must be below /data or /config")
	p.Review("file-refused")
	dialog.Fill("Path", "/config/prompt.md")
	dialog.Click("button", "Save")
	p.WaitGone("dialog", "Add a file")
	p.WaitText("9 B")
	p.Click("button", "Replace /config/prompt.md")
	dialog = p.Within("dialog", "Replace /config/prompt.md")
	if fields := dialog.All("textbox", "Path"); len(fields) > 0 {
		t.Error("the path of a file that is replaced can be changed")
	}
	dialog.Fill("Permissions", "0600")
	dialog.Click("button", "Save")
	p.WaitText("9 B, 0600")
	p.Click("button", "Replace /config/prompt.md")
	dialog.Select("What is in it", "Another text")
	dialog.Fill("Text", "Be very brief.")
	checkGuarded(t, p, "Replace /config/prompt.md")
	dialog.Click("button", "Save")
	p.WaitText("14 B")
	p.Review("files")
	p.Click("button", "Add a file")
	dialog = p.Within("dialog", "Add a file")
	dialog.Fill("Path", "/config/prompt.md")
	dialog.Click("button", "Save")
	dialog.WaitText("The agent has this file. Replace it in the list of files.")
	dialog.Fill("Path", "/config/prompt2.md")
	dialog.Click("button", "Cancel")
	p.Click("button", "Replace /config/prompt.md")
	dialog = p.Within("dialog", "Replace /config/prompt.md")
	dialog.Select("What is in it", "Another text")
	dialog.Click("button", "Save")
	p.WaitText("0 B, 0600")
	p.Click("button", "Remove /config/prompt.md")
	p.Within("dialog", "Remove /config/prompt.md?").Click("button", "Remove the file")
	p.WaitText("The agent has no files.")
}

// TestVariables_SayWhatIsSaved has the service refuse the secrets after it accepted the plain variables.
func TestVariables_SayWhatIsSaved(t *testing.T) {
	t.Parallel()
	admin := suite.Admin(t, plan.Starter)
	agent := admin.CreateAgent("partial", map[string]string{"API": "1"})
	p := admin.Page(t)
	p.Respond(http.MethodPut, "/secrets", consoletest.Response{
		Status: http.StatusUnprocessableEntity,
		Body: `{"code": "validation_error", "status": 422, "request_id": "r-1", "detail": [
			{"loc": ["body", "secrets", "API_KEY"], "msg": "Value error, the key is refused", "type": "value_error"},
			{"loc": ["body"], "msg": "Too many secrets", "type": "value_error"}]}`,
	})
	p.Open("/console#/agents/" + agent + "/variables")
	p.WaitText("The agent has no secrets.")
	p.WaitText("No secret was set, deleted or rotated yet.") // what is above the button has its size
	p.Click("button", "Set API to a new value")
	dialog := p.Within("dialog", "Set API")
	checkFocus(t, p, "textbox", "Value of API")
	p.Type("2")
	dialog.Click("button", "Another one")
	checkFocus(t, p, "textbox", "Name of variable 2")
	p.Type("API_KEY") // begins with the name of the first row
	dialog.Fill("Value of API_KEY", "secret")
	dialog.Click("button", "Save 2 variables")
	dialog.WaitText("The key is refused.")
	checkFocus(t, p, "textbox", "Name of API_KEY")
	dialog.WaitText("Too many secrets")
	dialog.WaitText("1 variable is saved already")
	dialog.WaitText("r-1")
	p.Review("variables-partly-saved")
}

// TestSecrets_WaitForTheStart sets a secret of a stopped agent, and starts the agent.
func TestSecrets_WaitForTheStart(t *testing.T) {
	t.Parallel()
	admin := suite.Admin(t, plan.Starter)
	agent := admin.RunningAgent("rests")
	admin.Call(http.MethodPost, "/api/v1/agents/"+agent+"/stop", "", http.StatusOK)
	admin.AwaitAgent(agent, "stopped")
	p := admin.Open(t, "/console#/agents/"+agent+"/variables")
	p.Click("button", "Set variables")
	dialog := p.Within("dialog", "Set variables")
	dialog.WaitText("None now: no pod runs.")
	dialog.Fill("Name of variable 1", "DB_PASSWORD")
	dialog.Fill("Value of DB_PASSWORD", "secret")
	dialog.Click("button", "Save")
	p.WaitText("Waits for the start")
	p.WaitText("Used from the next start")
	if b := p.WaitFor("button", "Retry this step"); !b.Disabled || b.Description == "" {
		t.Errorf("button to retry = %+v, want it disabled with a reason", b)
	}
	p.Review("variables-waiting")
	admin.Call(http.MethodPost, "/api/v1/agents/"+agent+"/start", "", http.StatusOK)
	p.WaitText("In use")
	p.WaitText("Done")
}

// TestSecrets_SayThatAValueIsLost retries a change whose value did not reach the secret store, and offers to set it.
func TestSecrets_SayThatAValueIsLost(t *testing.T) {
	t.Parallel()
	admin := suite.Admin(t, plan.Starter)
	agent := admin.RunningAgent("lost")
	p := admin.Page(t)
	p.Respond("GET", "/secret-operations", consoletest.Response{
		Status: http.StatusOK, Header: map[string]string{"Content-Type": "application/json"},
		Body: `[{"id": "6f1c2f0e-33b5-4c5a-9d0a-7a1f4e2b9c11", "agent_id": "` + agent + `", "key": "API_TOKEN",
			"secret_ref": null, "action": "set", "stage": "store", "status": "pending",
			"error_code": "secret_store_unavailable", "attempt_count": 1,
			"created_at": "2026-03-02T09:30:00Z", "updated_at": "2026-03-02T09:30:01Z"}]`,
	})
	p.Respond("POST", "/reconcile", refusal(http.StatusBadRequest, "secret_value_unavailable", "Set it again."))
	p.Open("/console#/agents/" + agent + "/variables")
	p.WaitText("The secret store cannot be reached")
	p.Click("button", "Retry this step")
	p.WaitText("The value did not reach the secret store")
	p.Review("variables-lost")
	p.Containing("alert", "The value did not reach").Click("button", "Set API_TOKEN again")
	p.WaitFor("dialog", "Set API_TOKEN")
}

// TestVariables_OfMembers says why members see neither names nor logs.
func TestVariables_OfMembers(t *testing.T) {
	t.Parallel()
	admin := suite.Admin(t, plan.Starter)
	agent := admin.RunningAgent("private")
	p := admin.Colleague("member").Open(t, "/console#/agents/"+agent+"/variables")
	p.WaitText("Only admins can see and change variables")
	p.Review("member-variables")
	p.Click("link", "Logs")
	p.WaitText("Only admins can read logs")
	p.Click("link", "Metrics")
	p.WaitText("Restarts")
}

// TestConfig_SaysThatNumbersAreRounded shows a number that a browser cannot hold, with a note, and others without one.
func TestConfig_SaysThatNumbersAreRounded(t *testing.T) {
	t.Parallel()
	admin := suite.Admin(t, plan.Starter)
	p := admin.Page(t)
	for config, rounded := range map[string]bool{
		`{"chats": [{"id": 9007199254740993}]}`: true, `{"chats": [{"id": 9007199254740991}], "share": 0.5}`: false,
	} {
		body := `{"name": "configured", "resource_plan": "hobby", "config": ` + config + `}`
		id, _ := admin.Call(http.MethodPost, "/api/v1/agents", body, http.StatusCreated)["id"].(string)
		p.Open("/console#/agents/" + id + "/settings")
		card := p.Within("region", "Configuration")
		card.WaitText("chats")
		if rounded {
			card.WaitText("Browsers round very large numbers")
		} else {
			card.WaitNoText("Browsers round very large numbers")
		}
	}
}
