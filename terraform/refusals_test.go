//go:build unix

package terraform_test

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"agents.example/controlplane/emulators/cluster"
	"agents.example/controlplane/emulators/clustertest"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/image"
	"agents.example/controlplane/shared/provisioning"
)

// refusal is a write that a worker which was taken over attempts.
type refusal struct {
	write attempt
	// want is a part of the policy's message.
	want string
}

// edit changes an object by a JSON patch.
func edit(resource, namespace, name, operations string, subresource ...string) attempt {
	return func(ctx context.Context, c dynamic.Interface) error {
		_, err := at(c, resource, namespace).Patch(ctx, name, types.JSONPatchType, []byte(operations),
			metav1.PatchOptions{DryRun: dryRun()}, subresource...)
		return err
	}
}

// existing is an object whose changes are refused.
type existing struct{ resource, namespace, name string }

// add adds or replaces a field.
func (o existing) add(path, value, want string) refusal {
	return refusal{edit(o.resource, o.namespace, o.name, `[{"op":"add","path":"`+path+`","value":`+value+`}]`), want}
}

func (o existing) drop(path, want string) refusal {
	return refusal{edit(o.resource, o.namespace, o.name, `[{"op":"remove","path":"`+path+`"}]`), want}
}

// createObject creates an object that is written in YAML.
func createObject(resource, namespace, text string) attempt {
	return func(ctx context.Context, c dynamic.Interface) error {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
			return err
		}
		_, err := at(c, resource, namespace).Create(ctx, o, metav1.CreateOptions{DryRun: dryRun()})
		return err
	}
}

// execute runs a command in an agent's pod.
func execute(namespace string) attempt {
	return func(ctx context.Context, c dynamic.Interface) error {
		_, err := at(c, "pods", namespace).Get(ctx, "agent-0", metav1.GetOptions{}, "exec")
		return err
	}
}

// The parts of messages.
const (
	refusesSurroundings = "Functions may not"
	refusesName         = "Agents have no object"
	refusesLevel        = "enforce=restricted"
	refusesVersion      = "enforce-version=v1.35"
	refusesID           = "agents.example/agent-id"
	refusesService      = "headless"
	refusesPort         = "lead to the front's port"
	refusesSelector     = "select the agent's pod"
	refusesPolicy       = "both directions"
	refusesIngress      = "Only the router"
	refusesEgress       = "name servers, the gate and the internet"
	refusesQuota        = "quota must bound"
	refusesMore         = "an agent of the largest plan"
	refusesVolume       = "volume must be new"
	refusesSize         = "at most the size of the largest plan, 200Gi"
	refusesClass        = "a file system of the class standard-rwo"
	refusesSecret       = "must be opaque"
	refusesScale        = "stops agents"
	refusesImage        = "no deployment with the images"
	refusesContainers   = "must have the front"
	refusesFront        = "The front must run /ko-app/front"
	refusesSource       = "that it names from a Secret"
	refusesCredentials  = "credentials that the front checks"
	refusesSeed         = "The seed must run"
	refusesDevices      = "CPU, memory and ephemeral storage only"
	refusesPrivileges   = "unprivileged"
	refusesNode         = "namespaces of their own"
	refusesProcesses    = "processes of the front"
	refusesAccount      = "no ServiceAccount"
	refusesVolumes      = "no volumes but"
	refusesPriority     = "neither a node nor a priority"
	refusesScheduling   = "which nodes they run on"
	refusesPodResources = "no resources but their containers'"
	refusesNames        = "its name servers or the gate"
	refusesReplicas     = "one pod at most"
	refusesContainer    = "in the container agent only"
	refusesSnapshot     = "snapshot must be of the agent's volume"
	refusesContent      = "keep the data of the other agent"
	refusesOwner        = "that ends with another object"
)

