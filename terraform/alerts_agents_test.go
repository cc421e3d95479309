package terraform_test

import (
	"slices"

	"agents.example/controlplane/terraform/cell"
)

// Series of the alerts in alerts_agents.tf.
const (
	canaryA1 = cell.CanaryLabel + ".a1.agents.example.net"
	canaryB1 = cell.CanaryLabel + ".b1.agents.example.net"
	onK8sPod = `monitored_resource="k8s_pod",cluster_name="prod-a1",namespace_name="agent-x",pod_name="agent-0",`
	filled   = `kubernetes_io:pod_volume_utilization{` + onK8sPod
	sent     = `kubernetes_io:pod_network_sent_bytes_count{` + onK8sPod
	started  = `logging_googleapis_com:user_prod_agent_start_seconds`
	broke    = `logging_googleapis_com:user_prod_agent_broke{monitored_resource="cloud_run_revision",revision_name="%d"}`
)

// checked is the result of an uptime check from three locations; 1 is a success.
func checked(host, first, second, third string) []string {
	const passed = `monitoring_googleapis_com:uptime_check_check_passed{monitored_resource="uptime_url",host="`
	return []string{
		passed + host + `",checker_location="usa-iowa"} ` + first + "x20",
		passed + host + `",checker_location="eur-belgium"} ` + second + "x20",
		passed + host + `",checker_location="apac-singapore"} ` + third + "x20",
	}
}

// expires is what uptime checks say of a host's certificate, from two locations.
func expires(host, first, second string) []string {
	const days = `monitoring_googleapis_com:uptime_check_time_until_ssl_cert_expires{monitored_resource="uptime_url",host="`
	return []string{
		days + host + `",checker_location="usa-iowa"} ` + first,
		days + host + `",checker_location="eur-belgium"} ` + second,
	}
}

