//go:build unix

package consoletest_test

import (
	"fmt"
	"os/exec"
	"testing"

	"agents.example/controlplane/emulators/consoletest"
	"agents.example/controlplane/shared/plan"
)

// typeScriptClient returns the bundled TypeScript client for a page, as the variable module.
func typeScriptClient(t *testing.T) string {
	t.Helper()
	bundle := exec.CommandContext(t.Context(), requireESBuild(t), "src/index.ts", "--bundle", "--format=iife",
		"--global-name=module")
	bundle.Dir = "../../shared/client/typescript"
	script, err := bundle.Output()
	if err != nil {
		t.Fatalf("bundle the TypeScript client: %v", err)
	}
	return string(script) + ";globalThis.module = module;"
}

// TestTypeScriptClient_WorksInAPage uses the client as a page of the API's origin does: with a session token that must
// be renewed first.
func TestTypeScriptClient_WorksInAPage(t *testing.T) {
	t.Parallel()
	suite.RequireBrowser(t)
	script := typeScriptClient(t)
	admin := suite.Admin(t, plan.Starter)
	p := suite.NewPage(t, suite.Cloud(t).Ready.BaseURL)
	p.Open("/docs")
	consoletest.Eval[int](p, fmt.Sprintf(`(() => { %s
		globalThis.token = %q;
		globalThis.renewals = 0;
		globalThis.api = module.createClient({
			baseURL: location.origin, token: (refused) => refused ? (renewals++, token = %q) : token,
		}); return 0 })()`, script, admin.Expired().Token, admin.Token))
	id := consoletest.Eval[string](p, `api.POST("/api/v1/agents", {body: {name: "Page", resource_plan: "starter"}})
		.then((agent) => agent.id)`)
	status := consoletest.Eval[string](p, fmt.Sprintf(`api.waitUntilSettled(%q).then((agent) => agent.status)`, id))
	if status != "running" {
		t.Errorf("the agent is %s, want running", status)
	}
	if line := consoletest.Eval[string](p, fmt.Sprintf(`(async () => {
		for await (const line of api.followLogs(%q)) { return line.stream }
	})()`, id)); line != "combined" {
		t.Errorf("stream of the first line = %q, want combined", line)
	}
	listed := consoletest.Eval[int](p, `(async () => {
		let n = 0;
		for await (const agent of api.items("/api/v1/agents")) { n++ }
		return n;
	})()`)
	if listed != 1 {
		t.Errorf("%d agents are listed, want 1", listed)
	}
	deletion := consoletest.Eval[string](p, fmt.Sprintf(`api.DELETE("/api/v1/agents/{agent_id}", {params: {path:
		{agent_id: %q}}}).then(() => api.waitUntilDeleted(%[1]q)).then(() => "gone")`, id))
	if deletion != "gone" {
		t.Errorf("deletion = %q, want gone", deletion)
	}
	if n := consoletest.Eval[int](p, "renewals"); n != 1 {
		t.Errorf("the token was renewed %d times, want once", n)
	}
}
