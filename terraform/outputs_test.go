package terraform_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"
)

// TestOutputs_TellDeploymentsWhatToTest holds the outputs that the builds read.
func TestOutputs_TellDeploymentsWhatToTest(t *testing.T) {
	t.Parallel()
	blocks := load(t, nil).Blocks()
	for _, file := range []string{"build/deploy.yaml", "apply-cells.sh"} {
		outputs := regexp.MustCompile(`output -raw ([a-z_]+)|\["([a-z_]+)"\]\["value"\]`).FindAllStringSubmatch(
			read(t, file), -1)
		if len(outputs) == 0 {
			t.Errorf("%s reads no output", file)
		}
		for _, m := range outputs {
			if name := m[1] + m[2]; blocks["output."+name] == nil {
				t.Errorf("%s reads the output %s, which does not exist", file, name)
			}
		}
	}
	for name, row := range map[string]struct{ domain, url, certificate string }{
		"no domain": {url: "https://prod-routes-123456789012.us-central1.run.app"},
		"a domain":  {domain: "api.example.com", url: "https://api.example.com", certificate: "prod-api-"},
	} {
		m := load(t, map[string]cty.Value{"domain": cty.StringVal(row.domain)})
		for output, want := range map[string]string{"base_url": row.url, "api_certificate": row.certificate} {
			got, err := m.Output(output)
			if err != nil || !strings.HasPrefix(got.AsString(), want) || want == "" && got.AsString() != "" {
				t.Errorf("%s: %s = %#v (%v), want %q", name, output, got, err, want)
			}
		}
		address, err := m.Output("api_address")
		if err != nil || (address.AsString() == "") != (row.domain == "") {
			t.Errorf("%s: api_address = %#v (%v), want it only with a domain", name, address, err)
		}
	}
}