func agentAlertCases() map[string]alertCase {
	routers := func(cluster, namespace string) string {
		return `up{cluster="` + cluster + `",namespace="` + namespace + `",job="agent-router",instance="%d"} 1x20`
	}
	unanswered := each(6, `http_requests_total{cluster="prod-a1",host="h%d",code="503"} 0+1x20`)
	return map[string]alertCase{
		"agents_out_of_reach": {
			firing: map[string][]string{
				"two locations do not reach one of two cells": slices.Concat(checked(canaryA1, "1", "1", "1"),
					checked(canaryB1, "0", "0", "1")),
			},
			quiet: map[string][]string{
				"until five minutes ago": {`monitoring_googleapis_com:uptime_check_check_passed{monitored_resource="uptime_url",` +
					`host="` + canaryA1 + `"} 0x40 1x7`},
				"one location reaches no cell": slices.Concat(checked(canaryA1, "0", "1", "1"),
					checked(canaryB1, "0", "1", "1")),
				"the API is out of reach": checked("prod-routes-123456789012.us-central1.run.app", "0", "0", "0"),
			},
		},
		"certificate": {
			firing: map[string][]string{
				"one of two, as one location sees it": slices.Concat(expires(canaryA1, "60x20", "60x20"),
					expires(canaryB1, "60x20", "14x20")),
				"that of the API":           expires(apiHost, "14x20", "14x20"),
				"reported half an hour ago": expires(canaryA1, "14 _x40", "14 _x40"),
			},
			quiet: map[string][]string{
				"both are valid for longer": slices.Concat(expires(canaryA1, "16x20", "16x20"),
					expires(canaryB1, "16x20", "16x20")),
				"another domain's":       expires("canary.a1.agents.example.org", "14x20", "14x20"),
				"reported two hours ago": expires(canaryA1, "14 _x120", "14 _x120"),
			},
		},
		"router": {
			firing: map[string][]string{
				"one cell has one": slices.Concat(each(1, routers("prod-a1", "agent-gateway")),
					each(3, routers("prod-b1", "agent-gateway"))),
				"one cell has none": each(3, routers("prod-a1", "agent-gateway")),
				"one cell has one, and other pods answer": slices.Concat(each(1, routers("prod-a1", "agent-gateway")),
					each(3, routers("prod-b1", "agent-gateway")), each(3, routers("prod-a1", "agent-x")),
					each(3, `up{cluster="prod-a1",namespace="agent-gateway",job="agent-notifier",instance="%d"} 1x20`)),
				"three of four do not answer": slices.Concat(each(3, routers("prod-b1", "agent-gateway")),
					each(1, routers("prod-a1", "agent-gateway")),
					[]string{`up{cluster="prod-a1",namespace="agent-gateway",job="agent-router",instance="9"} 0x20`}),
			},
			quiet: map[string][]string{
				"both have two": slices.Concat(each(2, routers("prod-a1", "agent-gateway")),
					each(2, routers("prod-b1", "agent-gateway"))),
			},
		},
		"agents_unreachable": {
			firing: map[string][]string{
				"six of ten that are called": slices.Concat(unanswered,
					each(4, `http_requests_total{cluster="prod-a1",host="ok%d",code="200"} 0+1x20`),
					each(40, `http_requests_total{cluster="prod-a1",host="idle%d",code="200"} 0 7x20`)),
			},
			quiet: map[string][]string{
				"five of five":            unanswered[:5],
				"six, until half an hour": each(6, `http_requests_total{cluster="prod-a1",host="h%d",code="503"} 0+1x20 20x30`),
				"six of forty": slices.Concat(unanswered,
					each(34, `http_requests_total{cluster="prod-a1",host="ok%d",code="200"} 0+1x20`)),
				"six in another environment":  each(6, `http_requests_total{cluster="staging-a1",host="h%d",code="503"} 0+1x20`),
				"agents that refuse requests": each(6, `http_requests_total{cluster="prod-a1",host="h%d",code="500"} 0+1x20`),
			},
		},
		"agents_broke": {
			firing: map[string][]string{"six, as two revisions tell": each(2, broke+` 0x10 3x10`)},
			quiet: map[string][]string{
				"four":           each(2, broke+` 0x10 2x10`),
				"six, a day ago": each(2, broke+` 0x10 3x40`),
			},
		},
		"slow_starts": slowStartCase(),
		"unschedulable": {
			firing: map[string][]string{
				"an agent's": {`kube_pod_status_unschedulable{cluster="prod-a1",namespace="agent-x",pod="agent-0"} 1x20`},
				"a placeholder": {
					`kube_pod_status_unschedulable{cluster="prod-b1",namespace="agent-warm",pod="placeholder"} 1x20`,
				},
			},
			quiet: map[string][]string{
				"for ten minutes": {
					`kube_pod_status_unschedulable{cluster="prod-a1",namespace="agent-x",pod="agent-0"} _x10 1x10`,
				},
				"one after the other": {
					`kube_pod_status_unschedulable{cluster="prod-a1",namespace="agent-x",pod="agent-0"} 1x10 _x10`,
					`kube_pod_status_unschedulable{cluster="prod-a1",namespace="agent-y",pod="agent-0"} _x10 1x10`,
				},
				"Google's pod": {
					`kube_pod_status_unschedulable{cluster="prod-a1",namespace="kube-system",pod="x"} 1x20`,
				},
				"another cluster": {`kube_pod_status_unschedulable{cluster="staging-a1",namespace="agent-x",pod="y"} 1x20`},
			},
		},
		"volumes": {
			firing: map[string][]string{
				"one of two": {
					filled + `persistentvolumeclaim_name="data"} 0.96x20`,
					filled + `persistentvolumeclaim_name="data",uid="former"} 0.5x20`,
					`kubernetes_io:pod_volume_utilization{monitored_resource="k8s_pod",cluster_name="prod-b1",` +
						`namespace_name="agent-y",persistentvolumeclaim_name="data"} 0.1x20`,
				},
			},
			quiet: map[string][]string{
				"two are half full": each(2, filled+`persistentvolumeclaim_name="data",uid="%d"} 0.6x20`),
				"nearly":            {filled + `persistentvolumeclaim_name="data"} 0.94x20`},
				"no disk":           {filled + `volume_name="scratch"} 0.99x20`},
				"for 5 minutes":     {filled + `persistentvolumeclaim_name="data"} 0.9x20 0.99x5`},
			},
		},
		"egress": {
			firing: map[string][]string{
				"10.06 GiB by two interfaces": each(2, sent+`interface="eth%d"} 0+15000000x370`),
			},
			quiet: map[string][]string{
				"9.7 GiB":                   each(2, sent+`interface="eth%d"} 0+14500000x370`),
				"10 GiB, more than 6 h ago": each(2, sent+`interface="eth%d"} 0 9000000000x370`),
				"the router's": {
					`kubernetes_io:pod_network_sent_bytes_count{monitored_resource="k8s_pod",cluster_name="prod-a1",` +
						`namespace_name="agent-gateway"} 0+90000000x370`,
				},
				"in another cluster": {
					`kubernetes_io:pod_network_sent_bytes_count{monitored_resource="k8s_pod",cluster_name="staging-a1",` +
						`namespace_name="agent-x"} 0+90000000x370`,
				},
				"Google's pods": {
					`kubernetes_io:pod_network_sent_bytes_count{monitored_resource="k8s_pod",cluster_name="prod-a1",` +
						`namespace_name="kube-system"} 0+90000000x370`,
				},
			},
		},
		"nat": {
			firing: map[string][]string{
				"200 packets of two protocols": each(2, dropped("prod-cells-us-central1", "OUT_OF_RESOURCES")+` 0+10x20`),
			},
			quiet: map[string][]string{
				"50 packets":         each(1, dropped("prod-cells-us-central1", "OUT_OF_RESOURCES")+` 0+5x20`),
				"an hour ago":        each(1, dropped("prod-cells-us-central1", "OUT_OF_RESOURCES")+` 0 500x60`),
				"for another reason": each(1, dropped("prod-cells-us-central1", "ENDPOINT_INDEPENDENCE_CONFLICT")+` 0+20x20`),
				"at another gateway": each(1, dropped("staging-cells-us-central1", "OUT_OF_RESOURCES")+` 0+20x20`),
			},
		},
	}
}