// podRefusals are changes of an agent's workload.
func podRefusals(own string) map[string]refusal {
	const pod, container = "/spec/template/spec", "/spec/template/spec/containers/0"
	workload := existing{"statefulsets", own, "agent"}
	set := workload.add
	return map[string]refusal{
		"a foreign image":              set(container+"/image", `"miner@sha256:0"`, refusesImage),
		"a tag of the image":           set(container+"/image", `"image:latest"`, refusesImage),
		"a foreign image of the front": set(pod+"/initContainers/0/image", `"miner@sha256:0"`, refusesImage),
		"another container": set(pod+"/containers/-",
			`{"name":"more","image":"miner",`+
				`"securityContext":{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]}}}`,
			refusesImage),
		"a privileged container": set(container+"/securityContext",
			`{"privileged":true,"capabilities":{"drop":["ALL"]}}`, refusesPrivileges),
		"more privileges": set(container+"/securityContext/allowPrivilegeEscalation", "true",
			refusesPrivileges),
		"a capability":          set(container+"/securityContext/capabilities/add", `["NET_RAW"]`, refusesPrivileges),
		"kept capabilities":     set(container+"/securityContext/capabilities/drop", `["KILL"]`, refusesPrivileges),
		"no security context":   set(pod+"/initContainers/0/securityContext", `{}`, refusesPrivileges),
		"the node's network":    set(pod+"/hostNetwork", "true", refusesNode),
		"the node's processes":  set(pod+"/hostPID", "true", refusesNode),
		"the node's IPC":        set(pod+"/hostIPC", "true", refusesNode),
		"a port of the node":    set(pod+"/initContainers/0/ports/0/hostPort", "8080", refusesNode),
		"the front's processes": set(pod+"/shareProcessNamespace", "true", refusesProcesses),
		"a token":               set(pod+"/automountServiceAccountToken", "true", refusesAccount),
		"a token by default":    workload.drop(pod+"/automountServiceAccountToken", refusesAccount),
		"another account":       set(pod+"/serviceAccountName", `"other"`, refusesAccount),
		"a path of the node":    set(pod+"/volumes/-", `{"name":"more","hostPath":{"path":"/"}}`, refusesVolumes),
		"a projected token": set(pod+"/volumes/-",
			`{"name":"more","projected":{"sources":[{"serviceAccountToken":{"path":"token"}}]}}`, refusesVolumes),
		"another claim": set(pod+"/volumes/-",
			`{"name":"more","persistentVolumeClaim":{"claimName":"other"}}`, refusesVolumes),
		"a node":                  set(pod+"/nodeName", `"node-1"`, refusesPriority),
		"the routers' priority":   set(pod+"/priorityClassName", `"agent-router"`, refusesPriority),
		"an unsafe runtime class": set(pod+"/runtimeClassName", `"other"`, refusesPriority),
		"two pods":                set("/spec/replicas", "2", refusesReplicas),
		"a pod of another name":   set("/spec/ordinals", `{"start":5}`, refusesReplicas),
		"two pods by scaling": {
			edit("statefulsets", own, "agent", `[{"op":"replace","path":"/spec/replicas","value":2}]`, "scale"),
			refusesScale,
		},
	}
}

// containerRefusals are changes of the containers of an agent's pod, and of which there are.
func containerRefusals(own string) map[string]refusal {
	const front, container = "/spec/template/spec/initContainers/0", "/spec/template/spec/containers/0"
	const restricted = `"securityContext":{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]}},` +
		`"resources":{"limits":{"cpu":"1m","memory":"1Mi"}}`
	image, agentImage := digestOf("image", "0"), digestOf("agent", "0")
	workload := existing{"statefulsets", own, "agent"}
	add := workload.add
	rows := map[string]refusal{
		"no front": workload.drop("/spec/template/spec/initContainers", refusesContainers),
		"a program before the front": add(front,
			`{"name":"first","image":"`+image+`",`+restricted+`}`, refusesContainers),
		"a program in addition to the agent": add("/spec/template/spec/containers/-",
			`{"name":"second","image":"`+image+`",`+restricted+`}`, refusesContainers),
		"another name of the agent's container": add(container+"/name", `"other"`, refusesContainers),
		"a front that ends": {
			edit("statefulsets", own, "agent", `[{"op":"remove","path":"`+front+`/readinessProbe"},`+
				`{"op":"remove","path":"`+front+`/restartPolicy"}]`),
			refusesContainers,
		},

		"another program of the front's image": add(front+"/command", `["/ko-app/placeholder"]`, refusesFront),
		"arguments of the front":               add(front+"/args", `["-anything"]`, refusesFront),
		"the image's own program":              workload.drop(front+"/command", refusesFront),
		"a front of the agents' image":         add(front+"/image", `"`+agentImage+`"`, refusesFront),
		"a volume in the place of the front": add(front+"/volumeMounts",
			`[{"name":"data","mountPath":"/ko-app","readOnly":true}]`, refusesFront),
		"a volume that the front may write to": add(front+"/volumeMounts",
			`[{"name":"data","mountPath":"/data"}]`, refusesFront),
		"another volume of the front": add(front+"/volumeMounts",
			`[{"name":"tmp","mountPath":"/data","readOnly":true}]`, refusesFront),
		"two volumes of the front": add(front+"/volumeMounts", `[{"name":"data","mountPath":"/data","readOnly":true},`+
			`{"name":"data","mountPath":"/ko-app","readOnly":true}]`, refusesFront),
		"a directory of the front": add(front+"/workingDir", `"/data"`, refusesFront),
		"more variables of the front": add(front+"/envFrom",
			`[{"configMapRef":{"name":"agent-env-0"}}]`, refusesFront),
		"a command after the front's start": add(front+"/lifecycle",
			`{"postStart":{"exec":{"command":["/ko-app/placeholder"]}}}`, refusesFront),
		"a command that probes the front": add(front+"/readinessProbe",
			`{"exec":{"command":["/ko-app/placeholder"]}}`, refusesFront),
		"a command that checks the front": add(front+"/livenessProbe",
			`{"exec":{"command":["/ko-app/placeholder"]}}`, refusesFront),
		"a command that waits for the front": add(front+"/startupProbe",
			`{"exec":{"command":["/ko-app/placeholder"]}}`, refusesFront),

		"the whole Secret in the agent's container": add(container+"/envFrom/-",
			`{"secretRef":{"name":"agent-env-0"}}`, refusesSource),
		"a device": add(container+"/resources/limits/nvidia.com~1gpu", `"1"`, refusesDevices),
		"a device of the front": add(front+"/resources/limits/nvidia.com~1gpu", `"1"`,
			refusesDevices),
	}
	for _, key := range []string{dataplane.EnvAPIKey, dataplane.EnvDashboardPassword, dataplane.EnvDashboardUsername} {
		rows[key+" in the agent's container"] = add(container+"/env/-",
			`{"name":"A","valueFrom":{"secretKeyRef":{"name":"agent-env-0","key":"`+key+`"}}}`, refusesCredentials)
	}
	return rows
}

