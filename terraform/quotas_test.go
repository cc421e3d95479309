package terraform_test

import (
	"encoding/csv"
	"strconv"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// quota is a line of quotas.csv.
type quota struct {
	service, metric, scope           string
	withoutDomain, withDomain, fresh int
	why, place                       string
	anotherCell                      int // what each further cell needs, of the region if the quota is the region's
}

func readQuotas(t *testing.T) []quota {
	t.Helper()
	lines, err := csv.NewReader(strings.NewReader(read(t, "quotas.csv"))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var all []quota
	for _, l := range lines[1:] {
		q := quota{service: l[0], metric: l[1], scope: l[2], why: l[6], place: l[7]}
		for i, n := range map[int]*int{3: &q.withoutDomain, 4: &q.withDomain, 5: &q.fresh, 8: &q.anotherCell} {
			if *n, err = strconv.Atoi(l[i]); err != nil {
				t.Fatalf("%s: %v", q.metric, err)
			}
		}
		all = append(all, q)
	}
	return all
}

// estimates are what Google decides: the size of a node, and the load balancer that it makes of a Gateway, which has
// the router's backend and the one that answers 404, each with endpoints in three zones.
const (
	nodeCPUs, nodeDisk, volumes        = 4, 100, 50
	gatewayBackends, zones             = 2, 3
	bootstrapAccounts, defaultAccounts = 3, 1
)

// nodesOfACell are the fewest nodes that run what a cell starts before any agent. Pods of different runtime classes run
// on different nodes, and a Deployment may have to spread over zones.
func nodesOfACell(t *testing.T, m *module) int {
	t.Helper()
	byClass := map[string]int{}
	for _, o := range renderedObjects(t, m) {
		if o.GetKind() != "Deployment" {
			continue
		}
		var d appsv1.Deployment
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &d); err != nil {
			t.Fatalf("%s: %v", o.GetName(), err)
		}
		if d.Spec.Replicas != nil && *d.Spec.Replicas == 0 {
			continue
		}
		class, spread := "", 1
		if named := d.Spec.Template.Spec.RuntimeClassName; named != nil {
			class = *named
		}
		for _, c := range d.Spec.Template.Spec.TopologySpreadConstraints {
			if c.WhenUnsatisfiable == corev1.DoNotSchedule && c.MinDomains != nil {
				spread = int(*c.MinDomains)
			}
		}
		byClass[class] = max(byClass[class], spread)
	}
	nodes := 0
	for _, n := range byClass {
		nodes += n
	}
	return nodes
}

// needed computes the needs of the module with its default topology. All cells are in one region.
func needed(t *testing.T, domain string, names ...string) map[string]int {
	t.Helper()
	m := load(t, map[string]cty.Value{"domain": cty.StringVal(domain), "cells": cells(names...)})
	nodes := nodesOfACell(t, m)
	count := func(typ string) int { return len(m.resources(t, typ)) }
	cells := m.variable(t, "cells").LengthInt()
	rules := 0
	for _, policy := range m.resources(t, "google_compute_security_policy") {
		rules += policy.GetAttr("rule").LengthInt()
	}
	largest := 0
	for _, s := range m.resources(t, "google_cloud_run_v2_service") {
		template := s.GetAttr("template").Index(cty.Zero)
		instances, _ := template.GetAttr("scaling").Index(cty.Zero).GetAttr("max_instance_count").AsBigFloat().Int64()
		cpu := template.GetAttr("containers").Index(cty.Zero).GetAttr("resources").Index(cty.Zero).GetAttr("limits").
			GetAttr("cpu").AsString()
		cpus, err := strconv.Atoi(cpu)
		if err != nil {
			t.Fatal(err)
		}
		largest = max(largest, int(instances)*cpus*1000)
	}
	backends := count("google_compute_backend_service")
	return map[string]int{
		"CPUS_ALL_REGIONS": cells * nodes * nodeCPUs, "CPUS": cells * nodes * nodeCPUs, "INSTANCES": cells * nodes,
		"SSD_TOTAL_GB": cells * (nodes*nodeDisk + volumes), "IN_USE_ADDRESSES": count("google_compute_router_nat"),
		"STATIC_ADDRESSES": count("google_compute_global_address"), "NETWORKS": count("google_compute_network"),
		"SECURITY_POLICIES":     count("google_compute_security_policy"),
		"SECURITY_POLICY_RULES": rules, "SSL_POLICIES": count("google_compute_ssl_policy"),
		"GLOBAL_EXTERNAL_MANAGED_FORWARDING_RULES": count("google_compute_global_forwarding_rule") + cells,
		"TARGET_HTTPS_PROXIES":                     count("google_compute_target_https_proxy") + cells,
		"URL_MAPS":                                 count("google_compute_url_map") + cells,
		"GLOBAL_EXTERNAL_MANAGED_BACKEND_SERVICES": backends + gatewayBackends*cells,
		"HEALTH_CHECKS":                            gatewayBackends * cells,
		"NETWORK_ENDPOINT_GROUPS": count("google_compute_region_network_endpoint_group") +
			gatewayBackends*zones*cells,
		"run.googleapis.com/cpu_allocation": largest,
		"iam.googleapis.com/quota/service-account-count": count("google_service_account") + bootstrapAccounts +
			defaultAccounts,
	}
}

// placeOf says which of two projects needs a quota: that of the services, that of the cells, or both.
func placeOf(metric string) string {
	switch metric {
	case "CPUS_ALL_REGIONS", "CPUS", "INSTANCES", "SSD_TOTAL_GB", "IN_USE_ADDRESSES", "NETWORKS", "HEALTH_CHECKS":
		return "cells"
	case "run.googleapis.com/cpu_allocation":
		return "services"
	default:
		return "both"
	}
}

// TestQuotas_AreThoseOfTheModule computes quotas.csv from the module.
func TestQuotas_AreThoseOfTheModule(t *testing.T) {
	t.Parallel()
	without, with := needed(t, "", "a1"), needed(t, "api.example.com", "a1")
	two := needed(t, "", "a1", "b1")
	seen := map[string]bool{}
	for _, q := range readQuotas(t) {
		seen[q.metric] = true
		if q.withoutDomain != without[q.metric] || q.withDomain != with[q.metric] {
			t.Errorf("quotas.csv: %s needs %d without and %d with a domain, want %d and %d: correct the file",
				q.metric, q.withoutDomain, q.withDomain, without[q.metric], with[q.metric])
		}
		if want := two[q.metric] - without[q.metric]; q.anotherCell != want {
			t.Errorf("quotas.csv: another cell needs %d of %s, want %d: correct the file", q.anotherCell, q.metric,
				want)
		}
		if q.scope != "project" && q.scope != "region" || q.why == "" {
			t.Errorf("quotas.csv: %s has scope %q and reason %q", q.metric, q.scope, q.why)
		}
		if want := placeOf(q.metric); q.place != want {
			t.Errorf("quotas.csv: %s is needed by %q, want %q", q.metric, q.place, want)
		}
	}
	if len(seen) != len(with) {
		t.Errorf("quotas.csv has %d quotas, want %d", len(seen), len(with))
	}
}

// TestQuotas_OfAFreshProjectSuffice holds that a fresh project takes a deployment without a domain once it has more
// disk for nodes, and that only Cloud Armor keeps it from one with a domain then.
func TestQuotas_OfAFreshProjectSuffice(t *testing.T) {
	t.Parallel()
	for _, q := range readQuotas(t) {
		if q.metric == "SSD_TOTAL_GB" {
			continue
		}
		if q.withoutDomain > q.fresh || q.withDomain > q.fresh && !strings.HasPrefix(q.metric, "SECURITY_POLIC") {
			t.Errorf("%s needs %d without and %d with a domain, and a fresh project has %d", q.metric, q.withoutDomain,
				q.withDomain, q.fresh)
		}
	}
}
