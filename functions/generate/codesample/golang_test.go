package codesample_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// document has the samples of the description.
type document struct {
	Paths map[string]map[string]struct {
		ID         string `json:"operationId"`
		Parameters []struct{ Name, In string }
		Samples    []struct{ Label, Source string } `json:"x-codeSamples"`
	} `json:"paths"`
}

// samples returns the samples of the description with a label by their operations.
func samples(t *testing.T, label string) map[string]string {
	t.Helper()
	b, err := os.ReadFile("../../openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var d document
	if err := json.Unmarshal(b, &d); err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, methods := range d.Paths {
		for _, o := range methods {
			for _, s := range o.Samples {
				if s.Label == label {
					found[o.ID] = s.Source
				}
			}
		}
	}
	if label != "agentctl" && len(found) < 35 {
		t.Fatalf("got %d samples in %s, want one for each operation that clients have", len(found), label)
	}
	return found
}

const goHeader = `package codesample

import (
	"context"
	"fmt"
	"time"

	"agents.example/controlplane/shared/client"
)
`

// TestSamples_OfGoCompile gives go vet this package with one more file, which has a function for each sample.
func TestSamples_OfGoCompile(t *testing.T) {
	t.Parallel()
	code := goHeader
	all := samples(t, "Go")
	for _, id := range slices.Sorted(maps.Keys(all)) {
		code += fmt.Sprintf("\nfunc %s(ctx context.Context, c *client.Client, agentID, operationID, key, keyID, "+
			"userID, webhookID, deliveryID, snapshotID string) error {\n%s\nreturn nil\n}\n", id, all[id])
	}
	dir := t.TempDir()
	written := filepath.Join(dir, "samples.go")
	write(t, written, []byte(code))
	added, err := filepath.Abs("samples.go")
	if err != nil {
		t.Fatal(err)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{added: written}})
	if err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(dir, "overlay.json")
	write(t, list, overlay)
	out, err := exec.CommandContext(t.Context(), "go", "vet", "-overlay", list, ".").CombinedOutput()
	if err != nil {
		t.Errorf("the samples do not compile: %v\n%s", err, strings.ReplaceAll(string(out), dir, ""))
	}
}
