//go:build unix

package terraform_test

import (
	"context"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
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
	refusesSelector     = "select the agent's pod"
	refusesPolicy       = "both directions"
	refusesIngress      = "Only the router"
	refusesEgress       = "name servers and the internet"
	refusesQuota        = "quota must bound"
	refusesVolume       = "volume must be new"
	refusesSecret       = "must be opaque"
	refusesScale        = "stops agents"
	refusesImage        = "no deployment with the images"
	refusesPrivileges   = "unprivileged"
	refusesNode         = "namespaces of their own"
	refusesProcesses    = "processes of the front"
	refusesAccount      = "no ServiceAccount"
	refusesVolumes      = "no volumes but"
	refusesPriority     = "neither a node nor a priority"
	refusesReplicas     = "one pod at most"
)

// podRefusals are changes of an agent's workload.
func podRefusals(own string) map[string]refusal {
	const pod, container = "/spec/template/spec", "/spec/template/spec/containers/0"
	set := func(path, value, want string) refusal {
		return refusal{edit("statefulsets", own, "agent", `[{"op":"add","path":"`+path+`","value":`+value+`}]`), want}
	}
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
		"a token by default": {
			edit("statefulsets", own, "agent", `[{"op":"remove","path":"`+pod+`/automountServiceAccountToken"}]`),
			refusesAccount,
		},
		"another account":    set(pod+"/serviceAccountName", `"other"`, refusesAccount),
		"a path of the node": set(pod+"/volumes/-", `{"name":"more","hostPath":{"path":"/"}}`, refusesVolumes),
		"a projected token": set(pod+"/volumes/-",
			`{"name":"more","projected":{"sources":[{"serviceAccountToken":{"path":"token"}}]}}`, refusesVolumes),
		"another claim": set(pod+"/volumes/-",
			`{"name":"more","persistentVolumeClaim":{"claimName":"other"}}`, refusesVolumes),
		"a node":                  set(pod+"/nodeName", `"node-1"`, refusesPriority),
		"the routers' priority":   set(pod+"/priorityClassName", `"agent-router"`, refusesPriority),
		"an unsafe runtime class": set(pod+"/runtimeClassName", `"other"`, refusesPriority),
		"two pods":                set("/spec/replicas", "2", refusesReplicas),
		"two pods by scaling": {
			edit("statefulsets", own, "agent", `[{"op":"replace","path":"/spec/replicas","value":2}]`, "scale"),
			refusesScale,
		},
	}
}

