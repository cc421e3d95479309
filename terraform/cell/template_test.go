package cell

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
	ctyjson "github.com/zclconf/go-cty/cty/json"
)

// renderAsTerraform renders a template with the library that Terraform uses.
func renderAsTerraform(t *testing.T, name, source string, values map[string]any) string {
	t.Helper()
	template, diags := hclsyntax.ParseTemplate([]byte(source), name, hcl.InitialPos)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	text, err := json.Marshal(values)
	if err != nil {
		t.Fatal(err)
	}
	var simple ctyjson.SimpleJSONValue
	if err := json.Unmarshal(text, &simple); err != nil {
		t.Fatal(err)
	}
	rendered, diags := template.Value(&hcl.EvalContext{
		Variables: simple.AsValueMap(),
		Functions: map[string]function.Function{
			"distinct": stdlib.DistinctFunc, "flatten": stdlib.FlattenFunc, "join": stdlib.JoinFunc,
			"jsonencode": stdlib.JSONEncodeFunc, "values": stdlib.ValuesFunc,
		},
	})
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	return rendered.AsString()
}

func TestRenderText_RendersAsTerraformDoes(t *testing.T) {
	t.Parallel()
	callers := map[string][]string{
		"cluster_apply": {"b@example.com", `quoted " <&> é`}, "cluster_look": {"a@example.com", "b@example.com"},
		"cluster_collect": {"c@example.com"}, "pod_logs": {}, "pod_exec": {}, "pod_quiesce": {"b@example.com"},
		"log_keep": {"b@example.com", "d@example.com"},
	}
	full := Values{
		Domain: "cell.example.com", Image: "image@sha256:1", AgentImage: "agent:1", Callers: callers,
		Project: "project", NudgeTopic: "nudges", Environment: "prod", WarmAgents: 2, WarmMillicores: 110,
		WarmMiB:    1_000_032,
		Registries: []string{"registry.example.com/a/", "registry.example.com/b/"},
		Address:    "address", CertificateMap: "map", SSLPolicy: "policy", SecurityPolicy: "armor",
		SnapshotLocation: "us-central1",
	}
	least := full
	least.AgentImage, least.SecurityPolicy, least.SnapshotLocation = "", "", ""
	for name, v := range map[string]Values{"everything": full, "no optional parts": least} {
		for _, file := range Files() {
			source, err := templates.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			values := v.context()
			got, err := renderText(file, string(source), values)
			if err != nil {
				t.Error(err)
				continue
			}
			if want := renderAsTerraform(t, file, string(source), values); got != want {
				t.Errorf("%s with %s =\n%s\nwant\n%s", file, name, got, want)
			}
		}
	}
}

func TestRenderText_RefusesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	for _, source := range []string{
		"${a.unknown}", "${unknown}", "${a + a}", "${a.b", "$${a}", "%{ if a.b == \"\" ~}\n%{ endif ~}\n",
		"%{ if a.b != \"\" ~}\n", "%{ endif ~}\n", "%{ for x in [\"y\"] }\n%{ endfor }\n", "${unknown(a)}", "${x y}",
		"%{ for x in [\"y\"] ~}\n%{ endfor ~}\n${x}", "${\"\\n\"}",
	} {
		text, err := renderText("file", source, map[string]any{"a": map[string]any{"b": "c"}})
		if err == nil {
			t.Errorf("%q renders as %q, want an error", source, text)
		} else if !strings.Contains(err.Error(), "file") {
			t.Errorf("%q: error %q does not name the file", source, err)
		}
	}
}