// seedRefusals are changes of the pod of an agent with files on its volume and below /config. The volumes are the last
// two, and the container that writes files is the first.
func seedRefusals(own string) map[string]refusal {
	const seed, volumes = "/spec/template/spec/initContainers/0", "/spec/template/spec/volumes"
	add := existing{"statefulsets", own, "agent"}.add
	secret := func(more string) string {
		return `{"name":"more","projected":{"sources":[{"secret":{"name":"agent-env-0"` + more + `}}]}}`
	}
	rows := map[string]refusal{
		"another program that writes files":  add(seed+"/command", `["/ko-app/placeholder"]`, refusesSeed),
		"a front without checks":             add(seed+"/command", `["/ko-app/front"]`, refusesSeed),
		"arguments of the seed":              add(seed+"/args", `["-anything"]`, refusesSeed),
		"a seed of the agents' image":        add(seed+"/image", `"`+digestOf("agent", "0")+`"`, refusesSeed),
		"a volume in the place of the seed":  add(seed+"/volumeMounts/0/mountPath", `"/ko-app"`, refusesSeed),
		"a directory of the seed":            add(seed+"/workingDir", `"/data"`, refusesSeed),
		"a seed that goes on":                add(seed+"/restartPolicy", `"Always"`, refusesContainers),
		"a privileged seed":                  add(seed+"/securityContext", `{}`, refusesPrivileges),
		"a device of the seed":               add(seed+"/resources/limits/nvidia.com~1gpu", `"1"`, refusesDevices),
		"a whole Secret as a volume":         add(volumes+"/-", secret(""), refusesVolumes),
		"a token next to files":              add(volumes+"/2/projected/sources/-", `{"serviceAccountToken":{"path":"t"}}`, refusesVolumes),
		"the agent's labels next to files":   add(volumes+"/2/projected/sources/-", `{"downwardAPI":{"items":[]}}`, refusesVolumes),
		"a Secret in place of a projection":  add(volumes+"/-", `{"name":"more","secret":{"secretName":"agent-env-0"}}`, refusesVolumes),
		"a second program that writes files": add(seed, `{"name":"seed2","image":"`+digestOf("image", "0")+`"}`, refusesContainers),
	}
	rows["the URL of the archive as a file"] = add(volumes+"/-", secret(`,"items":[{"key":"`+dataplane.EnvImportURL+
		`","path":"a"}]`), refusesVolumes)
	for _, key := range dataplane.CredentialVariables() {
		rows[key+" as a file"] = add(volumes+"/-", secret(`,"items":[{"key":"`+key+`","path":"a"}]`), refusesVolumes)
		rows[key+" as a variable of the seed"] = add(seed+"/env/-",
			`{"name":"A","valueFrom":{"secretKeyRef":{"name":"agent-env-0","key":"`+key+`"}}}`, refusesSeed)
	}
	return rows
}

