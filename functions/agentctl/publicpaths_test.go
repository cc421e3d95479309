package agentctl_test

import (
	"strings"
	"testing"

	"agents.example/controlplane/functions/agentctl"
)

func TestAgents_HavePublicPaths(t *testing.T) {
	t.Parallel()
	c := serve(t).admin()
	const paths = "jsonpath={.public_paths[*]}"
	c.run(t, "agents", "create", "my-agent", "--plan", "hobby", "--public-path", "/telegram", "--public-path", "/a,/b",
		"-o", paths).want(t, output{0, "/a /b /telegram\n", ""})
	if got := c.run(t, "agents", "get", "my-agent").ok(t); !strings.Contains(got.Stdout, "/a, /b, /telegram") {
		t.Errorf("the agent has no public paths:\n%s", got.Stdout)
	}
	update := func(flags ...string) output {
		return c.run(t, append([]string{"agents", "update", "my-agent", "-o", paths}, flags...)...)
	}
	update("--public-path", "/hooks/").want(t, output{0, "/hooks/\n", ""})
	update("--name", "my-agent").want(t, output{0, "/hooks/\n", ""})
	update("--public-path", "/v1/x").wantCode(t, agentctl.ExitInvalid, "/v1")
	update("--no-public-paths").want(t, output{0, "\n", ""})
}
