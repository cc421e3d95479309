package terraform_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"

	"agents.example/controlplane/shared/clientip"
)

// edgeSecret is the stand-in of a secret of the load balancer.
func edgeSecret(number string) string { return `terraform_data.edge_secret["` + number + `"].output` }

// TestLoadBalancer_ReportsItsClients sends a request through each backend: the headers it adds are the ones that the
// functions read, with the first secret of those that they accept.
func TestLoadBalancer_ReportsItsClients(t *testing.T) {
	t.Parallel()
	for _, topology := range []string{"route", "group", "single"} {
		given := given(topology, "api.example.com")
		given["edge_secret_version"] = cty.NumberIntVal(5)
		m := load(t, given)
		secrets := text(t, m.resources(t, "google_secret_manager_secret_version")["edge"], "secret_data_wo")
		edge := clientip.NewEdge(strings.Split(secrets, ","))
		backends := m.resources(t, "google_compute_backend_service")
		if len(backends) == 0 {
			t.Errorf("%s: no backends", topology)
		}
		for address, b := range backends {
			req := httptest.NewRequest(http.MethodGet, "/", nil)
			for _, header := range texts(t, find(t, b, "custom_request_headers")) {
				name, value, _ := strings.Cut(header, ":")
				req.Header.Set(name, strings.ReplaceAll(value, "{client_ip_address}", "198.51.100.1"))
			}
			if got, want := req.Header.Get(clientip.SecretHeader), edgeSecret("5"); got != want {
				t.Errorf("%s: %s sends the secret %s, want %s", topology, address, got, want)
			}
			edge.Handler(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
				if got := clientip.Of(req); got != "198.51.100.1" {
					t.Errorf("%s: the client behind %s is %s, want the address that it reports", topology, address, got)
				}
			})).ServeHTTP(httptest.NewRecorder(), req)
		}
	}
}

// TestEdgeSecret_IsReplacedWithoutAnInterruption holds that services accept the present secret and the previous one,
// and that Terraform generates each once.
func TestEdgeSecret_IsReplacedWithoutAnInterruption(t *testing.T) {
	t.Parallel()
	for version, want := range map[int64][]string{1: {"1"}, 2: {"2", "1"}, 7: {"7", "6"}} {
		m := load(t, map[string]cty.Value{"edge_secret_version": cty.NumberIntVal(version)})
		var secrets, addresses []string
		for _, number := range want {
			secrets = append(secrets, edgeSecret(number))
			addresses = append(addresses, `edge_secret["`+number+`"]`)
		}
		v := m.resources(t, "google_secret_manager_secret_version")["edge"]
		if got := text(t, v, "secret_data_wo"); got != strings.Join(secrets, ",") {
			t.Errorf("version %d: services accept %s, want %s", version, got, secrets)
		}
		if got := text(t, v, "secret_data"); got != "(none)" {
			t.Errorf("version %d: secret_data is %s, want a write-only argument", version, got)
		}
		var got []string
		for address, s := range m.resources(t, "terraform_data") {
			got = append(got, address)
			if input := text(t, s, "input"); input != "(unknown)" {
				t.Errorf("version %d: the secret %s is %s, want a random value", version, address, input)
			}
		}
		slices.Sort(got)
		slices.Sort(addresses)
		if diff := cmp.Diff(addresses, got); diff != "" {
			t.Errorf("version %d: secrets (-want +got):\n%s", version, diff)
		}
	}
}
