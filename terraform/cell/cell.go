// Package cell renders the Kubernetes objects that every cluster has before any agent, as Terraform does. Tests and the
// local cloud apply them to real API servers. It does not apply them itself.
package cell

import (
	"bytes"
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

//go:embed *.yaml
var templates embed.FS

// Files lists the templates in the order of cell.tf: the namespace comes first.
func Files() []string {
	return []string{
		"gateway.yaml", "router.yaml", "notifier.yaml", "network.yaml", "warm.yaml", "canary.yaml", "access.yaml",
		"guard.yaml", "isolation.yaml", "workload.yaml", "fence.yaml", "metrics.yaml",
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
	// Callers are the users that call the API server, by the need of their functions, such as cluster_apply.
	Callers map[string][]string
	// Project and NudgeTopic are where the notifier publishes, and Environment is whose notifier it is.
	Project, NudgeTopic, Environment string
	// WarmAgents is the number of placeholders for each runtime class, WarmMillicores and WarmMiB the size of one.
	WarmAgents, WarmMillicores, WarmMiB int64
	// Address, CertificateMap, SSLPolicy and SecurityPolicy are names of Google's resources.
	Address, CertificateMap, SSLPolicy, SecurityPolicy string
}

// NotifierAccount is the name of the notifier's ServiceAccount in an environment, as in cell.tf.
func NotifierAccount(environment string) string { return "agent-notifier-" + environment }

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
	template, diags := hclsyntax.ParseTemplate(b, name, hcl.InitialPos)
	if diags.HasErrors() {
		return nil, fmt.Errorf("parse %s: %w", name, diags)
	}
	text, diags := template.Value(v.context())
	if diags.HasErrors() {
		return nil, fmt.Errorf("render %s: %w", name, diags)
	}
	var objects []*unstructured.Unstructured
	for d := yaml.NewYAMLOrJSONDecoder(bytes.NewBufferString(text.AsString()), 4096); ; {
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
func (v Values) context() *hcl.EvalContext {
	callers := map[string]cty.Value{}
	for _, need := range []string{"cluster_apply", "cluster_look", "cluster_collect", "pod_logs"} {
		users := []cty.Value{}
		for _, user := range v.Callers[need] {
			users = append(users, cty.StringVal(user))
		}
		callers[need] = cty.TupleVal(users)
	}
	agentImage := cmp.Or(v.AgentImage, v.Image)
	images := []cty.Value{cty.StringVal(v.Image), cty.StringVal(agentImage)}
	if agentImage == v.Image {
		images = images[:1]
	}
	return &hcl.EvalContext{
		Functions: map[string]function.Function{
			"distinct": stdlib.DistinctFunc, "flatten": stdlib.FlattenFunc, "join": stdlib.JoinFunc,
			"jsonencode": stdlib.JSONEncodeFunc, "values": stdlib.ValuesFunc,
		},
		Variables: map[string]cty.Value{
			"gateway": cty.ObjectVal(map[string]cty.Value{
				"namespace": cty.StringVal(GatewayNamespace), "name": cty.StringVal(GatewayName),
			}),
			"canary": cty.ObjectVal(map[string]cty.Value{
				"namespace": cty.StringVal(CanaryNamespace), "slug": cty.StringVal(CanarySlug),
				"label": cty.StringVal(CanaryLabel),
			}),
			"cell_domain": cty.StringVal(v.Domain), "address": cty.StringVal(v.Address),
			"certificate_map": cty.StringVal(v.CertificateMap), "callers": cty.ObjectVal(callers),
			"ssl_policy": cty.StringVal(v.SSLPolicy), "security_policy": cty.StringVal(v.SecurityPolicy),
			"project": cty.StringVal(v.Project), "nudge_topic": cty.StringVal(v.NudgeTopic),
			"image": cty.StringVal(v.Image), "images": cty.ListVal(images),
			"notifier_account": cty.StringVal(NotifierAccount(v.Environment)),
			"warm": cty.ObjectVal(map[string]cty.Value{
				"agents": cty.NumberIntVal(v.WarmAgents), "image": cty.StringVal(agentImage),
				"cpu": cty.NumberIntVal(v.WarmMillicores), "memory": cty.NumberIntVal(v.WarmMiB),
			}),
		},
	}
}