// TestPolicies_AdmitFilesAndNoMore: the pod of an agent with files is admitted, and none that differs in one point.
func TestPolicies_AdmitFilesAndNoMore(t *testing.T) {
	t.Parallel()
	f, ctx := policyCell(t), t.Context()
	worker, clusters, a := client(t, f.kubeconfigOf(t, unboundReconciler)), f.clusters(t, unboundReconciler), newAgent()
	a.NameAtStart, a.Config = a.Name, []byte(`{"team":"support"}`)
	a.Env = append(a.Env, agent.EnvVar{Key: "TOKEN", SecretVersion: 1})
	a.Files = []agent.File{
		{Path: "/config/token", Secret: "TOKEN", Mode: 0o600},
		{Path: "/data/token", Secret: "TOKEN", Mode: 0o600},
		{Path: "/data/x/y", Content: "z", Mode: 0o644},
	}
	if err := applyAll(ctx, clusters, a); err != nil {
		t.Fatal(err)
	}
	clustertest.Eventually(t, func(ctx context.Context) error { return clusters.CheckReady(ctx, a) })
	a.Generation, a.Files = a.Generation+1, a.Files[:1]
	if err := applyAll(ctx, clusters, a); err != nil {
		t.Errorf("an agent without files on its volume: %v", err)
	}
	a.Generation, a.Files = a.Generation+1, append(a.Files, agent.File{Path: "/data/x", Content: "z", Mode: 0o644})
	if err := applyAll(ctx, clusters, a); err != nil {
		t.Errorf("an agent with files again: %v", err)
	}
	if err := clusters.Prune(ctx, a); err != nil {
		t.Errorf("remove former files: %v", err)
	}
	for name, r := range seedRefusals(a.Namespace()) {
		err := r.write(ctx, worker)
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), r.want) {
			t.Errorf("%s: error %v, want it forbidden because of %q", name, err, r.want)
		}
	}
}

// placementRefusals are changes of where an agent's pod runs, and of its names.
func placementRefusals(own string) map[string]refusal {
	set := func(field, value, want string) refusal {
		return existing{"statefulsets", own, "agent"}.add("/spec/template/spec/"+field, value, want)
	}
	return map[string]refusal{
		"nodes with any taint":     set("tolerations", `[{"operator":"Exists"}]`, refusesScheduling),
		"nodes with another taint": set("tolerations", `[{"key":"gpu","operator":"Exists"}]`, refusesScheduling),
		"nodes with a label":       set("nodeSelector", `{"cloud.google.com/gke-accelerator":"any"}`, refusesScheduling),
		"the nodes of another agent": set("affinity", `{"podAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":`+
			`[{"topologyKey":"kubernetes.io/hostname","labelSelector":{}}]}}`, refusesScheduling),
		"a spread over nodes": set("topologySpreadConstraints",
			`[{"topologyKey":"a","maxSkew":1,"whenUnsatisfiable":"DoNotSchedule"}]`, refusesScheduling),
		"a scheduler":      set("schedulerName", `"other"`, refusesScheduling),
		"claims of a node": set("resourceClaims", `[{"name":"a","resourceClaimName":"a"}]`, refusesScheduling),

		"resources of the pod": set("resources", `{"limits":{"memory":"64Gi"}}`, refusesPodResources),
		"an end without an end": set("terminationGracePeriodSeconds",
			strconv.Itoa(image.MaxGraceSeconds+1), refusesPodResources),

		"another address of a name":   set("hostAliases", `[{"ip":"10.0.0.1","hostnames":["api.example.com"]}]`, refusesNames),
		"a name":                      set("hostname", `"other"`, refusesNames),
		"a domain":                    set("subdomain", `"other"`, refusesNames),
		"another name inside the pod": set("hostnameOverride", `"other"`, refusesNames),
		"a long name":                 set("setHostnameAsFQDN", "true", refusesNames),
		"the node's name servers":     set("dnsPolicy", `"Default"`, refusesNames),
		"a name server":               set("dnsConfig", `{"nameservers":["169.254.169.254"]}`, refusesNames),
		"a registry's credentials":    set("imagePullSecrets", `[{"name":"agent-env-0"}]`, refusesAccount),
	}
}