// surroundingRefusals are changes of an agent's namespace and of the objects in it.
func surroundingRefusals(own string) map[string]refusal {
	set := func(resource, name, path, value, want string) refusal {
		namespace := own
		if resource == "namespaces" {
			namespace = ""
		}
		return refusal{edit(resource, namespace, name, `[{"op":"add","path":"`+path+`","value":`+value+`}]`), want}
	}
	label := func(name, value, want string) refusal {
		return set("namespaces", own, "/metadata/labels/"+strings.ReplaceAll(name, "/", "~1"), value, want)
	}
	drop := func(resource, namespace, name, path, want string) refusal {
		return refusal{edit(resource, namespace, name, `[{"op":"remove","path":"`+path+`"}]`), want}
	}
	const level = "pod-security.kubernetes.io/enforce"
	internet := `{"ipBlock":{"cidr":"0.0.0.0/0"}}`
	return map[string]refusal{
		"a lower level":    label(level, `"baseline"`, refusesLevel),
		"an older level":   label(level+"-version", `"v1.34"`, refusesVersion),
		"the latest level": label(level+"-version", `"latest"`, refusesVersion),
		"no level": drop("namespaces", "", own, "/metadata/labels/pod-security.kubernetes.io~1enforce",
			refusesLevel),
		"no version": drop("namespaces", "", own,
			"/metadata/labels/pod-security.kubernetes.io~1enforce-version", refusesVersion),
		"no labels":          drop("namespaces", "", own, "/metadata/labels", refusesLevel),
		"another agent's ID": label("agents.example/agent-id", `"`+newAgent().ID+`"`, refusesID),

		"an external address": set("services", "agent", "/spec/externalIPs", `["203.0.113.1"]`, refusesService),
		"no selector":         drop("services", own, "agent", "/spec/selector", refusesSelector),
		"another selector":    set("services", "agent", "/spec/selector/app", `"other"`, refusesSelector),

		"a policy for some pods": set("networkpolicies", "agent", "/spec/podSelector",
			`{"matchLabels":{"a":"b"}}`, refusesPolicy),
		"a policy for some names": set("networkpolicies", "agent", "/spec/podSelector",
			`{"matchExpressions":[{"key":"a","operator":"Exists"}]}`, refusesPolicy),
		"a policy for one direction": set("networkpolicies", "agent", "/spec/policyTypes", `["Ingress"]`,
			refusesPolicy),
		"requests from anywhere": set("networkpolicies", "agent", "/spec/ingress/-", `{}`, refusesIngress),
		"requests to the agent's port": set("networkpolicies", "agent", "/spec/ingress/0/ports/0/port", "3000",
			refusesIngress),
		"requests to more ports": set("networkpolicies", "agent", "/spec/ingress/0/ports/0/endPort", "9000",
			refusesIngress),
		"requests from another agent": set("networkpolicies", "agent", "/spec/ingress/0/from/-",
			`{"namespaceSelector":{"matchLabels":{"app.kubernetes.io/name":"agent"}}}`, refusesIngress),
		"requests from another namespace": set("networkpolicies", "agent",
			"/spec/ingress/0/from/0/namespaceSelector/matchExpressions/0/values/-", `"default"`, refusesIngress),
		"requests from an address": set("networkpolicies", "agent", "/spec/ingress/0/from/-", internet,
			refusesIngress),
		"requests to anywhere": set("networkpolicies", "agent", "/spec/egress/-", `{}`, refusesEgress),
		"requests to the metadata server": set("networkpolicies", "agent", "/spec/egress/1/to/-",
			`{"ipBlock":{"cidr":"169.254.169.254/32"}}`, refusesEgress),
		"requests to private addresses": set("networkpolicies", "agent", "/spec/egress/1/to/-", internet,
			refusesEgress),
		"requests to another namespace": set("networkpolicies", "agent", "/spec/egress/0/to/-",
			`{"namespaceSelector":{}}`, refusesEgress),
		"requests to more ports of a name server": set("networkpolicies", "agent", "/spec/egress/0/ports/-",
			`{"port":22,"protocol":"TCP"}`, refusesEgress),

		"a node port in the quota": set("resourcequotas", "agent", "/spec/hard/services.nodeports", `"1"`,
			refusesQuota),
		"more pods in the quota": set("resourcequotas", "agent", "/spec/hard/pods", `"20"`, refusesQuota),
		"a quota without memory": drop("resourcequotas", own, "agent", "/spec/hard/limits.memory", refusesQuota),
		"a quota without pods":   drop("resourcequotas", own, "agent", "/spec/hard/pods", refusesQuota),
	}
}

// rangeRefusals open one of the ranges to agents that are not on the internet, for each of them.
func rangeRefusals(own string) map[string]refusal {
	found := map[string]refusal{}
	for internet, closed := range map[string][]string{
		"0.0.0.0/0": {
			"0.0.0.0/8", "10.0.0.0/8", "34.118.224.0/20", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16",
			"172.16.0.0/12", "192.168.0.0/16", "198.18.0.0/15", "240.0.0.0/4",
		},
		"::/0": {"::1/128", "fc00::/7", "fe80::/10"},
	} {
		for i, open := range closed {
			rest := slices.Delete(slices.Clone(closed), i, i+1)
			found["requests to "+open] = refusal{edit("networkpolicies", own, "agent",
				`[{"op":"add","path":"/spec/egress/1/to/-","value":{"ipBlock":{"cidr":"`+internet+
					`","except":["`+strings.Join(rest, `","`)+`"]}}}]`), refusesEgress}
		}
	}
	return found
}
