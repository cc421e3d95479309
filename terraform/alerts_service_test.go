package terraform_test

import (
	"regexp"
	"slices"
	"strings"
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
	pushes := func(subscription, class string) string {
		return `pubsub_googleapis_com:subscription_push_request_count{monitored_resource="pubsub_subscription",` +
			`subscription_id="` + subscription + `",response_class="` + class + `"}`
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
