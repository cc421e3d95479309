//go:build unix

package apitest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// admissionCases are about what the server refuses or changes although an object is valid.
func admissionCases() map[string]func(*space) {
	return map[string]func(*space){
		"quota of pods":                 testQuotaOfPods,
		"quota of resources":            testQuotaOfResources,
		"quota of claims":               testQuotaOfClaims,
		"quota among concurrent writes": testQuotaRace,
		"quota of a stateful set":       testQuotaOfController,
		"quota of node ports":           testQuotaOfServices,
		"pod security":                  testPodSecurity,
		"pod security warnings":         testPodSecurityWarnings,
		"runtime class":                 testRuntimeClass,
		"priority class":                testPriorityClass,
		"service account of a pod":      testPodServiceAccount,
	}
}

// quota creates a quota and waits until its use is counted.
func (s *space) quota(hard string, used map[string]any) {
	s.Helper()
	s.create("resourcequotas", "metadata: {name: plan}\nspec: {hard: "+hard+"}")
	s.await("resourcequotas/plan", used)
}

// exceeded is the refusal of what has no room in the quota.
func exceeded(message string) refusal {
	return refusal{code: http.StatusForbidden, reason: metav1.StatusReasonForbidden, message: "exceeded quota: " +
		"plan, " + message}
}

func post(path, body string) call { return call{verb: "POST", path: path, body: body} }

func testQuotaOfPods(s *space) {
	s.quota("{pods: '1'}", map[string]any{"/status/hard/pods": "1", "/status/used/pods": "0"})
	s.create("pods", "metadata: {name: a}\n"+podSpec)
	s.await("resourcequotas/plan", map[string]any{"/status/used/pods": "1"})
	s.refuses(post("pods", "metadata: {name: b}\n"+podSpec), exceeded("requested: pods=1, used: pods=1, limited: "+
		"pods=1"))
	s.must(call{verb: "DELETE", path: "pods/a", query: "gracePeriodSeconds=0"})
	s.await("resourcequotas/plan", map[string]any{"/status/used/pods": "0"})
	s.awaitRoom("b")
	s.must(call{verb: "MERGE", path: "resourcequotas/plan", body: "spec: {hard: {pods: '2'}}"})
	s.await("resourcequotas/plan", map[string]any{"/status/hard/pods": "2", "/status/used/pods": "1"})
	s.awaitRoom("c")
}

// awaitRoom creates a pod as soon as the quota admits it: admission learns of the room later than readers of the quota.
func (s *space) awaitRoom(pod string) {
	s.Helper()
	s.eventually("the quota has room", func(ctx context.Context) error {
		a, err := s.admin.send(ctx, s.namespace, post("pods", "metadata: {name: "+pod+"}\n"+podSpec))
		return errorOf(a, err)
	})
}

func testQuotaOfResources(s *space) {
	s.quota("{requests.cpu: '1', limits.memory: 1Gi}", map[string]any{"/status/used/requests.cpu": "0"})
	pod := func(name, resources string) call {
		return post("pods", "metadata: {name: "+name+"}\nspec: {nodeSelector: {none: none}, containers: [{name: "+
			"main, image: i, "+
			"resources: {"+resources+"}}]}")
	}
	s.refuses(pod("a", "requests: {cpu: '1'}"), refusal{
		code: 403, reason: metav1.StatusReasonForbidden, message: "failed quota: plan: must specify limits.memory " +
			"for: main",
	})
	s.must(pod("a", "limits: {memory: 512Mi}, requests: {cpu: 600m}"))
	s.await("resourcequotas/plan", map[string]any{
		"/status/used": map[string]string{"requests.cpu": "600m", "limits.memory": "512Mi"},
	})
	s.refuses(pod("b", "limits: {memory: 512Mi}, requests: {cpu: 500m}"),
		exceeded("requested: requests.cpu=500m, used: requests.cpu=600m, limited: requests.cpu=1"))
	s.must(pod("b", "limits: {memory: 512Mi}, requests: {cpu: 400m}"))
}

func testQuotaOfClaims(s *space) {
	s.quota("{persistentvolumeclaims: '2', requests.storage: 2Gi}",
		map[string]any{"/status/used/persistentvolumeclaims": "0"})
	s.create("persistentvolumeclaims", claim("a"))
	s.await("resourcequotas/plan", map[string]any{
		"/status/used": map[string]string{"persistentvolumeclaims": "1", "requests.storage": "1Gi"},
	})
	large := "metadata: {name: b}\nspec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1025Mi}}}"
	s.refuses(post("persistentvolumeclaims", large),
		exceeded("requested: requests.storage=1025Mi, used: requests.storage=1Gi, limited: requests.storage=2Gi"))
	s.create("persistentvolumeclaims", claim("b"))
	s.refuses(post("persistentvolumeclaims", claim("c")), exceeded("requested: "+
		"persistentvolumeclaims=1,requests.storage=1Gi"))
}