// surroundingRefusals are changes of an agent's namespace and of the objects in it.
func surroundingRefusals(own string) map[string]refusal {
	namespace, service := existing{"namespaces", "", own}, existing{"services", own, "agent"}
	policy, quota := existing{"networkpolicies", own, "agent"}, existing{"resourcequotas", own, "agent"}
	const labels, level = "/metadata/labels/", "/metadata/labels/pod-security.kubernetes.io~1enforce"
	owned := func(o existing) refusal {
		return o.add("/metadata/ownerReferences",
			`[{"apiVersion":"v1","kind":"Secret","name":"agent-env-0","uid":"0"}]`, refusesOwner)
	}
	internet := `{"ipBlock":{"cidr":"0.0.0.0/0"}}`
	return map[string]refusal{
		"a lower level":      namespace.add(level, `"baseline"`, refusesLevel),
		"an older level":     namespace.add(level+"-version", `"v1.34"`, refusesVersion),
		"the latest level":   namespace.add(level+"-version", `"latest"`, refusesVersion),
		"no level":           namespace.drop(level, refusesLevel),
		"no version":         namespace.drop(level+"-version", refusesVersion),
		"no labels":          namespace.drop("/metadata/labels", refusesLevel),
		"another agent's ID": namespace.add(labels+"agents.example~1agent-id", `"`+newAgent().ID+`"`, refusesID),

		// The garbage collector deletes what functions may not delete, after an owner that they may.
		"a network policy that ends with a Secret": owned(policy),
		"a quota that ends with a Secret":          owned(quota),
		"a Service that ends with a Secret":        owned(service),
		"a workload that ends with a Secret":       owned(existing{"statefulsets", own, "agent"}),

		"an external address":  service.add("/spec/externalIPs", `["203.0.113.1"]`, refusesService),
		"no selector":          service.drop("/spec/selector", refusesSelector),
		"the agent's own port": service.add("/spec/ports/0/targetPort", "3000", refusesPort),
		"another port":         service.add("/spec/ports/0/port", "80", refusesPort),
		"another selector":     service.add("/spec/selector/app", `"other"`, refusesSelector),

		"a policy for some pods": policy.add("/spec/podSelector", `{"matchLabels":{"a":"b"}}`, refusesPolicy),
		"a policy for some names": policy.add("/spec/podSelector",
			`{"matchExpressions":[{"key":"a","operator":"Exists"}]}`, refusesPolicy),
		"a policy for one direction":   policy.add("/spec/policyTypes", `["Ingress"]`, refusesPolicy),
		"requests from anywhere":       policy.add("/spec/ingress/-", `{}`, refusesIngress),
		"requests to the agent's port": policy.add("/spec/ingress/0/ports/0/port", "3000", refusesIngress),
		"requests to more ports":       policy.add("/spec/ingress/0/ports/0/endPort", "9000", refusesIngress),
		"requests from another agent": policy.add("/spec/ingress/0/from/-",
			`{"namespaceSelector":{"matchLabels":{"app.kubernetes.io/name":"agent"}}}`, refusesIngress),
		"requests from another namespace": policy.add(
			"/spec/ingress/0/from/0/namespaceSelector/matchExpressions/0/values/-", `"default"`, refusesIngress),
		"requests from an address": policy.add("/spec/ingress/0/from/-", internet, refusesIngress),
		"requests to anywhere":     policy.add("/spec/egress/-", `{}`, refusesEgress),
		"requests to the metadata server": policy.add("/spec/egress/1/to/-",
			`{"ipBlock":{"cidr":"169.254.169.254/32"}}`, refusesEgress),
		"requests to private addresses": policy.add("/spec/egress/1/to/-", internet, refusesEgress),
		"requests to another namespace": policy.add("/spec/egress/0/to/-",
			`{"namespaceSelector":{}}`, refusesEgress),
		"names from private addresses": policy.add("/spec/egress/0/to/-",
			`{"ipBlock":{"cidr":"10.0.0.0/8"}}`, refusesEgress),
		"names from the metadata server": policy.add("/spec/egress/0/to/-",
			`{"ipBlock":{"cidr":"169.254.169.254/32"}}`, refusesEgress),
		"requests to more ports of a name server": policy.add("/spec/egress/0/ports/-",
			`{"port":22,"protocol":"TCP"}`, refusesEgress),

		"a node port in the quota":         quota.add("/spec/hard/services.nodeports", `"1"`, refusesQuota),
		"more pods in the quota":           quota.add("/spec/hard/pods", `"4"`, refusesMore),
		"a quota without memory":           quota.drop("/spec/hard/limits.memory", refusesQuota),
		"a quota without pods":             quota.drop("/spec/hard/pods", refusesQuota),
		"CPU of more agents":               quota.add("/spec/hard/limits.cpu", `"27001m"`, refusesMore),
		"CPU of a large machine":           quota.add("/spec/hard/requests.cpu", `"10k"`, refusesMore),
		"memory of more agents":            quota.add("/spec/hard/limits.memory", `"100Gi"`, refusesMore),
		"memory of a large machine":        quota.add("/spec/hard/requests.memory", `"1Ti"`, refusesMore),
		"scratch space of more agents":     quota.add("/spec/hard/limits.ephemeral-storage", `"5Gi"`, refusesMore),
		"scratch space of a large machine": quota.add("/spec/hard/requests.ephemeral-storage", `"1Ti"`, refusesMore),
		"volumes of more agents":           quota.add("/spec/hard/requests.storage", `"601Gi"`, refusesMore),
		"more claims":                      quota.add("/spec/hard/persistentvolumeclaims", `"4"`, refusesMore),
		"a quota without claims":           quota.drop("/spec/hard/persistentvolumeclaims", refusesQuota),
		"a volume that grows": existing{"persistentvolumeclaims", own, "data"}.add(
			"/spec/resources/requests/storage", `"64Ti"`, refusesSize),
	}
}

