// Package cell renders the Kubernetes objects that every cluster has before any agent, as Terraform does. Tests and the
// local cloud apply them to real API servers. It does not apply them itself.
package cell

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/plan"
)

//go:embed *.yaml
var templates embed.FS

// Files lists the templates in the order of cell.tf: the namespace comes first.
func Files() []string {
	return []string{
		"gateway.yaml", "router.yaml", "notifier.yaml", "gate.yaml", "network.yaml", "warm.yaml", "canary.yaml",
		"access.yaml", "snapshots.yaml", "guard.yaml", "isolation.yaml", "limits.yaml", "pods.yaml", "workload.yaml",
		"reader.yaml", "fence.yaml", "metrics.yaml",
	}
}

// Names of the Gateway and its namespace, as in agents_edge.tf.
const (
	GatewayNamespace = "agent-gateway"
	GatewayName      = "agents"
)

// The canary of every cell, as in uptime.tf. In its hostname, the cell's domain follows the label.
const (
	CanaryNamespace = "agent-00000000-0000-0000-0000-000000000000"
	CanarySlug      = "canary"
	CanaryLabel     = "canary-aaaaaaaaaaaaaaaaaaaaaaaaaa"
)

// Values fill the templates. Terraform derives them from its variables.
type Values struct {
	// Domain is the cell's part of hostnames, such as us-central1-1.agents.example.net.
	Domain string
	// Image is the control plane's image, AgentImage that of agents; if empty, agents run the control plane's.
	Image, AgentImage string
	// AgentAuth says who checks the credentials of requests to agents; if empty, the front.
	AgentAuth string
	// Registries are the beginnings of references that custom images may have.
	Registries []string
	// Resolvers are ranges of name servers in addition to those of a GKE Autopilot cluster.
	Resolvers []string
	// GateAddress is the address of the gate's Service; if empty, dataplane.GateAddress.
	GateAddress string
	// StorageClass is the class of agents' volumes; if empty, that of a GKE Autopilot cluster.
	StorageClass string
	// SnapshotLocation is where snapshots of volumes are kept; if empty, the driver decides.
	SnapshotLocation string
	// Callers are the users that call the API server, by the need of their functions, such as cluster_apply.
	Callers map[string][]string
	// Project and NudgeTopic are where the notifier publishes, and Environment is whose notifier it is.
	Project, NudgeTopic, Environment string
	// EgressTopic is where the gate publishes, and GateSecret the version of the secret from which agents' CAs follow.
	EgressTopic, GateSecret string
	// WarmAgents is the number of placeholders for each runtime class, WarmMillicores and WarmMiB the size of one.
	WarmAgents, WarmMillicores, WarmMiB int64
	// Address, CertificateMap, SSLPolicy and SecurityPolicy are names of Google's resources.
	Address, CertificateMap, SSLPolicy, SecurityPolicy string
}

// NotifierAccount is the name of the notifier's ServiceAccount in an environment, as in cell.tf.
func NotifierAccount(environment string) string { return "agent-notifier-" + environment }

// GateAccount is the name of the gate's ServiceAccount in an environment, as in cell.tf.
func GateAccount(environment string) string { return dataplane.GateName + "-" + environment }

// Objects renders all objects.
func Objects(v Values) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for _, name := range Files() {
		found, err := render(name, v)
		if err != nil {
			return nil, err
		}
		objects = append(objects, found...)
	}
	return objects, nil
}

func render(name string, v Values) ([]*unstructured.Unstructured, error) {
	b, err := templates.ReadFile(name)
	if err != nil {
		return nil, err
	}
	text, err := renderText(name, string(b), v.context())
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	for d := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096); ; {
		o := &unstructured.Unstructured{}
		if err := d.Decode(&o.Object); errors.Is(err, io.EOF) {
			return objects, nil
		} else if err != nil {
			return nil, fmt.Errorf("decode %s: %w", name, err)
		}
		objects = append(objects, o)
	}
}

// context holds the names that the templates use. A template sees no others, so a name that cell.tf does not pass fails
// here, too.
func (v Values) context() map[string]any {
	callers := map[string][]string{}
	for _, need := range []string{
		"cluster_apply", "cluster_look", "cluster_collect", "pod_logs", "pod_exec", "pod_quiesce", "log_keep",
	} {
		callers[need] = append([]string{}, v.Callers[need]...) // JSON has a nil list as null
	}
	var cpu, memory, storage int64
	for _, p := range plan.All() {
		cpu, memory, storage = max(cpu, p.CPULimitMillicores), max(memory, p.MemoryLimitMiB), max(storage, p.StorageGiB)
	}
	agentImage := cmp.Or(v.AgentImage, v.Image)
	images := []string{v.Image, agentImage}
	if agentImage == v.Image {
		images = images[:1]
	}
	return map[string]any{
		"gateway":     map[string]any{"namespace": GatewayNamespace, "name": GatewayName},
		"canary":      map[string]any{"namespace": CanaryNamespace, "slug": CanarySlug, "label": CanaryLabel},
		"cell_domain": v.Domain, "address": v.Address, "certificate_map": v.CertificateMap, "callers": callers,
		"ssl_policy": v.SSLPolicy, "security_policy": v.SecurityPolicy, "project": v.Project,
		"nudge_topic": v.NudgeTopic, "image": v.Image, "images": images,
		"notifier_account": NotifierAccount(v.Environment),
		"gate_account":     GateAccount(v.Environment), "egress_topic": v.EgressTopic, "gate_secret": v.GateSecret,
		"environment":      v.Environment,
		"agent_auth":       cmp.Or(v.AgentAuth, dataplane.AuthFront),
		"agent_registries": append([]string{}, v.Registries...),
		"agent_resolvers":  append([]string{}, v.Resolvers...),
		"gate_address":     cmp.Or(v.GateAddress, dataplane.GateAddress),
		"storage_class":    cmp.Or(v.StorageClass, "standard-rwo"),
		"quota": map[string]any{
			"cpu": 3 * (cpu + 1000), "memory": 3 * (memory + 1024), "storage": 3 * storage,
		},
		"largest_volume":    storage,
		"snapshot_location": v.SnapshotLocation,
		"warm": map[string]any{
			"agents": v.WarmAgents, "image": agentImage, "cpu": v.WarmMillicores, "memory": v.WarmMiB,
		},
	}
}
