package terraform_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"
)

// arguments reads the arguments that a test wants, by path.
func arguments(t *testing.T, v cty.Value, want map[string]string) map[string]string {
	t.Helper()
	got := map[string]string{}
	for path := range want {
		got[path] = text(t, v, path)
	}
	return got
}

// TestClusters_ArePrivate holds that nodes have no public address, that the API server is reached with a Google
// identity only, and that a cluster with agents cannot be deleted by accident.
func TestClusters_ArePrivate(t *testing.T) {
	t.Parallel()
	const endpoints = "control_plane_endpoints_config.0."
	m := load(t, map[string]cty.Value{"cells": cells("a1", "b1")})
	clusters := m.resources(t, "google_container_cluster")
	for _, cell := range []string{"a1", "b1"} {
		want := map[string]string{
			"name": "prod-" + cell, "location": "us-central1",
			"enable_autopilot": "true", "deletion_protection": "true",
			"network":    "google_compute_network.cells.id",
			"subnetwork": `google_compute_subnetwork.cell["` + cell + `"].id`,
			"ip_allocation_policy.0.cluster_secondary_range_name": "pods",
			"ip_allocation_policy.0.services_ipv4_cidr_block":     "(none)",
			"private_cluster_config.0.enable_private_nodes":       "true",

			endpoints + "dns_endpoint_config.0.allow_external_traffic": "true",
			endpoints + "ip_endpoints_config.0.enabled":                "false",

			"cluster_autoscaling.0.auto_provisioning_defaults.0.service_account": "google_service_account.nodes.email",

			"gateway_api_config.0.channel": "CHANNEL_STANDARD", "release_channel.0.channel": "REGULAR",
			"maintenance_policy.0.recurring_window.0.recurrence": "FREQ=WEEKLY;BYDAY=SA,SU",
		}
		if diff := cmp.Diff(want, arguments(t, clusters[`cell["`+cell+`"]`], want)); diff != "" {
			t.Errorf("cluster of %s (-want +got):\n%s", cell, diff)
		}
	}
	unprotected := load(t, map[string]cty.Value{"deletion_protection": cty.False})
	for address, c := range unprotected.resources(t, "google_container_cluster") {
		if text(t, c, "deletion_protection") != "false" {
			t.Errorf("%s is protected against the setting", address)
		}
	}
}

// TestNodes_HaveTheRightsOfNodes holds what code on a node may do in the project.
func TestNodes_HaveTheRightsOfNodes(t *testing.T) {
	t.Parallel()
	got := map[string]string{}
	for address, member := range load(t, nil).resources(t, "google_project_iam_member") {
		if account := text(t, member, "member"); account == "google_service_account.nodes.member" {
			got[text(t, member, "role")] = address
		}
	}
	want := map[string]string{}
	for _, role := range []string{
		"roles/container.defaultNodeServiceAccount", "roles/artifactregistry.reader",
		"roles/serviceusage.serviceUsageConsumer",
	} {
		want[role] = `nodes["` + role + `"]`
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("roles of nodes (-want +got):\n%s", diff)
	}
}

// TestNodes_ReachTheInternetThroughNAT holds that each region with a cell has one router, whose NAT serves all of its
// subnetworks. Nodes have no public address, so agents have no other way out.
func TestNodes_ReachTheInternetThroughNAT(t *testing.T) {
	t.Parallel()
	one, two := cells("a1", "b1"), everything()["cells"]
	for name, row := range map[string]struct {
		cells   cty.Value
		regions []string
	}{
		"two cells in a region": {cells: one, regions: []string{"us-central1"}},
		"two regions":           {cells: two, regions: []string{"us-central1", "europe-west4"}},
	} {
		m := load(t, map[string]cty.Value{"cells": row.cells})
		nats := m.resources(t, "google_compute_router_nat")
		if len(nats) != len(row.regions) {
			t.Errorf("%s: %d NATs, want %d", name, len(nats), len(row.regions))
		}
		for _, region := range row.regions {
			want := map[string]string{
				"router": "prod-cells-" + region, "region": region, "nat_ip_allocate_option": "AUTO_ONLY",
				"source_subnetwork_ip_ranges_to_nat": "ALL_SUBNETWORKS_ALL_IP_RANGES",
				"enable_dynamic_port_allocation":     "true", "min_ports_per_vm": "32", "max_ports_per_vm": "4096",
				"enable_endpoint_independent_mapping": "false",
			}
			if diff := cmp.Diff(want, arguments(t, nats[`cells["`+region+`"]`], want)); diff != "" {
				t.Errorf("%s: NAT of %s (-want +got):\n%s", name, region, diff)
			}
			router := m.resources(t, "google_compute_router")[`cells["`+region+`"]`]
			if got := text(t, router, "network"); got != "google_compute_network.cells.id" {
				t.Errorf("%s: the router of %s is in %s", name, region, got)
			}
		}
	}
}

// TestCells_HaveSeparateRanges holds that the ranges of all 63 numbers are disjoint, and that they leave out the range
// that GKE uses for Services.
func TestCells_HaveSeparateRanges(t *testing.T) {
	t.Parallel()
	var names []string
	for i := range 63 {
		names = append(names, "a"+strings.Repeat("b", i%20)+string(rune('a'+i/20)))
	}
	ranges := map[string]netip.Prefix{"Services": netip.MustParsePrefix("34.118.224.0/20")}
	for address, s := range load(t, map[string]cty.Value{"cells": cells(names...)}).resources(t,
		"google_compute_subnetwork") {
		for what, row := range map[string]struct {
			path string
			bits int
		}{
			"nodes": {path: "ip_cidr_range", bits: 20},
			"pods":  {path: "secondary_ip_range.0.ip_cidr_range", bits: 16},
		} {
			prefix := netip.MustParsePrefix(text(t, s, row.path))
			if prefix.Bits() != row.bits || !prefix.Addr().IsPrivate() {
				t.Errorf("%s of %s are in %s, want a private range of /%d", what, address, prefix, row.bits)
			}
			for other, taken := range ranges {
				if taken.Overlaps(prefix) {
					t.Errorf("%s of %s are in %s, which overlaps %s of %s", what, address, prefix, taken, other)
				}
			}
			ranges[what+" of "+address] = prefix
		}
	}
	if len(ranges) != 127 {
		t.Errorf("%d ranges, want two a cell and one of Services", len(ranges))
	}
}
