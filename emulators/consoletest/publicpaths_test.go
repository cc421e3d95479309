package consoletest_test

import (
	"net/http"
	"testing"

	"agents.example/controlplane/emulators/consoletest"
	"agents.example/controlplane/shared/plan"
)

// TestPublicPaths_AreEditedAsAList refuses a path, loses answers, and shows the list that is stored. A list that
// another admin changed is not replaced.
func TestPublicPaths_AreEditedAsAList(t *testing.T) {
	t.Parallel()
	admin := suite.Admin(t, plan.Starter)
	id := admin.CreateAgent("chat", nil)
	p := admin.Open(t, "/console#/agents/"+id+"/settings")
	card := p.Within("region", "Public paths")
	card.WaitText("None")
	card.Click("button", "Change the public paths")
	dialog := p.Within("dialog", "Which paths are public?")
	dialog.Fill("Public paths", "/telegram\n\n /v1/hooks/ ")
	dialog.Click("button", "Save")
	dialog.WaitText("always need their credentials")
	p.Review("agent-public-paths")
	consoletest.Eval[int](p, loseAnswers)
	dialog.Fill("Public paths", "/telegram\n/other/")
	dialog.Click("button", "Save")
	dialog.WaitText(isUnknown)
	consoletest.Eval[int](p, restoreAnswers)
	dialog.Fill("Public paths", "/telegram\n/hooks/") // another change, which is no repeat of the lost one
	dialog.Click("button", "Save")
	p.WaitGone("dialog", "Which paths are public?")
	card.WaitText("/hooks/")
	card.WaitText("/telegram")

	card.Click("button", "Change the public paths")
	dialog.Fill("Public paths", "/mine")
	admin.Call(http.MethodPatch, "/api/v1/agents/"+id, `{"public_paths": ["/theirs"]}`, http.StatusOK)
	dialog.Click("button", "Save")
	dialog.WaitText("The public paths were changed by someone else while you looked at them.")
	dialog.Click("button", "Cancel")
	card.WaitText("/theirs")
	card.Click("button", "Change the public paths")
	dialog.Fill("Public paths", "/mine\n/theirs")
	checkGuarded(t, p, "Which paths are public?")
	dialog.Click("button", "Save")
	card.WaitText("/mine")
}
