package terraform_test

import (
	"regexp"
	"slices"
	"strings"

	"agents.example/controlplane/terraform/cell"
)

// apiHost is the host of the API without a domain.
const apiHost = "prod-routes-123456789012.us-central1.run.app"

func serviceAlertCases() map[string]alertCase {
	requests := func(service, class string) string {
		return `run_googleapis_com:request_count{monitored_resource="cloud_run_revision",service_name="` + service +
			`",response_code_class="` + class + `",revision_name="%d"}`
	}
	oldest := func(subscription string) string {
		return `pubsub_googleapis_com:subscription_oldest_unacked_message_age{monitored_resource="pubsub_subscription",` +
			`subscription_id="` + subscription + `"}`
	}
	refused := func(service, code string) string {
		return `serviceruntime_googleapis_com:api_request_count{monitored_resource="consumed_api",service="` + service +
			`",method="m%d",response_code="` + code + `"}`
	}
	return map[string]alertCase{
		"api_out_of_reach": {
			firing: map[string][]string{"from two locations": checked(apiHost, "0", "0", "1")},
			quiet: map[string][]string{
				"from one location": checked(apiHost, "0", "1", "1"),
				"both cells": slices.Concat(checked(canaryA1, "0", "0", "0"), checked(canaryB1, "0", "0", "0"),
					checked(apiHost, "1", "1", "1")),
				"until five minutes ago": {`monitoring_googleapis_com:uptime_check_check_passed{monitored_resource="uptime_url",` +
					`host="` + apiHost + `"} 0x40 1x7`},
			},
		},
		"errors": {
			firing: map[string][]string{
				"3 % of two revisions": slices.Concat(each(2, requests("prod-routes", "5xx")+" 0+3x20"),
					each(2, requests("prod-routes", "2xx")+" 0+97x20")),
			},
			quiet: map[string][]string{
				"1 % of two revisions": slices.Concat(each(2, requests("prod-routes", "5xx")+" 0+1x20"),
					each(2, requests("prod-routes", "2xx")+" 0+99x20")),
				"no failure": each(2, requests("prod-routes", "2xx")+" 0+99x20"),
				"a worker's": slices.Concat(each(1, requests("prod-sweep-agents", "5xx")+" 0+99x20"),
					each(1, requests("prod-routes", "2xx")+" 0+1x20")),
			},
		},
		"oldest": {
			firing: map[string][]string{
				"31 minutes in one": {oldest("prod-reconcile-agent") + " 1860x20", oldest("prod-other") + " 1x20"},
			},
			quiet: map[string][]string{
				"29 minutes in both":  {oldest("prod-reconcile-agent") + " 1740x20", oldest("prod-other") + " 1740x20"},
				"another environment": {oldest("staging-reconcile-agent") + " 1860x20"},
			},
		},
		"nudges_not_published": {
			firing: map[string][]string{
				"functions alone": each(2, unpublished("cloud_run_revision")+" 0+0.5x20"),
				"notifiers alone": each(2, unpublished("k8s_container")+" 0+0.5x20"),
				"both": slices.Concat(each(2, unpublished("cloud_run_revision")+" 0+0.5x20"),
					each(2, unpublished("k8s_container")+" 0+0.5x20")),
			},
			quiet: map[string][]string{
				"five":                  each(1, unpublished("cloud_run_revision")+" 0x10 5x10"),
				"twenty, two hours ago": each(1, unpublished("cloud_run_revision")+" 0 20x120"),
			},
		},
		"scheduled_run_failed": {
			firing: map[string][]string{
				"six runs of one each minute":      each(2, failedRuns("ObserveAgents")+" 0x10 0.5+0.5x5 3x4"),
				"all runs of one each ten minutes": each(2, failedRuns("CheckDrift")+" 0x9 0.5x9 1x9 1.5x19"),
			},
			quiet: map[string][]string{
				"four runs of one each minute":        each(1, failedRuns("ObserveAgents")+" 0x10 1+1x3 4x6"),
				"sixty runs, two hours ago":           each(1, failedRuns("ObserveAgents")+" 0 60x120"),
				"one run of one each ten minutes":     each(1, failedRuns("CheckDrift")+" 0x70 1x5"),
				"six runs, two hours ago":             each(1, failedRuns("CheckDrift")+" 0 6x120"),
				"a run of one that has another alert": each(1, failedRuns("RecountUsage")+" 0x10 9x10"),
			},
		},
		"quota": quotaCase(), "secret_quota": secretQuotaCase(),
		"throttled": {
			firing: map[string][]string{
				"two a minute, of two methods": each(2, refused("secretmanager.googleapis.com", "429")+" 0+1x20"),
			},
			quiet: map[string][]string{
				"one in two minutes":   each(1, refused("firestore.googleapis.com", "429")+" 0+0.5x20"),
				"fifty, two hours ago": each(1, refused("firestore.googleapis.com", "429")+" 0 50x120"),
				"other failures":       each(1, refused("firestore.googleapis.com", "409")+" 0+9x20"),
				"another service":      each(1, refused("compute.googleapis.com", "429")+" 0+9x20"),
			},
		},
	}
}

