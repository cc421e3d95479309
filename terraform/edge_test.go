package terraform_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"

	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/ratelimit"
)

// given are values for the topology and the domain.
func given(topology, domain string) map[string]cty.Value {
	return map[string]cty.Value{"topology": cty.StringVal(topology), "domain": cty.StringVal(domain)}
}

// armorRule is what a rule of Cloud Armor does, and to which requests.
type armorRule struct{ Action, Priority, Ranges, Exceeds, Key, Count, Seconds string }

// TestArmor_RefusesAddressesThatFlood holds the rules of the policies of the API and of agents.
func TestArmor_RefusesAddressesThatFlood(t *testing.T) {
	t.Parallel()
	const agents, api, domain, none = `edge["agents"]`, `edge["api"]`, "api.example.com", "(none)"
	for name, c := range map[string]struct {
		given     map[string]cty.Value
		policies  []string
		wantCount string
	}{
		"without a domain": {given: map[string]cty.Value{}},
		"without a domain, but wanted": {
			given: map[string]cty.Value{"cloud_armor": cty.True}, policies: []string{agents}, wantCount: "60000",
		},
		"with a domain": {given: given("group", domain), policies: []string{agents, api}, wantCount: "60000"},
		"with a domain, but not wanted": {
			given: map[string]cty.Value{"cloud_armor": cty.False, "domain": cty.StringVal(domain)},
		},
		"with a factor": {
			given:    map[string]cty.Value{"cloud_armor": cty.True, "rate_limit_factor": cty.NumberIntVal(10)},
			policies: []string{agents}, wantCount: "600000",
		},
		"with a factor too big": {
			given:    map[string]cty.Value{"cloud_armor": cty.True, "rate_limit_factor": cty.NumberIntVal(100)},
			policies: []string{agents}, wantCount: "1000000",
		},
	} {
		got, want := map[string][]armorRule{}, map[string][]armorRule{}
		for address, p := range load(t, c.given).resources(t, "google_compute_security_policy") {
			for i := range p.GetAttr("rule").LengthInt() {
				at := "rule." + strconv.Itoa(i) + "."
				limit := at + "rate_limit_options.0."
				got[address] = append(got[address], armorRule{
					Action: text(t, p, at+"action"), Priority: text(t, p, at+"priority"),
					Ranges:  text(t, p, at+"match.0.config.0.src_ip_ranges.0"),
					Exceeds: text(t, p, limit+"exceed_action"), Key: text(t, p, limit+"enforce_on_key"),
					Count:   text(t, p, limit+"rate_limit_threshold.0.count"),
					Seconds: text(t, p, limit+"rate_limit_threshold.0.interval_sec"),
				})
			}
		}
		for _, policy := range c.policies {
			want[policy] = []armorRule{
				{
					Action: "throttle", Priority: "1000", Ranges: "*", Exceeds: "deny(429)", Key: "IP",
					Count: c.wantCount, Seconds: "60",
				},
				{
					Action: "allow", Priority: "2147483647", Ranges: "*", Exceeds: none, Key: none, Count: none,
					Seconds: none,
				},
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: rules (-want +got):\n%s", name, diff)
		}
	}
}

// TestArmor_AllowsTheDocumentedLimits holds that a key of the largest plan may send what the documented limits allow,
// and that the comment in armor.tf has that number.
func TestArmor_AllowsTheDocumentedLimits(t *testing.T) {
	t.Parallel()
	perMinute := func(class ratelimit.Class) int64 {
		l := ratelimit.Standard(1)[class]
		return int64(l.Quota) * int64(time.Minute/l.Window)
	}
	var agents int64
	for _, p := range plan.All() {
		agents = max(agents, p.MaxAgents)
	}
	documented := perMinute(ratelimit.Reads) + perMinute(ratelimit.Mutations) + agents*perMinute(ratelimit.Polling)
	flood, _ := load(t, nil).local(t, "flood").AsBigFloat().Int64()
	if documented != 30_660 || flood < documented {
		t.Errorf("an address may send %d requests a minute, and a key %d: want at least as many, and 30660 as in "+
			"armor.tf", flood, documented)
	}
}

const (
	staticAddress  = `google_compute_global_address.api["api"]`
	proxy          = `google_compute_target_https_proxy.api["api"]`
	backend        = `google_compute_backend_service.service["routes"]`
	certificate    = `google_certificate_manager_certificate.api["api"]`
	authorization  = `google_certificate_manager_dns_authorization.api["api"]`
	certificateMap = `//certificatemanager.googleapis.com/google_certificate_manager_certificate_map.api["api"].id`
)

// TestLoadBalancer_ServesTheDomain follows a request from the address to the default backend.
func TestLoadBalancer_ServesTheDomain(t *testing.T) {
	t.Parallel()
	const domain, name = "api.example.com", "prod-api-1bc412bb"
	m := load(t, given("group", domain))
	for argument, want := range map[string]string{
		"compute_global_forwarding_rule.api port_range":                      "443",
		"compute_global_forwarding_rule.api ip_address":                      staticAddress + ".id",
		"compute_global_forwarding_rule.api target":                          proxy + ".id",
		"compute_target_https_proxy.api url_map":                             `google_compute_url_map.api["api"].id`,
		"compute_target_https_proxy.api ssl_policy":                          "google_compute_ssl_policy.edge.id",
		"compute_target_https_proxy.api certificate_map":                     certificateMap,
		"compute_ssl_policy.edge min_tls_version":                            "TLS_1_2",
		"compute_ssl_policy.edge profile":                                    "MODERN",
		"certificate_manager_certificate_map.api name":                       "prod-api",
		"certificate_manager_certificate_map_entry.api map":                  "prod-api",
		"certificate_manager_certificate_map_entry.api hostname":             domain,
		"certificate_manager_certificate_map_entry.api certificates.0":       certificate + ".id",
		"certificate_manager_certificate.api name":                           name,
		"certificate_manager_certificate.api managed.0.domains.0":            domain,
		"certificate_manager_certificate.api managed.0.dns_authorizations.0": authorization + ".id",
		"certificate_manager_dns_authorization.api name":                     name,
		"certificate_manager_dns_authorization.api domain":                   domain,
		"compute_url_map.api host_rule.0.hosts.0":                            domain,
		"compute_url_map.api host_rule.0.path_matcher":                       "api",
		"compute_url_map.api path_matcher.0.name":                            "api",
		"compute_url_map.api path_matcher.0.default_service":                 backend + ".id",
	} {
		resource, path, _ := strings.Cut(argument, " ")
		typ, address, _ := strings.Cut(resource, ".")
		if address == "api" {
			address = `api["api"]`
		}
		v, ok := m.resources(t, "google_"+typ)[address]
		if !ok {
			t.Errorf("there is no google_%s.%s", typ, address)
			continue
		}
		if got := text(t, v, path); got != want {
			t.Errorf("%s = %s, want %s", argument, got, want)
		}
	}
	for address, v := range m.resources(t, "google_compute_backend_service") {
		if got := text(t, v, "security_policy"); got != `google_compute_security_policy.edge["api"].id` {
			t.Errorf("the backend %s has the security policy %s", address, got)
		}
		if got := text(t, v, "load_balancing_scheme"); got != "EXTERNAL_MANAGED" {
			t.Errorf("the backend %s has the scheme %s, want EXTERNAL_MANAGED", address, got)
		}
	}
}

// TestLoadBalancer_ExistsOnlyWithADomain holds that a deployment without a domain pays for no load balancer of the API.
func TestLoadBalancer_ExistsOnlyWithADomain(t *testing.T) {
	t.Parallel()
	m := load(t, nil)
	for _, typ := range []string{
		"google_compute_global_forwarding_rule", "google_compute_target_https_proxy", "google_compute_url_map",
		"google_compute_backend_service", "google_compute_region_network_endpoint_group",
	} {
		if found := m.resources(t, typ); len(found) != 0 {
			t.Errorf("%d of %s without a domain, want none", len(found), typ)
		}
	}
	for _, typ := range []string{
		"google_certificate_manager_dns_authorization", "google_certificate_manager_certificate",
		"google_certificate_manager_certificate_map_entry", "google_compute_global_address",
	} {
		for address := range m.resources(t, typ) {
			if !strings.HasPrefix(address, "cell[") {
				t.Errorf("%s.%s exists without a domain", typ, address)
			}
		}
	}
}