// rangeRefusals open one of the ranges to agents that are not on the internet, for each of them.
func rangeRefusals(own string) map[string]refusal {
	found := map[string]refusal{}
	for internet, closed := range map[string][]string{
		"0.0.0.0/0": {
			"0.0.0.0/8", "10.0.0.0/8", "34.118.224.0/20", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16",
			"172.16.0.0/12", "192.0.0.0/24", "192.168.0.0/16", "198.18.0.0/15", "224.0.0.0/4", "240.0.0.0/4",
		},
		"::/0": {"::1/128", "fc00::/7", "fe80::/10", "ff00::/8"},
	} {
		for i, open := range closed {
			rest := slices.Delete(slices.Clone(closed), i, i+1)
			found["requests to "+open] = existing{"networkpolicies", own, "agent"}.add("/spec/egress/1/to/-",
				`{"ipBlock":{"cidr":"`+internet+`","except":["`+strings.Join(rest, `","`)+`"]}}`, refusesEgress)
		}
	}
	return found
}

// objectRefusals are objects that agents do not have, and deletions.
func objectRefusals(own, empty string) map[string]refusal {
	meta := func(kind, name string) string {
		return "kind: " + kind + "\napiVersion: v1\nmetadata: {name: " + name + "}\n"
	}
	claimOf := func(mode, size string) string {
		return meta("PersistentVolumeClaim", "data") +
			"spec: {accessModes: [" + mode + "], resources: {requests: {storage: " + size + "}}, "
	}
	claim := claimOf("ReadWriteOnce", "1Gi")
	volume := func(text, want string) refusal {
		return refusal{createObject("persistentvolumeclaims", empty, text+"}"), want}
	}
	const quota = "spec: {hard: {pods: 2, persistentvolumeclaims: 1, services.loadbalancers: 0, " +
		"services.nodeports: 0, " +
		"requests.cpu: 1, limits.cpu: 1, requests.memory: 1Gi, limits.memory: 1Gi, requests.ephemeral-storage: 1Gi, " +
		"limits.ephemeral-storage: 1Gi, requests.storage: 1Gi}}"
	const closed = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: second}\n" +
		"spec: {podSelector: {}, policyTypes: [Ingress, Egress]}"
	namespace := func(label, want string) refusal {
		a := newAgent()
		return refusal{createObject("namespaces", "", "apiVersion: v1\nkind: Namespace\nmetadata: {name: "+
			a.Namespace()+
			", labels: {agents.example/agent-id: "+a.ID+", "+label+"}}"), want}
	}
	service := func(spec string) refusal {
		return refusal{
			createObject("services", empty, meta("Service", "agent")+"spec: {ports: [{port: 80}], "+spec+"}"),
			refusesService,
		}
	}
	return map[string]refusal{
		"a namespace without a level":   namespace("pod-security.kubernetes.io/enforce-version: v1.35", refusesLevel),
		"a namespace without a version": namespace("pod-security.kubernetes.io/enforce: restricted", refusesVersion),
		"a Deployment": {
			createObject("deployments", own, "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: agent}\nspec: "+
				"{selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, "+
				"spec: {containers: [{name: a, image: a}]}}}"),
			refusesSurroundings,
		},
		"a command in a pod": {execute(own), refusesContainer},
		"an account": {
			createObject("serviceaccounts", own, meta("ServiceAccount", "probe")),
			refusesSurroundings,
		},
		"a role": {
			createObject("roles", own,
				"apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: probe}"),
			refusesSurroundings,
		},
		"a second network policy": {createObject("networkpolicies", own, closed), refusesName},
		"a second quota": {
			createObject("resourcequotas", own, meta("ResourceQuota", "second")+quota),
			refusesName,
		},
		"a second Service": {
			createObject("services", own, meta("Service", "second")+
				"spec: {clusterIP: None, selector: {app.kubernetes.io/name: agent}, ports: [{port: 8080}]}"),
			refusesName,
		},
		"a load balancer":           service("type: LoadBalancer, selector: {app.kubernetes.io/name: agent}"),
		"a port of all nodes":       service("type: NodePort, selector: {app.kubernetes.io/name: agent}"),
		"an address of the cluster": service("selector: {app.kubernetes.io/name: agent}"),
		"another name":              service("type: ExternalName, externalName: a.example"),
		"a quota for some pods": {createObject("resourcequotas", empty, meta("ResourceQuota", "agent")+
			"spec: {scopes: [NotTerminating], hard: {pods: 2}}"), refusesQuota},
		"a foreign ConfigMap": {patch("configmaps", own, "kube-root-ca.crt"), refusesName},
		"a token of an account": {
			createObject("secrets", own,
				"kind: Secret\napiVersion: v1\ntype: kubernetes.io/service-account-token\nmetadata: "+
					"{name: agent-env-0, annotations: {kubernetes.io/service-account.name: default}}"),
			refusesSecret,
		},
		"a copy of a volume":   volume(claim+"dataSource: {kind: PersistentVolumeClaim, name: data}", refusesVolume),
		"a claim of a volume":  volume(claim+"volumeName: other", refusesVolume),
		"a claim that selects": volume(claim+"selector: {matchLabels: {a: b}}", refusesVolume),
		"a claim that takes a volume": {
			edit("persistentvolumeclaims", empty, "data-1", `[{"op":"add","path":"/spec/volumeName","value":"other"}]`),
			refusesVolume,
		},
		"a policy with an owner": {createObject("networkpolicies", empty,
			"apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: agent, ownerReferences: "+
				"[{apiVersion: v1, kind: Secret, name: none, uid: '0'}]}\n"+
				"spec: {podSelector: {}, policyTypes: [Ingress, Egress]}"), refusesOwner},
		"a copy of a snapshot": volume(
			claim+"dataSource: {apiGroup: snapshot.storage.k8s.io, kind: VolumeSnapshot, name: other}", refusesVolume),
		"a large volume":              volume(claimOf("ReadWriteOnce", "64Ti"), refusesSize),
		"a volume of more agents":     volume(claimOf("ReadWriteOnce", "201Gi"), refusesSize),
		"a volume that many write":    volume(claimOf("ReadWriteMany", "1Gi"), refusesClass),
		"a volume of another class":   volume(claim+"storageClassName: other", refusesClass),
		"a volume of a device":        volume(claim+"volumeMode: Block", refusesClass),
		"a volume of more throughput": volume(claim+"volumeAttributesClassName: other", refusesClass),
		"no quota":                    {remove("resourcequotas", own, "agent"), refusesSurroundings},
		"no network policy":           {remove("networkpolicies", own, "agent"), refusesSurroundings},
		"no workload":                 {remove("statefulsets", own, "agent"), refusesSurroundings},
		"no pod":                      {remove("pods", own, "agent-0"), refusesSurroundings},
	}
}

