package terraform_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"

	"agents.example/controlplane/shared/clientip"
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

// TestAgentDomain_LeadsToEachCell follows an agent's hostname: the zone, the wildcard record and the address of its
// cell, and the wildcard certificate that the cell's Gateway serves.
func TestAgentDomain_LeadsToEachCell(t *testing.T) {
	t.Parallel()
	m := load(t, map[string]cty.Value{"cells": cells("a1", "b1")})
	zone := m.resources(t, "google_dns_managed_zone")["agents"]
	want := map[string]string{
		"name": "prod-agents", "dns_name": "agents.example.net.", "dnssec_config.0.state": "on",
		"visibility": "(none)",
	}
	if diff := cmp.Diff(want, arguments(t, zone, want)); diff != "" {
		t.Errorf("zone (-want +got):\n%s", diff)
	}
	type edge struct {
		Record, Type, Zone, Address, Authorization, AuthorizationType, Domain string
		Certified, By, Hostname, Served, Map                                  string
	}
	for _, cell := range []string{"a1", "b1"} {
		of := func(typ, name string) cty.Value { return m.resources(t, typ)[name+`["`+cell+`"]`] }
		record, proof := of("google_dns_record_set", "cell"), of("google_dns_record_set", "authorization")
		certificate := of("google_certificate_manager_certificate", "cell")
		entry := of("google_certificate_manager_certificate_map_entry", "cell")
		got := edge{
			Record: text(t, record, "name"), Type: text(t, record, "type"), Zone: text(t, record, "managed_zone"),
			Address:       text(t, record, "rrdatas.0"),
			Authorization: text(t, proof, "name"), AuthorizationType: text(t, proof, "type"),
			Domain:    text(t, of("google_certificate_manager_dns_authorization", "cell"), "domain"),
			Certified: text(t, certificate, "managed.0.domains.0"),
			By:        text(t, certificate, "managed.0.dns_authorizations.0"),
			Hostname:  text(t, entry, "hostname"), Served: text(t, entry, "certificates.0"), Map: text(t, entry, "map"),
		}
		domain := cell + ".agents.example.net"
		want := edge{
			Record: "*." + domain + ".", Type: "A", Zone: "prod-agents",
			Address:       `google_compute_global_address.cell["` + cell + `"].address`,
			Authorization: "_acme-challenge." + domain + ".", AuthorizationType: "CNAME",
			Domain: domain, Certified: "*." + domain,
			By:       `google_certificate_manager_dns_authorization.cell["` + cell + `"].id`,
			Hostname: "*." + domain, Served: `google_certificate_manager_certificate.cell["` + cell + `"].id`,
			Map: "prod-agents",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", cell, diff)
		}
	}
}

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
		secrets := text(t, edgeVersions(t, m)["5"], "secret_data_wo")
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

// edgeVersions are the versions of the load balancer's secrets, by number.
func edgeVersions(t *testing.T, m *module) map[string]cty.Value {
	t.Helper()
	versions := map[string]cty.Value{}
	for address, v := range m.resources(t, "google_secret_manager_secret_version") {
		if number, ok := strings.CutPrefix(address, `edge_secrets["`); ok {
			versions[strings.TrimSuffix(number, `"]`)] = v
		}
	}
	return versions
}

// sentEdgeSecret is the secret that the load balancer sends.
func sentEdgeSecret(t *testing.T, m *module) string {
	t.Helper()
	backends := m.resources(t, "google_compute_backend_service")
	for _, header := range texts(t, find(t, backends[`service["routes"]`], "custom_request_headers")) {
		if secret, ok := strings.CutPrefix(header, clientip.SecretHeader+":"); ok {
			return secret
		}
	}
	t.Fatal("the load balancer sends no secret")
	return ""
}

