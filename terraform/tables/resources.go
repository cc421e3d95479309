package main

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/zclconf/go-cty/cty"
)

// resources counts what each topology creates, without a domain and with one.
func resources(dir string) (table, error) {
	t := table{{
		"`topology`", "domain", "services", "service accounts", "IAM members", "topics and subscriptions",
		"backend services", "endpoint groups", "URL map rules", "all resources",
	}}
	for _, topology := range []string{"route", "group", "single"} {
		for _, domain := range []string{"", "api.example.com"} {
			counted, err := count(dir, topology, domain)
			if err != nil {
				return nil, err
			}
			with := "no"
			if domain != "" {
				with = "yes"
			}
			row := []string{"`" + topology + "`", with}
			for _, n := range counted {
				row = append(row, strconv.Itoa(n))
			}
			t = append(t, row)
		}
	}
	return t, nil
}

// count returns the numbers of one row.
func count(dir, topology, domain string) ([]int, error) {
	m, err := load(dir, topology, domain)
	if err != nil {
		return nil, err
	}
	var services, accounts, members, messaging, backends, groups, rules, all int
	for _, typ := range m.Types() {
		found, err := m.Resources(typ)
		if err != nil {
			return nil, err
		}
		n := len(found)
		all += n
		switch {
		case typ == "google_cloud_run_v2_service":
			services += n
		case typ == "google_service_account":
			accounts += n
		case strings.HasSuffix(typ, "_iam_member"):
			members += n
		case typ == "google_pubsub_topic" || typ == "google_pubsub_subscription":
			messaging += n
		case typ == "google_compute_backend_service":
			backends += n
		case typ == "google_compute_region_network_endpoint_group":
			groups += n
		case typ == "google_compute_url_map":
			for _, v := range found {
				rules += v.GetAttr("path_matcher").Index(cty.Zero).GetAttr("route_rules").LengthInt()
			}
		}
	}
	return []int{services, accounts, members, messaging, backends, groups, rules, all}, nil
}

// quotas lists the quotas that the default topology needs. Those that a young project must raise are bold.
func quotas(dir string) (table, error) {
	b, err := os.ReadFile(filepath.Join(dir, "quotas.csv"))
	if err != nil {
		return nil, err
	}
	lines, err := csv.NewReader(bytes.NewReader(b)).ReadAll()
	if err != nil {
		return nil, err
	}
	t := table{{"quota", "of each", "needed", "with a domain", "each further cell", "young project", "for"}}
	for _, line := range lines[1:] {
		metric, scope, why := line[1], line[2], line[6]
		var numbers [3]int
		for i := range numbers {
			if numbers[i], err = strconv.Atoi(line[3+i]); err != nil {
				return nil, fmt.Errorf("quota %s: %w", metric, err)
			}
		}
		further, has := line[8], numbers[2]
		needed := func(n int) string {
			if n > has {
				return fmt.Sprintf("**%d**", n)
			}
			return strconv.Itoa(n)
		}
		t = append(t, []string{
			"`" + metric + "`", scope, needed(numbers[0]), needed(numbers[1]), further, strconv.Itoa(has), why,
		})
	}
	return t, nil
}