func quotaCase() alertCase {
	const region = "us-central1"
	return alertCase{
		firing: map[string][]string{
			"reported hours ago": {used("CPUS", region) + " 81 _x660", limit("CPUS", region, "A") + " 100 _x660"},
			"the lower of two limits": {
				used("CPUS", region) + " 81x20", limit("CPUS", region, "A") + " 100x20",
				limit("CPUS", region, "B") + " 1000x20",
			},
		},
		quiet: map[string][]string{
			"79 %":                  {used("CPUS", region) + " 79x20", limit("CPUS", region, "A") + " 100x20"},
			"there is no limit":     {used("CPUS", region) + " 79x20", limit("CPUS", region, "A") + " -1x20"},
			"reported two days ago": {used("CPUS", region) + " 81 _x2900", limit("CPUS", region, "A") + " 100 _x2900"},
			"used elsewhere": {
				used("CPUS", "europe-west1") + " 81x20", limit("CPUS", region, "A") + " 100x20",
				limit("CPUS", "europe-west1", "A") + " 1000x20",
			},
		},
	}
}

func secretQuotaCase() alertCase {
	const secrets, writes, reads = "secretmanager.googleapis.com", "writes", "reads"
	requests := func(service, metric string) string {
		return `serviceruntime_googleapis_com:quota_rate_net_usage{monitored_resource="consumer_quota",service="` +
			service + `",quota_metric="` + metric + `",location="global",method="m%d"}`
	}
	allowed := func(service, metric string) string {
		return strings.Replace(limit(metric, "global", "L"), "{", `{service="`+service+`",`, 1)
	}
	return alertCase{
		firing: map[string][]string{
			"500 of 600 writes a minute, of two methods": slices.Concat(each(2, requests(secrets, writes)+" 0+250x20"),
				[]string{allowed(secrets, writes) + " 600 _x20"}),
			"reads alone": slices.Concat(each(1, requests(secrets, writes)+" 0+100x20"),
				each(1, requests(secrets, reads)+" 0+550x20"), []string{allowed(secrets, writes) + " 600x20"},
				[]string{allowed(secrets, reads) + " 600x20"}),
		},
		quiet: map[string][]string{
			"460 of 600 a minute": slices.Concat(each(2, requests(secrets, writes)+" 0+230x20"),
				[]string{allowed(secrets, writes) + " 600x20"}),
			"a burst of one minute": slices.Concat(each(1, requests(secrets, writes)+" 0x10 600x10"),
				[]string{allowed(secrets, writes) + " 600x20"}),
			"a higher quota": slices.Concat(each(2, requests(secrets, writes)+" 0+250x20"),
				[]string{allowed(secrets, writes) + " 6000x20"}),
			"another service": slices.Concat(each(1, requests("run.googleapis.com", writes)+" 0+600x20"),
				[]string{allowed("run.googleapis.com", writes) + " 600x20"}),
		},
	}
}

func unpublished(resource string) string {
	return `logging_googleapis_com:user_prod_nudge_not_published{monitored_resource="` + resource + `",revision_name="%d"}`
}

func failedRuns(worker string) string {
	return `logging_googleapis_com:user_prod_scheduled_run_failed{monitored_resource="cloud_run_revision",worker="` +
		worker + `",revision_name="%d"}`
}

func used(metric, location string) string {
	return `serviceruntime_googleapis_com:quota_allocation_usage{monitored_resource="consumer_quota",quota_metric="` +
		metric + `",location="` + location + `"}`
}

func limit(metric, location, name string) string {
	return `serviceruntime_googleapis_com:quota_limit{monitored_resource="consumer_quota",quota_metric="` + metric +
		`",location="` + location + `",limit_name="` + name + `"}`
}

// silentAlertCase is about the subscription that a query names.
func silentAlertCase(query string) alertCase {
	subscription := regexp.MustCompile(`subscription_id="([^"]*)"`).FindStringSubmatch(query)[1]
	if strings.Contains(query, "[50h]") {
		return silentDayCase(subscription)
	}
	return alertCase{
		firing: map[string][]string{
			"the last tick was three hours ago": {pushes(subscription, "ack") + " 0x9 1x200"},
			"ticks are refused":                 {pushes(subscription, "remote_server_5xx") + " 0+1x200"},
			"another worker runs":               {pushes(subscription+"-2", "ack") + " 0+1x200"},
		},
		quiet: map[string][]string{
			"one tick in ten minutes, and the metric is ten minutes late": {
				pushes(subscription, "ack") + " 0x9 1x9 2x9 3x9 4x9 5x9 6x9 7x9 8x9 9x9 10x9",
				strings.Replace(pushes(subscription, "ack"), "}", `,response_code="200"}`, 1) + " 0x100",
			},
		},
	}
}

