package agentctl_test

import (
	"strings"
	"testing"

	"agents.example/controlplane/functions/agentctl"
	"agents.example/controlplane/functions/backendtest"
)

func TestImages_ListsVersions(t *testing.T) {
	t.Parallel()
	a := serve(t)
	c := a.admin()
	c.run(t, "images", "-o", "name").want(t, output{0, "default@bbbbbbbbbbbb\n", ""})
	c.run(t, "images", "list", "-o", "name").want(t, output{0, "default@bbbbbbbbbbbb\n", ""})
	a.PutImages(t)
	c.run(t, "images").want(t, output{0, "IMAGE  VERSION  STATE  MIN PLAN  KERNEL  NAME  NOTES\n" +
		"assistant  2  default  starter  any  Assistant  Notes of 2\n" +
		"assistant  1  deprecated  starter  any  Assistant  Notes of 1\n" +
		"default  bbbbbbbbbbbb  default  -  any  Default  -\n", ""})
	c.run(t, "images", "-o", "jsonpath={[*].id}").want(t, output{0, "assistant default\n", ""})
}

func TestAgents_RunImages(t *testing.T) {
	t.Parallel()
	a := serve(t)
	a.PutImages(t)
	c := a.admin()
	c.run(t, "agents", "create", "my-agent", "--plan", "starter", "--image", "assistant@1").ok(t)
	got := c.run(t, "agents", "list", "--image", "assistant", "--image-version", "1").ok(t)
	if !strings.Contains(got.Stdout, "assistant@1") {
		t.Errorf("the list has no image:\n%s", got.Stdout)
	}
	shown := c.run(t, "agents", "get", "my-agent").ok(t)
	wantParts(t, "the agent", shown.Stdout, "assistant@1 (2 is available)", backendtest.Digest("1"), "auto")
	const image = "jsonpath={.image.version} {.image.policy} {.image.maintenance_window.timezone}"
	update := func(flags ...string) output {
		return c.run(t, append([]string{"agents", "update", "my-agent", "-o", image}, flags...)...)
	}
	update("--image", "assistant").want(t, output{0, "2 auto\n", ""})
	update("--image-policy", "window", "--maintenance-window", "saturday,sunday/02:30/4/Europe/Berlin").
		want(t, output{0, "2 window Europe/Berlin\n", ""})
	if got := c.run(t, "agents", "get", "my-agent").ok(t); !strings.Contains(got.Stdout,
		"window (saturday, sunday 02:30 for 4 h, Europe/Berlin)") {
		t.Errorf("the agent has no window:\n%s", got.Stdout)
	}
	update("--image-policy", "pinned", "--no-maintenance-window").want(t, output{0, "2 pinned\n", ""})
	diagnosis := c.run(t, "agents", "diagnose", "my-agent").ok(t)
	if !strings.Contains(diagnosis.Stdout, "Image: assistant@2 "+backendtest.Digest("2")) {
		t.Errorf("the diagnosis names no image:\n%s", diagnosis.Stdout)
	}
	update("--image", "default").wantCode(t, agentctl.ExitConflict, "another agent")
	for _, window := range []string{"sunday", "sun/02:30/4/UTC", "sunday/02:30/x/UTC"} {
		update("--maintenance-window", window).wantCode(t, agentctl.ExitUsage, "--maintenance-window "+window)
	}
	update().wantCode(t, agentctl.ExitUsage, "--image")
}

func TestExport_SaysWhoseImageItCannotWrite(t *testing.T) {
	t.Parallel()
	a := serve(t)
	c := a.admin()
	own := "custom.test/own@" + backendtest.Digest("c")
	c.run(t, "agents", "create", "own", "--plan", "startup", "--image", own).ok(t)
	c.run(t, "agents", "create", "other").ok(t)
	c.run(t, "export", "own", "other").wantCode(t, agentctl.ExitOK, "custom images: own would run another image")
	if got := c.run(t, "export", "other").ok(t); strings.Contains(got.Stderr, "custom images") {
		t.Errorf("of an agent of the catalog: %s", got.Stderr)
	}
}
