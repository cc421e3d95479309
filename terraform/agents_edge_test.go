package terraform_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"
)

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
