//go:build unix

package terraform_test

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/zclconf/go-cty/cty"
	corev1 "k8s.io/api/core/v1"

	"agents.example/controlplane/terraform/cell"
)

// TestApplyCells_AdmitsImagesBeforeServicesStart runs the script before a deployment of the image "new" to two cells.
func TestApplyCells_AdmitsImagesBeforeServicesStart(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3, which the script runs, is not installed")
	}
	type images struct{ Previous, Next string }
	const outputs = `{"clusters":{"value":{"a1":{"name":"test-a1","region":"r"},"b1":{"name":"test-b1","region":"r"}}}}`
	for name, row := range map[string]struct {
		outputs string
		// present is the record of images in the cells; empty if there is none.
		present string
		// broken is the cell that cannot be reached.
		broken string
		want   map[string]images
	}{
		"no cell exists": {outputs: "{}"},
		"cells of an earlier release have no record": {
			outputs: outputs,
			want:    map[string]images{"a1": {Next: "new"}, "b1": {Next: "new own"}},
		},
		"the former deployment ended": {
			outputs: outputs, present: `{"deployed":"old","previous":"older","next":""}`,
			want: map[string]images{"a1": {"old", "new"}, "b1": {"old", "new own"}},
		},
		"the former deployment failed": {
			outputs: outputs, present: `{"deployed":"old","previous":"older","next":"failed"}`,
			want: map[string]images{"a1": {"old", "failed new"}, "b1": {"old", "failed new own"}},
		},
		"the release is deployed again": {
			outputs: outputs, present: `{"deployed":"new","previous":"old","next":""}`,
			want: map[string]images{"a1": {"old", "new"}, "b1": {"new", "new own"}},
		},
		"one cell cannot be reached": {
			outputs: outputs, present: `{"deployed":"old"}`, broken: "a1",
			want: map[string]images{"b1": {"old", "new own"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProject(t, 1)
			p.answer(t, "outputs.json", row.outputs)
			p.answer(t, "images.json", `"{\"a1\":[\"new\"],\"b1\":[\"new\",\"own\"]}"`)
			record := ""
			if row.present != "" {
				record = `{"kind":"ConfigMap","data":` + row.present + `}`
			}
			p.answer(t, "record.json", record)
			p.write(t, filepath.Join(p.bin, "gcloud.bash"), `
gcloud() { [ "$4" != "test-`+row.broken+`" ] && echo "${4#test-}" >"$GCLOUD_STATE/cell"; }
`, 0o600)
			p.write(t, filepath.Join(p.bin, "kubectl"), `#!/bin/sh -e
case "$*" in
	"get configmap agent-images --namespace=agent-gateway --ignore-not-found --output=json")
		cat "$GCLOUD_STATE/record.json" ;;
	"apply --server-side --force-conflicts --field-manager=release -f "*)
		cp "$6" "$GCLOUD_STATE/$(cat "$GCLOUD_STATE/cell").applied" ;;
	*) exit 1 ;;
esac
`, 0o755)
			p.succeed(t.Context(), t, "apply-cells.sh", "--admit="+filepath.Join(p.state, "images.json"),
				filepath.Join(p.state, "outputs.json"), "project-1")
			got := map[string]images{}
			for _, name := range []string{"a1", "b1"} {
				b, err := os.ReadFile(filepath.Join(p.state, name+".applied"))
				if os.IsNotExist(err) {
					continue
				}
				var applied corev1.ConfigMap
				if err := errors.Join(err, json.Unmarshal(b, &applied)); err != nil {
					t.Fatal(err)
				}
				if applied.Kind != "ConfigMap" || applied.Name != "agent-images" ||
					applied.Namespace != cell.GatewayNamespace || len(applied.Data) != 2 {
					t.Errorf("%s: applied %s, want the record of images", name, b)
				}
				got[name] = images{Previous: applied.Data["previous"], Next: applied.Data["next"]}
			}
			if diff := cmp.Diff(row.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("images (-want +got):\n%s", diff)
			}
		})
	}
}

// TestCellImages_FollowFromVariables holds that the build can read the images before Terraform applies anything.
func TestCellImages_FollowFromVariables(t *testing.T) {
	t.Parallel()
	got := load(t, everything()).local(t, "cell_images")
	digest := func(name, digit string) cty.Value { return cty.StringVal(digestOf(name, digit)) }
	want := map[string][]cty.Value{
		"a1": {digest("image", "0"), digest("agent", "0")}, "b1": {digest("image", "0"), digest("agent", "1")},
	}
	for name, images := range want {
		if list := got.GetAttr(name).AsValueSlice(); !slices.EqualFunc(list, images, cty.Value.RawEquals) {
			t.Errorf("images of %s = %#v, want %#v", name, list, images)
		}
	}
}