// snapshotRefusals take snapshots of what is not the agent's, and contents that take the data of others along.
func snapshotRefusals(own string) map[string]refusal {
	const version = "apiVersion: snapshot.storage.k8s.io/v1\n"
	taken := func(name, spec, want string) refusal {
		return refusal{createObject("volumesnapshots", own,
			version+"kind: VolumeSnapshot\nmetadata: {name: "+name+"}\nspec: "+spec), want}
	}
	content := func(name, policy, driver, source, namespace, want string) refusal {
		return refusal{createObject("volumesnapshotcontents", "", version+"kind: VolumeSnapshotContent\n"+
			"metadata: {name: "+name+"}\nspec: {deletionPolicy: "+policy+", driver: "+driver+", source: {"+source+
			"}, volumeSnapshotRef: {name: source-0, namespace: "+namespace+"}}"), want}
	}
	const driver, handle, name = "pd.csi.storage.gke.io", "snapshotHandle: h", "-source-0"
	return map[string]refusal{
		"a snapshot of another claim": taken("snapshot-aaaaaaaa",
			"{volumeSnapshotClassName: agents, source: {persistentVolumeClaimName: other}}", refusesSnapshot),
		"a snapshot of another class": taken("snapshot-aaaaaaaa",
			"{volumeSnapshotClassName: other, source: {persistentVolumeClaimName: data}}", refusesSnapshot),
		"a snapshot of another name": taken("mine",
			"{volumeSnapshotClassName: agents, source: {persistentVolumeClaimName: data}}", refusesName),
		"the content of another agent": taken("source-0",
			"{source: {volumeSnapshotContentName: agent-00000000-0000-4000-8000-000000000000-source-0}}",
			refusesSnapshot),
		"a content that takes the data along": content(own+name, "Delete", driver, handle, own, refusesContent),
		"a content of another driver":         content(own+name, "Retain", "other", handle, own, refusesContent),
		"a content of a disk": content(own+name, "Retain", driver, "volumeHandle: h", own,
			refusesContent),
		"a content for another agent": content(own+name, "Retain", driver, handle, "other", refusesContent),
		"a content of another name":   content("other"+name, "Retain", driver, handle, "other", refusesName),
		"an adopted content that takes the data along": content(own+"-snapshot-aaaaaaaa", "Delete", driver, handle, own,
			refusesContent),
	}
}

