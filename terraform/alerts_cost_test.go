package terraform_test

import "slices"

// costAlertCases are about what costs money.
func costAlertCases() map[string]alertCase {
	of := func(service, values string) []string {
		return each(2, `run_googleapis_com:request_count{monitored_resource="cloud_run_revision",service_name="`+service+
			`",response_code_class="4xx",revision_name="%d"} `+values)
	}
	api := func(values string) []string { return of("prod-routes", values) }
	return map[string]alertCase{
		"requests": {
			firing: map[string][]string{
				"on the first day":             api("0+4000x60"),
				"ten times those of yesterday": api("0+400x1440 576000+4000x60"),
			},
			quiet: map[string][]string{
				"few":                       api("0+4x1440 6000+2000x60"),
				"twice those of yesterday":  api("0+4000x1440 5760000+8000x60"),
				"at the same hour each day": api("0+8000x60 480000x1379 480000+8000x20"),
				"of workers":                of("prod-worker", "0+8000x60"),
				"of another environment":    of("stage-routes", "0+8000x60"),
				"ten times, for a minute":   api("0+400x1500 600000+4000x1 604000x9"),
			},
		},
		"cell_egress": {
			firing: map[string][]string{
				"200 agents with 5 GiB a day each": each(200, sentBy("prod-a1", "agent-%d")+" 0+3730000x1440"),
			},
			quiet: map[string][]string{
				"80 agents with 5 GiB a day each": each(80, sentBy("prod-a1", "agent-%d")+" 0+3730000x1440"),
				"two cells with 80 each": slices.Concat(each(80, sentBy("prod-a1", "agent-%d")+" 0+3730000x1440"),
					each(80, sentBy("prod-b1", "agent-%d")+" 0+3730000x1440")),
				"another environment's": each(200, sentBy("staging-a1", "agent-%d")+" 0+3730000x1440"),
				"routers":               {sentBy("prod-a1", "agent-gateway") + " 0+900000000x1440"},
			},
		},
		"sent": {
			firing: map[string][]string{
				"120 GiB to two kinds of networks": each(2, sentByService("prod-routes")+" 0+45000000x1440"),
				"exports in the night":             {sentByService("prod-exec") + " 0+2000000000x60 120000000000x1000"},
			},
			quiet: map[string][]string{
				"80 GiB": each(2, sentByService("prod-routes")+" 0+30000000x1440"),
				"two services": {
					sentByService("prod-routes") + " 0+60000000x1440", sentByService("prod-exec") + " 0+60000000x1440",
				},
				"120 GiB in two days": each(2, sentByService("prod-routes")+" 0+22500000x2880"),
				"another environment": {sentByService("stage-routes") + " 0+900000000x1440"},
				"a service of others": {sentByService("prod-routes-2") + " 0+900000000x1440"},
			},
		},
		"log_bytes": {
			firing: map[string][]string{
				"on the first day":            each(2, logBytes("my-project")+" 0+20000000x90"),
				"ten times that of yesterday": each(2, logBytes("cells")+" 0+3000000x1440 4320000000+30000000x90"),
			},
			quiet: map[string][]string{
				"little":                  each(2, logBytes("my-project")+" 0+300x1440 432000+15000000x90"),
				"twice that of yesterday": each(2, logBytes("my-project")+" 0+20000000x1440 28800000000+40000000x90"),
				"of two projects":         {logBytes("a") + " 0+20000000x90", logBytes("b") + " 0+20000000x90"},
			},
		},
	}
}

func sentBy(cluster, namespace string) string {
	return `kubernetes_io:pod_network_sent_bytes_count{monitored_resource="k8s_pod",cluster_name="` + cluster +
		`",namespace_name="` + namespace + `"}`
}

func sentByService(name string) string {
	return `run_googleapis_com:container_network_sent_bytes_count{monitored_resource="cloud_run_revision",service_name="` +
		name + `",kind="internet",revision_name="%d"}`
}

func logBytes(project string) string {
	return `logging_googleapis_com:billing_bytes_ingested{monitored_resource="global",project_id="` + project +
		`",resource_type="%d"}`
}
