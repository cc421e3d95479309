//go:build unix

package apitest

import (
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"agents.example/controlplane/emulators/cluster"
)

// defaultCases are about what the server adds to the objects of agents, and about the logs of their pods.
func defaultCases() map[string]func(*space) {
	return map[string]func(*space){
		"stateful set":         testSetDefaults,
		"pod":                  testPodDefaults,
		"deployment":           testDeploymentDefaults,
		"network policy":       testPolicyDefaults,
		"small kinds":          testSmallDefaults,
		"log before the start": testLogBeforeStart,
		"log of a container":   testLogOfContainer,
	}
}

func testSetDefaults(s *space) {
	a := s.create("apps/statefulsets", agentSet("replicas: 0, "))
	s.want(a, map[string]any{
		"/spec/podManagementPolicy": "OrderedReady", "/spec/revisionHistoryLimit": 10,
		"/spec/updateStrategy": map[string]any{
			"type":          "RollingUpdate",
			"rollingUpdate": map[string]int{"partition": 0},
		},
		"/spec/persistentVolumeClaimRetentionPolicy": map[string]string{
			"whenDeleted": "Retain",
			"whenScaled":  "Retain",
		},
		"/spec/template/spec/restartPolicy": "Always", "/spec/template/spec/dnsPolicy": "ClusterFirst",
		"/spec/template/spec/schedulerName":                 "default-scheduler",
		"/spec/template/spec/terminationGracePeriodSeconds": 30,
		"/spec/template/spec/securityContext":               map[string]any{},
		"/spec/volumeClaimTemplates/0/spec/volumeMode":      "Filesystem",
		"/spec/volumeClaimTemplates/0/kind":                 "PersistentVolumeClaim",
		"/spec/volumeClaimTemplates/0/status/phase":         "Pending",
		"/status/replicas":                                  0, "/status/availableReplicas": 0,
	})
	s.want(s.create("apps/statefulsets", "metadata: {name: b}\nspec: {"+template+"}"),
		map[string]any{"/spec/replicas": 1})
}

func testPodDefaults(s *space) {
	a := s.create("pods", "metadata: {name: a}\nspec: {nodeSelector: {none: none}, enableServiceLinks: false, "+
		"volumes: [{name: s, "+
		"secret: {secretName: s}}], containers: [{name: main, image: 'i:v1', ports: [{containerPort: 80}], env: "+
		"[{name: A, "+
		"valueFrom: {fieldRef: {fieldPath: status.podIP}}}], livenessProbe: {tcpSocket: {port: 80}}, readinessProbe: "+
		"{httpGet: {port: 80}}, resources: {limits: {cpu: 500m, memory: 1Gi}}}, {name: latest, image: i}]}")
	probe := func(kind string, handler any) map[string]any {
		return map[string]any{
			kind: handler, "failureThreshold": 3, "periodSeconds": 10, "successThreshold": 1, "timeoutSeconds": 1,
		}
	}
	s.want(a, map[string]any{
		"/spec/restartPolicy": "Always", "/spec/dnsPolicy": "ClusterFirst", "/spec/schedulerName": "default-scheduler",
		"/spec/terminationGracePeriodSeconds": 30, "/spec/enableServiceLinks": false,
		"/spec/preemptionPolicy": "PreemptLowerPriority",
		"/spec/priority":         0,
		"/spec/securityContext":  map[string]any{}, "/spec/volumes/0/secret/defaultMode": 420,
		"/spec/containers/0/imagePullPolicy": "IfNotPresent", "/spec/containers/1/imagePullPolicy": "Always",
		"/spec/containers/0/ports/0/protocol": "TCP",
		"/spec/containers/0/env/0/valueFrom/fieldRef": map[string]string{
			"apiVersion": "v1",
			"fieldPath":  "status.podIP",
		},
		"/spec/containers/0/livenessProbe": probe("tcpSocket", map[string]int{"port": 80}),
		"/spec/containers/0/readinessProbe": probe("httpGet", map[string]any{
			"path": "/",
			"port": 80, "scheme": "HTTP",
		}),
		"/spec/containers/0/resources/requests":           map[string]string{"cpu": "500m", "memory": "1Gi"},
		"/spec/containers/0/terminationMessagePath":       "/dev/termination-log",
		"/spec/containers/0/terminationMessagePolicy":     "File",
		"/spec/tolerations/0/key":                         "node.kubernetes.io/not-ready",
		"/spec/tolerations/1/tolerationSeconds":           300,
		"/status/phase":                                   "Pending",
		"/status/qosClass":                                "Burstable",
		"/metadata/generation":                            1,
		"/spec/containers/1/resources":                    map[string]any{},
		"/spec/containers/0/livenessProbe/tcpSocket/port": 80,
	})
	// Quantities have one form.
	same := s.create("pods", "metadata: {name: b}\nspec: {nodeSelector: {none: none}, containers: [{name: main, "+
		"image: i, "+
		"resources: {limits: {cpu: '0.5', memory: 2048Mi, ephemeral-storage: '1073741824'}}}]}")
	s.want(same, map[string]any{
		"/spec/containers/0/resources/limits": map[string]string{
			"cpu": "500m", "memory": "2Gi",
			"ephemeral-storage": "1073741824",
		},
	})
}