// unboundClaim has no volume until a pod uses it.
func unboundClaim(namespace string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "PersistentVolumeClaim",
		"metadata": map[string]any{"name": "data-1", "namespace": namespace},
		"spec": map[string]any{
			"accessModes": []any{"ReadWriteOnce"},
			"resources":   map[string]any{"requests": map[string]any{"storage": "1Gi"}},
		},
	}}
}

// TestPolicies_RefuseToEndIsolation attempts what a worker that was taken over could do to agents, with all rights
// that RBAC can give it. Each attempt differs in one point from what the worker writes, which the policies admit.
func TestPolicies_RefuseToEndIsolation(t *testing.T) {
	t.Parallel()
	f, ctx := policyCell(t), t.Context()
	worker := client(t, f.kubeconfigOf(t, unboundReconciler))
	clusters, a, bare := f.clusters(t, unboundReconciler), newAgent(), newAgent()
	a.Env = append(a.Env, agent.EnvVar{Key: "TOKEN", SecretVersion: 1})
	if err := applyAll(ctx, clusters, a); err != nil {
		t.Fatal(err)
	}
	// A claim grows only once it has its volume.
	clustertest.Eventually(t, func(ctx context.Context) error { return clusters.CheckReady(ctx, a) })
	if err := clusters.Apply(ctx, bare, agent.StageNamespace, provisioning.RuntimeInput{}); err != nil {
		t.Fatal(err)
	}
	own, empty := a.Namespace(), bare.Namespace()
	if err := apply(ctx, worker, unboundClaim(empty)); err != nil {
		t.Fatal(err)
	}
	for name, write := range map[string]attempt{
		"workload": patch("statefulsets", own, "agent"), "Service": patch("services", own, "agent"),
		"network policy": patch("networkpolicies", own, "agent"), "quota": patch("resourcequotas", own, "agent"),
		"namespace": patch("namespaces", "", own), "scale": patch("statefulsets", own, "agent", "scale"),
		"claim": createObject("persistentvolumeclaims", empty, "apiVersion: v1\nkind: PersistentVolumeClaim\n"+
			"metadata: {name: data}\nspec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}"),
		"workload that ends slowly": edit("statefulsets", own, "agent",
			`[{"op":"add","path":"/spec/template/spec/terminationGracePeriodSeconds","value":`+
				strconv.Itoa(image.MaxGraceSeconds)+`}]`),
		"Secret": createObject("secrets", own,
			"apiVersion: v1\nkind: Secret\nmetadata: {name: agent-env-0}\ntype: Opaque"),
	} {
		if err := write(ctx, worker); err != nil {
			t.Errorf("%s without a change: %v", name, err)
		}
	}
	groups := []map[string]refusal{
		podRefusals(own), containerRefusals(own), placementRefusals(own), surroundingRefusals(own), rangeRefusals(own),
		objectRefusals(own, empty), snapshotRefusals(own),
	}
	if clustertest.Kind() == cluster.Real { // the embedded API server has neither
		const container = `{"name":"a","image":"a",` +
			`"securityContext":{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]}}}`
		groups = append(groups, map[string]refusal{
			"a program in a pod that runs": {
				edit("pods", own, "agent-0",
					`[{"op":"add","path":"/spec/ephemeralContainers","value":[`+container+`]}]`, "ephemeralcontainers"),
				refusesSurroundings,
			},
			"more throughput of the volume": {edit("persistentvolumeclaims", own, "data",
				`[{"op":"add","path":"/spec/volumeAttributesClassName","value":"other"}]`), refusesClass},
		})
	}
	if err := execute(own)(ctx, client(t, f.kubeconfigOf(t, unboundObserver))); err == nil ||
		!strings.Contains(err.Error(), refusesSurroundings) {
		t.Errorf("a command of a function that runs none: error %v, want it forbidden because of %q", err,
			refusesSurroundings)
	}
	for _, group := range groups {
		for name, r := range group {
			err := r.write(ctx, worker)
			if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), r.want) {
				t.Errorf("%s: error %v, want it forbidden because of %q", name, err, r.want)
			}
		}
	}
}