// testQuotaRace creates pods concurrently, of which the quota admits some only.
func testQuotaRace(s *space) {
	s.quota("{pods: '3'}", map[string]any{"/status/used/pods": "0"})
	var mu sync.Mutex
	codes := map[int]int{}
	concurrently(10, func(i int) {
		a := s.send(post("pods", fmt.Sprintf("metadata: {name: p-%d}\n%s", i, podSpec)))
		mu.Lock()
		defer mu.Unlock()
		codes[a.code]++
	})
	created := codes[http.StatusCreated]
	if created > 3 || created+codes[http.StatusForbidden]+codes[http.StatusConflict] != 10 {
		s.Errorf("answers to 10 creations with room for 3: %v", codes)
	}
	if pods := s.get("pods").names(); len(pods) != created {
		s.Errorf("pods %q after %v", pods, codes)
	}
	s.await("resourcequotas/plan", map[string]any{"/status/used/pods": fmt.Sprint(created)})
}

// testQuotaOfController checks that a controller reports a refusal by an event.
func testQuotaOfController(s *space) {
	s.quota("{pods: '0'}", map[string]any{"/status/hard/pods": "0"})
	s.create("apps/statefulsets", "metadata: {name: a}\nspec: {"+template+"}")
	s.eventually("an event has the refusal", func(ctx context.Context) error {
		events, err := s.admin.send(ctx, s.namespace, call{
			path: "events", query: "fieldSelector=involvedObject.kind%3DStatefulSet%2Creason%3DFailedCreate",
		})
		if err != nil {
			return err
		}
		return differences(events, map[string]any{
			"/items/0/type": "Warning", "/items/0/involvedObject/name": "a", "/items/0/message": `Create Pod a-0 in StatefulSet a ` +
				`failed error: pods "a-0" is forbidden: exceeded quota: plan, requested: pods=1, used: pods=0, limited: pods=0`,
		})
	})
	s.must(call{verb: "DELETE", path: "apps/statefulsets/a"})
}

func testQuotaOfServices(s *space) {
	s.quota("{services.nodeports: '0', services.loadbalancers: '0'}",
		map[string]any{"/status/used/services.nodeports": "0"})
	s.create("services", "metadata: {name: a}\nspec: {ports: [{port: 80}]}")
	s.refuses(post("services", "metadata: {name: b}\nspec: {type: NodePort, ports: [{port: 80}]}"),
		exceeded("requested: services.nodeports=1, used: services.nodeports=0, limited: services.nodeports=0"))
}

// restrict makes a namespace refuse pods that are not restricted, or warn about them, and waits until the server does.
func (s *space) restrict(mode string) {
	s.Helper()
	s.must(call{
		verb: "MERGE", path: "/api/v1/namespaces/{ns}", body: "metadata: {labels: {pod-security.kubernetes.io/" + mode +
			": restricted, pod-security.kubernetes.io/" + mode + "-version: v1.35}}",
	})
	s.eventually("the server knows the label", func(ctx context.Context) error {
		probe := post("pods", "metadata: {name: probe}\n"+podSpec)
		probe.query = "dryRun=All"
		a, err := s.admin.send(ctx, s.namespace, probe)
		if err == nil && a.code == http.StatusCreated && a.header.Get("Warning") == "" {
			err = errors.New("it does not know it yet")
		}
		return err
	})
}

// restricted returns YAML of a restricted pod, with further fields of its container.
func restricted(name, fields string) string {
	return "metadata: {name: " + name + "}\nspec: {nodeSelector: {none: none}, securityContext: {runAsNonRoot: true, " +
		"seccompProfile: {type: RuntimeDefault}}, containers: [{name: main, image: i, securityContext: " +
		"{allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}" + fields + "}}]}"
}