func testDeploymentDefaults(s *space) {
	s.want(s.create("apps/deployments", "metadata: {name: a}\nspec: {replicas: 0, "+template+"}"), map[string]any{
		"/spec/strategy": map[string]any{
			"type": "RollingUpdate", "rollingUpdate": map[string]string{"maxSurge": "25%", "maxUnavailable": "25%"},
		},
		"/spec/revisionHistoryLimit": 10, "/spec/progressDeadlineSeconds": 600, "/status": map[string]any{},
	})
}

func testPolicyDefaults(s *space) {
	path := "networking.k8s.io/networkpolicies"
	s.want(s.create(path, "metadata: {name: a}\nspec: {podSelector: {}, egress: [{ports: [{port: 53}]}]}"),
		map[string]any{
			"/spec/policyTypes": []string{"Ingress", "Egress"}, "/spec/egress/0/ports/0/protocol": "TCP",
			"/spec/podSelector": map[string]any{},
		})
	s.want(s.create(path, "metadata: {name: b}\nspec: {podSelector: {}}"),
		map[string]any{"/spec/policyTypes": []string{"Ingress"}})
}

func testSmallDefaults(s *space) {
	s.want(s.create("secrets", "metadata: {name: a}"), map[string]any{"/type": "Opaque", "/data": nil})
	s.want(s.create("resourcequotas", "metadata: {name: a}\nspec: {hard: {requests.cpu: 1500m, requests.memory: "+
		"1024Mi}}"),
		map[string]any{"/spec/hard": map[string]string{"requests.cpu": "1500m", "requests.memory": "1Gi"}})
	s.want(s.create("discovery.k8s.io/endpointslices", "metadata: {name: a}\naddressType: IPv4\nports: [{port: "+
		"80}]\nendpoints: []"),
		map[string]any{"/ports/0/protocol": "TCP", "/ports/0/name": ""})
	s.want(s.create(rbacGroup+"/rolebindings", "metadata: {name: a}\nroleRef: {kind: Role, name: a}\nsubjects: "+
		"[{kind: User, name: a}]"),
		map[string]any{"/roleRef/apiGroup": rbacGroup, "/subjects/0/apiGroup": rbacGroup})
	for name, want := range map[string]string{"volumeBindingMode": "Immediate", "reclaimPolicy": "Delete"} {
		class := s.must(call{
			verb: "POST", path: "/apis/storage.k8s.io/v1/storageclasses", query: "dryRun=All",
			body: "metadata: {name: " + s.namespace + "}\nprovisioner: example.test/none",
		})
		s.want(class, map[string]any{"/" + name: want})
	}
}

func testLogBeforeStart(s *space) {
	s.create("pods", "metadata: {name: a}\n"+podSpec)
	// A pod without a node has no log, which is no error.
	if a := s.send(call{path: "pods/a/log"}); a.code != http.StatusNoContent || len(a.body) != 0 {
		s.Errorf("log of a pod without a node is answered %d: %s", a.code, a.body)
	}
	badRequest := refusal{code: http.StatusBadRequest, reason: metav1.StatusReasonBadRequest}
	badRequest.message = "container none is not valid for pod a"
	s.refuses(call{path: "pods/a/log", query: "container=none"}, badRequest)
	s.refuses(call{path: "pods/a/log", query: "tailLines=-1"}, refusal{code: 422, reason: metav1.StatusReasonInvalid})
}

// testLogOfContainer has the refusals by which package podlogs knows why there is no log.
func testLogOfContainer(s *space) {
	s.create("pods", "metadata: {name: a}\nspec: {nodeSelector: {none: none}, containers: [{name: b, image: i}, "+
		"{name: c, image: i}]}")
	s.refuses(call{path: "pods/a/log"}, refusal{
		code: http.StatusBadRequest, reason: metav1.StatusReasonBadRequest,
		message: "a container name must be specified for pod a, choose one of: [b c]",
	})

	s.create("pods", runningPod("run"))
	s.await("pods/run", ready())
	s.refuses(call{path: "pods/run/log", query: "previous=true"}, refusal{
		code: http.StatusBadRequest, reason: metav1.StatusReasonBadRequest, message: "previous terminated container",
	})
	s.setFault(cluster.ImagePull)
	s.create("pods", runningPod("wait"))
	s.await("pods/wait", map[string]any{"/status/containerStatuses/0/state/waiting/reason": "ImagePullBackOff"})
	s.refuses(call{path: "pods/wait/log"}, refusal{
		code: http.StatusBadRequest, reason: metav1.StatusReasonBadRequest, message: `container "main" in pod "wait" is waiting to start`,
	})
}