func dropped(gateway, reason string) string {
	return `router_googleapis_com:nat_dropped_sent_packets_count{monitored_resource="nat_gateway",gateway_name="` +
		gateway + `",reason="` + reason + `",ip_protocol="%d"}`
}

// starts are new agents that each of two revisions of a worker saw running: how many within a minute, and how many in
// all.
func starts(withinMinute, all string) []string {
	const bucket = started + `_bucket{monitored_resource="cloud_run_revision",revision_name="%d",le=`
	return slices.Concat(each(2, bucket+`"30"} 0x370`), each(2, bucket+`"60"} `+withinMinute), each(2, bucket+`"90"} `+all),
		each(2, bucket+`"+Inf"} `+all),
		each(2, started+`_count{monitored_resource="cloud_run_revision",revision_name="%d"} `+all))
}

func slowStartCase() alertCase {
	return alertCase{
		firing: map[string][]string{
			"four of six within the last hour": starts("0x340 1x30", "0x340 3x30"),
			"four of twenty, five hours ago":   starts("0x60 8x310", "0x60 10x310"),
		},
		quiet: map[string][]string{
			"two of six":                   starts("0x340 2x30", "0x340 3x30"),
			"all four of an hour":          starts("0x370", "0x340 2x30"),
			"two of forty, five hours ago": starts("0x60 19x310", "0x60 20x310"),
			"four of twenty, a day ago":    starts("8x370", "10x370"),
		},
	}
}