func testPodSecurity(s *space) {
	s.restrict("enforce")
	s.create("pods", restricted("good", ""))
	for name, row := range map[string]struct{ pod, message string }{
		"default": {
			pod: "metadata: {name: a}\n" + podSpec,
			message: `pods "a" is forbidden: violates PodSecurity "restricted:v1.35": allowPrivilegeEscalation != false ` +
				`(container "main" must set securityContext.allowPrivilegeEscalation=false), unrestricted capabilities (container ` +
				`"main" must set securityContext.capabilities.drop=["ALL"]), runAsNonRoot != true (pod or container "main" must set ` +
				`securityContext.runAsNonRoot=true), seccompProfile (pod or container "main" must set ` +
				`securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")`,
		},
		"root": {pod: restricted("a", ", runAsUser: 0"), message: "runAsUser=0"},
		"capability": {pod: strings.Replace(restricted("a", ""), "ALL", "KILL", 1), message: "unrestricted " +
			"capabilities"},
	} {
		s.Log(name)
		s.refuses(post("pods", row.pod), refusal{code: 403, reason: metav1.StatusReasonForbidden, message: row.message})
	}
	// A workload is admitted with a warning, if at all: its pods are refused.
	s.create("apps/statefulsets", "metadata: {name: a}\nspec: {replicas: 0, "+template+"}")
}

func testPodSecurityWarnings(s *space) {
	s.restrict("warn")
	for path, body := range map[string]string{
		"pods": "metadata: {name: a}\n" + podSpec, "apps/statefulsets": "metadata: {name: a}\nspec: {replicas: 0, " +
			"" + template + "}",
	} {
		a := s.create(path, body)
		const want = `299 - "would violate PodSecurity \"restricted:v1.35\": allowPrivilegeEscalation != false`
		if got := a.header.Get("Warning"); len(got) < len(want) || got[:len(want)] != want {
			s.Errorf("warning about %s: %q", path, got)
		}
	}
}

func testRuntimeClass(s *space) {
	pod := func(name, class string) call {
		return post("pods", "metadata: {name: "+name+"}\nspec: {runtimeClassName: "+class+", containers: [{name: "+
			"main, image: '"+image+"'}]}")
	}
	s.must(pod("a", "gvisor"))
	s.refuses(pod("b", "none"), refusal{
		code: 403, reason: metav1.StatusReasonForbidden,
		message: `pods "b" is forbidden: pod rejected: RuntimeClass "none" not found`,
	})
}

func testPriorityClass(s *space) {
	name := s.namespace + "-high"
	s.create("/apis/scheduling.k8s.io/v1/priorityclasses", "metadata: {name: "+name+"}\nvalue: "+
		"7\npreemptionPolicy: Never")
	s.Cleanup(func() {
		_, _ = s.admin.send(context.Background(), "", call{
			verb: "DELETE",
			path: "/apis/scheduling.k8s.io/v1/priorityclasses/" + name,
		})
	})
	pod := func(name, class string) call {
		return post("pods", "metadata: {name: "+name+"}\nspec: {priorityClassName: '"+class+"', nodeSelector: "+
			"{none: none}, "+
			"containers: [{name: main, image: i}]}")
	}
	s.eventually("the server knows the class", func(ctx context.Context) error {
		a, err := s.admin.send(ctx, s.namespace, pod("a", name))
		if err == nil && a.err() == nil {
			err = differences(a, map[string]any{"/spec/priority": 7, "/spec/preemptionPolicy": "Never"})
		}
		return errorOf(a, err)
	})
	s.want(s.must(pod("b", "")), map[string]any{"/spec/priority": 0, "/spec/preemptionPolicy": "PreemptLowerPriority"})
	s.refuses(pod("c", "none"), refusal{
		code: 403, reason: metav1.StatusReasonForbidden, message: "no PriorityClass with name none was found",
	})
}

func testPodServiceAccount(s *space) {
	s.refuses(post("pods", "metadata: {name: a}\nspec: {serviceAccountName: none, containers: [{name: main, image: "+
		"i}]}"), refusal{
		code: 403, reason: metav1.StatusReasonForbidden,
		message: fmt.Sprintf("error looking up service account %s/none: serviceaccount \"none\" not found",
			s.namespace),
	})
	with := s.create("pods", "metadata: {name: a}\n"+podSpec)
	s.want(with, map[string]any{
		"/spec/serviceAccountName": "default", "/spec/serviceAccount": "default",
		"/spec/containers/0/volumeMounts/0/mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
		"/spec/containers/0/volumeMounts/0/readOnly":  true,
	})
	if with.at("/spec/volumes/0/projected/sources/2") == nil {
		s.Errorf("the pod has no volume with a token: %s", with.body)
	}
	without := s.create("pods", "metadata: {name: b}\nspec: {automountServiceAccountToken: false, nodeSelector: "+
		"{none: none}, "+
		"containers: [{name: main, image: i}]}")
	s.want(without, map[string]any{
		"/spec/volumes": nil, "/spec/containers/0/volumeMounts": nil,
		"/spec/serviceAccountName": "default",
	})
}
