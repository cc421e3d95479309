package gke

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/image"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/provisioning"
)

// fieldManager is the name under which the API server remembers which fields are ours.
const fieldManager = "agent-control-plane"

// Labels and annotations.
const (
	labelManagedBy    = "app.kubernetes.io/managed-by" // fieldManager, on everything of ours
	labelName         = "app.kubernetes.io/name"       // agentName, on everything of ours
	labelAgent        = "agents.example/agent-id"
	labelOrganization = dataplane.LabelOrganization
	labelBackup       = "agents.example/backup"      // on namespaces that terraform/backup.tf selects
	annotationConfig  = "agents.example/config-hash" // on pods: what they were started with, see configHash
	// annotationGeneration is the generation of the agent's record that the object was last applied for. The API server
	// refuses a lower one: see terraform/cell/fence.yaml.
	annotationGeneration = "agents.example/generation"
	labelSandbox         = "agents.example/sandbox" // on sandboxed pods, whose fronts serve metrics
	// annotationSafeToEvict makes GKE leave a pod on its node for up to seven days. See minProtectedCPU.
	annotationSafeToEvict = "cluster-autoscaler.kubernetes.io/safe-to-evict"
)

// agentName is the name of the objects of which a namespace has one.
const agentName = "agent"

// object is a Kubernetes object as this package writes it.
type object interface {
	runtime.Object
	metav1.Object
}

// blueprint is everything that the objects of an agent follow from.
type blueprint struct {
	agent    agent.Agent
	config   string // configHash of the agent
	plan     plan.Plan
	settings Settings
	// image is what the agent's container runs, with the platform's defaults, and frontImage what its front runs.
	image, frontImage image.Choice
	input             provisioning.RuntimeInput
	// cloning is true while the agent's volume is made from a snapshot of another agent.
	cloning bool
}

// blueprint gathers what the objects of an agent follow from. Errors: Unavailable for a plan that does not exist: a
// later release may know it, and goes on with the agent.
func (c *Clusters) blueprint(a agent.Agent, input provisioning.RuntimeInput) (blueprint, error) {
	p, err := plan.Get(a.Plan)
	if err != nil {
		return blueprint{}, fault.New(fault.Unavailable, "plan_unknown",
			"The agent's plan %q does not exist. Contact support.", a.Plan).WithCause(err)
	}
	b := blueprint{
		agent: a, config: configHash(a), plan: p, settings: c.settings, input: input,
		image: a.Image.Choice, frontImage: a.Front.Choice,
	}
	builtIn := image.Set{BuiltIn: c.settings.Images}
	if b.image.Reference == "" {
		b.image, _ = builtIn.Current(image.DefaultID, a.Cell)
	}
	if b.frontImage.Reference == "" {
		b.frontImage, _ = builtIn.Current(image.FrontID, a.Cell)
	}
	b.image.Port = cmp.Or(b.image.Port, dataplane.DefaultAgentPort)
	b.image.Auth = cmp.Or(b.image.Auth, dataplane.AuthFront)
	b.image.DataPath = cmp.Or(b.image.DataPath, dataplane.DefaultDataPath)
	b.image.Home = cmp.Or(b.image.Home, b.image.DataPath)
	b.image.GraceSeconds = cmp.Or(b.image.GraceSeconds, image.DefaultGraceSeconds)
	return b, nil
}

// objects lists the objects of a stage in the order in which they are applied: a pod finds what it refers to. A stage
// that is only waited for has none. The error says that the input lacks a value that the record names; applying would
// remove it from the agent.
func (b blueprint) objects(stage agent.StageName) ([]object, error) {
	switch stage {
	case agent.StageNamespace:
		return []object{b.namespace()}, nil
	case agent.StagePolicy:
		return []object{b.quota(), b.networkPolicy()}, nil
	case agent.StageIdentity:
		if hasSecrets(b.agent) {
			return nil, nil // the environment waits for the values of its secrets, in the next stage
		}
		return b.environment()
	case agent.StageSecrets:
		return b.environment()
	case agent.StageStorage:
		return append(b.foreignSource(), b.volumeClaim()), nil
	case agent.StageRuntime:
		return []object{b.statefulSet()}, nil
	case agent.StageRoute:
		return []object{b.service()}, nil
	case agent.StageReady:
		return nil, nil
	default:
		return nil, fault.New(fault.Internal, "internal_error", "The provisioning stage %q does not exist.", stage)
	}
}

// labels are those of every object.
func (b blueprint) labels() map[string]string {
	return map[string]string{labelManagedBy: fieldManager, labelName: agentName, labelAgent: b.agent.ID}
}

// podLabels are those by which the agent's pod is found. A StatefulSet's can't change, so there are no more than must
// be.
func podLabels() map[string]string { return map[string]string{labelName: agentName} }

// named is the metadata of an object in the agent's namespace.
func (b blueprint) named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: b.agent.Namespace(), Labels: b.labels()}
}

// versioned is the metadata of an object whose content follows from the generation of the agent's record.
func (b blueprint) versioned(name string) metav1.ObjectMeta {
	meta := b.named(name)
	meta.Annotations = map[string]string{annotationGeneration: strconv.FormatInt(b.agent.Generation, 10)}
	return meta
}

// wayOut is the metadata of an object that restricts what an agent may reach. The API server refuses to widen it by an
// older state. That of an agent that was never restricted is the same in all generations, and so needs no write.
func (b blueprint) wayOut(name string) metav1.ObjectMeta {
	if b.agent.Egress.Mode == "" {
		return b.named(name)
	}
	return b.versioned(name)
}

func typed(apiVersion, kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: apiVersion, Kind: kind}
}

func targetOf(o object) target {
	return target{gvk: o.GetObjectKind().GroupVersionKind(), namespace: o.GetNamespace(), name: o.GetName()}
}

// encode writes an object as it is applied, with the hash of its content.
func encode(o object) ([]byte, error) {
	fields, err := applyConfiguration(o)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", targetOf(o), err)
	}
	if hasContentHash(targetOf(o).gvk.Kind) {
		desired, err := desiredFields(o)
		if err == nil {
			err = unstructured.SetNestedField(fields, contentHash(desired),
				"metadata", "annotations", annotationContent)
		}
		if err != nil {
			return nil, fmt.Errorf("encode %s: %w", targetOf(o), err)
		}
	}
	return json.Marshal(fields)
}

// dropEmpty removes nulls, and structures of which nothing is set. No object of ours means anything by an empty
// structure: a selector of everything is what an absent one means, too.
func dropEmpty(fields map[string]any) {
	for key, value := range fields {
		switch value := value.(type) {
		case nil:
			delete(fields, key)
		case map[string]any:
			if dropEmpty(value); len(value) == 0 {
				delete(fields, key)
			}
		case []any:
			for _, item := range value {
				if item, ok := item.(map[string]any); ok {
					dropEmpty(item)
				}
			}
		}
	}
}