// TestEdgeSecret_IsReplacedWithoutAnInterruption replaces the secret twice. The load balancer sends the new one before
// the revisions of the new release have the traffic, and after a roll-back, and parts of it still send the former one
// for some minutes. The version that a former revision reads stays as it is.
func TestEdgeSecret_IsReplacedWithoutAnInterruption(t *testing.T) {
	t.Parallel()
	var formerSecrets []string
	var formerVersions map[string]cty.Value
	var formerSent string
	for number := int64(1); number <= 3; number++ {
		settings := given("group", "api.example.com")
		settings["edge_secret_version"] = cty.NumberIntVal(number)
		m := load(t, settings)
		versions, sent := edgeVersions(t, m), sentEdgeSecret(t, m)
		accepted := strings.Split(text(t, versions[strconv.FormatInt(number, 10)], "secret_data_wo"), ",")
		for name, row := range map[string]struct {
			sent     string
			accepted []string
		}{
			"the new revision": {sent: sent, accepted: accepted},
			"the new revision, until the load balancer has changed": {sent: formerSent, accepted: accepted},
			"the former revision": {sent: sent, accepted: formerSecrets},
		} {
			if row.sent != "" && row.accepted != nil && !slices.Contains(row.accepted, row.sent) {
				t.Errorf("number %d: %s accepts %s, and the load balancer sends %s", number, name, row.accepted,
					row.sent)
			}
		}
		for former, v := range formerVersions {
			want := arguments(t, v, map[string]string{"secret_data_wo": "", "secret_data_wo_version": ""})
			if diff := cmp.Diff(want, arguments(t, versions[former], want)); diff != "" {
				t.Errorf("number %d: the version %s changes (-before +now):\n%s", number, former, diff)
			}
		}
		for address, v := range versions {
			want := map[string]string{"secret_data": "(none)", "deletion_policy": "ABANDON"}
			if diff := cmp.Diff(want, arguments(t, v, want)); diff != "" {
				t.Errorf("number %d: version %s (-want +got):\n%s", number, address, diff)
			}
		}
		for address, s := range m.resources(t, "terraform_data") {
			if input := text(t, s, "input"); input != "(unknown)" {
				t.Errorf("number %d: %s is %s, want a random value", number, address, input)
			}
		}
		formerSecrets, formerVersions, formerSent = accepted, versions, sent
	}
}

// TestAgentDomain_IsASeparateSite refuses agents next to the API or the web app.
func TestAgentDomain_IsASeparateSite(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		agents, api, app, party string
		refused                 bool
	}{
		"separate": {
			agents: "agents.example.net", api: "api.example.com", app: "https://app.example.com",
			party: "https://app.example.com",
		},
		"no domain":                    {agents: "agents.example.net"},
		"the API's domain":             {agents: "api.example.com", api: "api.example.com", refused: true},
		"next to the API":              {agents: "agents.example.com", api: "api.example.com", refused: true},
		"the parent of the API":        {agents: "example.com", api: "api.example.com", refused: true},
		"below the API":                {agents: "agents.api.example.com", api: "api.example.com", refused: true},
		"next to the web app":          {agents: "agents.example.com", app: "https://app.example.com/billing", refused: true},
		"next to a page with a port":   {agents: "agents.example.com", party: "https://APP.example.com:8443", refused: true},
		"a page of a laptop":           {agents: "agents.example.com", party: "http://localhost:3000"},
		"next to the API, long suffix": {agents: "agents.one.co.uk", api: "api.one.co.uk", refused: true},
		"separate, long suffix":        {agents: "agents.one.co.uk", api: "api.two.co.uk"},
		"separate, short suffix":       {agents: "agents.one.de", api: "api.two.de"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			given := map[string]cty.Value{
				"agent_domain": cty.StringVal(row.agents), "domain": cty.StringVal(row.api),
				"app_url": cty.StringVal(row.app),
			}
			if row.party != "" {
				given["identity_authorized_parties"] = cty.TupleVal([]cty.Value{cty.StringVal(row.party)})
			}
			invalid, err := load(t, given).Invalid()
			if err != nil || slices.Contains(invalid, "agent_domain") != row.refused {
				t.Errorf("refused %q, %v; want agent_domain to be refused: %t", invalid, err, row.refused)
			}
		})
	}
}
