package cloud_test

import (
	"encoding/json"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"agents.example/controlplane/emulators/cloud"
	"agents.example/controlplane/emulators/dataplane"
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
	d := start(t, false, func(o *cloud.Options) { o.Images = map[string]string{webServerImage: dir} })
	o := newOperator(t, d)
	entry, err := json.Marshal(image.Image{
		ID: image.DefaultID, Name: "Web server", DefaultVersion: "1",
		Versions: []image.Version{{Version: "1", Reference: webServerImage, State: image.Available}},
	})
	if err != nil {
		t.Fatal(err)
	}
	o.run(string(entry), "images", "put", "-")
	h := d.host(t, `{"name": "of the catalog", "resource_plan": "hobby"}`)
	pod, err := d.cluster.Pods("agent-"+h.id).Get(t.Context(), "agent-0", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := pod.Spec.Containers[0].Image; got != webServerImage {
		t.Errorf("the agent runs %s, want the version of the catalog", got)
	}
	out, err := o.try("", "images", "show", "-image", "default")
	if err != nil || !strings.Contains(out, "default  1 ") {
		t.Errorf("images show = %v\n%s\nwant one agent", err, out)
	}
	out, err = o.try("", "images", "remove", "-image", "default")
	if err == nil || !strings.Contains(out, "1 agents") {
		t.Errorf("images remove = %v\n%s\nwant a refusal with the number of agents", err, out)
	}
}