// silentDayCase is about a worker that runs once a day, next to one that runs each minute.
func silentDayCase(subscription string) alertCase {
	const twice = " 0x1440 1x1440 2x1440"
	daily, sweep := pushes(subscription, "ack"), pushes("prod-sweep-agents", "ack")
	refused := pushes(subscription, "remote_server_5xx")
	return alertCase{
		firing: map[string][]string{
			"the last tick was three days ago": {daily + " 0x9 1x4320", sweep + " 0+1x4330"},
			"it never ran":                     {sweep + " 0+1x4320"},
			"ticks are refused":                {refused + twice, sweep + " 0+1x4330"},
			"another daily worker runs":        {pushes(subscription+"-2", "ack") + twice, sweep + " 0+1x4330"},
		},
		quiet: map[string][]string{
			"the last tick was 47 hours ago":    {daily + " 0x1440 1x2820", sweep + " 0+1x4260"},
			"the deployment is a day old":       {sweep + " 0+1x1500"},
			"a maintenance of three days ended": {daily + " 0x9 1x4920", sweep + " 0+1x300 300x4320 300+1x300"},
		},
	}
}

func pushes(subscription, class string) string {
	return `pubsub_googleapis_com:subscription_push_request_count{monitored_resource="pubsub_subscription",` +
		`subscription_id="` + subscription + `",response_class="` + class + `"}`
}

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
	gates := func(cluster string) string {
		return `up{cluster="` + cluster + `",namespace="agent-gateway",job="agent-gate",instance="%d"} 1x20`
	}
	notifier := func(cluster, ready string) string {
		return `kube_pod_container_status_ready{cluster="` + cluster + `",namespace="agent-gateway",container="notifier"} ` +
			ready
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
		"gate": {
			firing: map[string][]string{
				"one cell has one": slices.Concat(each(1, gates("prod-a1")), each(2, gates("prod-b1"))),
				"one cell has routers only": slices.Concat(each(2, gates("prod-b1")),
					each(3, routers("prod-a1", "agent-gateway"))),
				"one of two does not answer": slices.Concat(each(2, gates("prod-b1")), each(1, gates("prod-a1")),
					[]string{`up{cluster="prod-a1",namespace="agent-gateway",job="agent-gate",instance="9"} 0x20`}),
			},
			quiet: map[string][]string{
				"both have two": slices.Concat(each(2, gates("prod-a1")), each(2, gates("prod-b1"))),
			},
		},
		"notifier": {
			firing: map[string][]string{
				"one cell has none": {notifier("prod-a1", "1x20")},
				"one is not ready":  {notifier("prod-a1", "1x20"), notifier("prod-b1", "0x20")},
				"another container is ready": {
					notifier("prod-a1", "1x20"), strings.Replace(notifier("prod-b1", "1x20"), `"notifier"`, `"router"`, 1),
				},
			},
			quiet: map[string][]string{
				"both have one":             {notifier("prod-a1", "1x20"), notifier("prod-b1", "1x20")},
				"one was away for a minute": {notifier("prod-a1", "1x20"), notifier("prod-b1", "1x16 0x1 1x3")},
			},
		},
		"gate_failures": {
			firing: map[string][]string{
				"secrets cannot be read": {`gate_value_reads_total{cluster="prod-a1",result="failed",instance="a"} 0+2x20`},
				"two gates cannot publish": {
					`gate_report_failures_total{cluster="prod-a1",instance="a"} 0+0.5x20`,
					`gate_report_failures_total{cluster="prod-a1",instance="b"} 0+0.5x20`,
				},
			},
			quiet: map[string][]string{
				"secrets are read": {`gate_value_reads_total{cluster="prod-a1",result="read",instance="a"} 0+20x20`},
				"a few failures":   {`gate_value_reads_total{cluster="prod-a1",result="failed",instance="a"} 0+0.5x20`},
				"another deployment's": {
					`gate_report_failures_total{cluster="test-a1",instance="a"} 0+20x20`,
				},
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
					filled + `volume_name="data"} 0.96x20`,
					filled + `volume_name="data",uid="former"} 0.5x20`,
					`kubernetes_io:pod_volume_utilization{monitored_resource="k8s_pod",cluster_name="prod-b1",` +
						`namespace_name="agent-y",volume_name="data"} 0.1x20`,
				},
				"that of a restored agent": {filled + `volume_name="data",persistentvolumeclaim_name="data-3"} 0.96x20`},
			},
			quiet: map[string][]string{
				"two are half full": each(2, filled+`volume_name="data",uid="%d"} 0.6x20`),
				"nearly":            {filled + `volume_name="data"} 0.94x20`},
				"no disk":           {filled + `volume_name="scratch"} 0.99x20`},
				"for 5 minutes":     {filled + `volume_name="data"} 0.9x20 0.99x5`},
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
