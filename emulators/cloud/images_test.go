package cloud_test

import (
	"bytes"
	"encoding/json"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"agents.example/controlplane/emulators/cloud"
	"agents.example/controlplane/emulators/dataplane"
	"agents.example/controlplane/emulators/gobuild"
	"agents.example/controlplane/shared/image"
	"agents.example/controlplane/shared/testtier"
)

// TestOperator_PutsAnImageThatAgentsRun puts an image into the catalog of a running cloud with the operator's tool. The
// cell refuses it before.
func TestOperator_PutsAnImageThatAgentsRun(t *testing.T) {
	t.Parallel()
	testtier.RequireFull(t, "compiles a program")
	dir, err := dataplane.BuildPackages(t.Context(),
		"agents.example/controlplane/emulators/cloud/testdata/webserver/entrypoint")
	if err != nil {
		t.Fatal(err)
	}
	tools, err := gobuild.Programs(t.Context(), io.Discard, "the operator's tool",
		"agents.example/controlplane/functions/cmd/operator")
	if err != nil {
		t.Fatal(err)
	}
	d := start(t, false, func(o *cloud.Options) { o.Images = map[string]string{webServerImage: dir} })
	ready := filepath.Join(t.TempDir(), "ready.json")
	if err := d.Ready.WriteFile(ready); err != nil {
		t.Fatal(err)
	}
	operator := func(stdin string, args ...string) (string, error) {
		command := exec.CommandContext(t.Context(), filepath.Join(tools, "operator"), append([]string{"-ready", ready},
			args...)...)
		var out bytes.Buffer
		command.Stdin, command.Stdout, command.Stderr = strings.NewReader(stdin), &out, &out
		err := command.Run()
		return out.String(), err
	}
	entry, err := json.Marshal(image.Image{
		ID: image.DefaultID, Name: "Web server", DefaultVersion: "1",
		Versions: []image.Version{{Version: "1", Reference: webServerImage, State: image.Available}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if out, err := operator(string(entry), "images", "put", "-"); err != nil {
		t.Fatalf("images put: %v\n%s", err, out)
	}
	h := d.host(t, `{"name": "of the catalog", "resource_plan": "hobby"}`)
	pod, err := d.cluster.Pods("agent-"+h.id).Get(t.Context(), "agent-0", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := pod.Spec.Containers[0].Image; got != webServerImage {
		t.Errorf("the agent runs %s, want the version of the catalog", got)
	}
	out, err := operator("", "images", "show", "-image", "default")
	if err != nil || !strings.Contains(out, "default  1 ") {
		t.Errorf("images show = %v\n%s\nwant one agent", err, out)
	}
	out, err = operator("", "images", "remove", "-image", "default")
	if err == nil || !strings.Contains(out, "1 agents") {
		t.Errorf("images remove = %v\n%s\nwant a refusal with the number of agents", err, out)
	}
}
