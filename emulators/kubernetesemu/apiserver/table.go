package apiserver

import (
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"agents.example/controlplane/emulators/kubernetesemu/store"
)

// column is a column of the table that kubectl prints of objects.
type column struct {
	name string
	wide bool // only with -o wide
	cell func(runtime.Object) any
}

// tableOf returns objects as a table.
func tableOf(o runtime.Object) runtime.Object {
	items, list := []runtime.Object{o}, metav1.ListMeta{}
	if meta.IsListType(o) {
		items, _ = meta.ExtractList(o) // a list of the catalog has items
		if l, err := meta.ListAccessor(o); err == nil {
			list = metav1.ListMeta{
				ResourceVersion: l.GetResourceVersion(), Continue: l.GetContinue(),
				RemainingItemCount: l.GetRemainingItemCount(),
			}
		}
	} else if m, err := meta.Accessor(o); err == nil {
		list.ResourceVersion = m.GetResourceVersion()
	} else {
		return o
	}
	t := &metav1.Table{ListMeta: list, Rows: []metav1.TableRow{}}
	t.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("Table"))
	columns := columnsOf(o)
	for _, c := range columns {
		definition := metav1.TableColumnDefinition{Name: c.name, Type: "string"}
		if c.name == "Name" {
			definition.Format = "name"
		}
		if c.wide {
			definition.Priority = 1
		}
		t.ColumnDefinitions = append(t.ColumnDefinitions, definition)
	}
	for _, item := range items {
		row := metav1.TableRow{}
		for _, c := range columns {
			row.Cells = append(row.Cells, c.cell(item))
		}
		partial := meta.AsPartialObjectMetadata(store.Meta(item))
		partial.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata"))
		row.Object = runtime.RawExtension{Object: partial}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// show returns a column about objects of one type.
func show[T runtime.Object](name string, cell func(T) any) column {
	return column{name: name, cell: func(o runtime.Object) any {
		if typed, ok := o.(T); ok {
			return cell(typed)
		}
		return ""
	}}
}

func wide(c column) column {
	c.wide = true
	return c
}

func columnsOf(o runtime.Object) []column {
	name := column{name: "Name", cell: func(o runtime.Object) any { return store.Meta(o).GetName() }}
	age := column{name: "Age", cell: func(o runtime.Object) any { return since(store.Meta(o).GetCreationTimestamp()) }}
	var own []column
	switch o.(type) {
	case *corev1.Event, *corev1.EventList:
		return eventColumns()
	case *corev1.Pod, *corev1.PodList:
		return podColumns(name, age)
	case *appsv1.StatefulSet, *appsv1.StatefulSetList:
		return append([]column{
			name, show("Ready", func(o *appsv1.StatefulSet) any { return ratio(o.Status.ReadyReplicas, o.Spec.Replicas) }), age,
		}, templateColumns(func(o *appsv1.StatefulSet) []corev1.Container { return o.Spec.Template.Spec.Containers })...)
	case *appsv1.Deployment, *appsv1.DeploymentList:
		own = []column{
			show("Ready", func(o *appsv1.Deployment) any { return ratio(o.Status.ReadyReplicas, o.Spec.Replicas) }),
			show("Up-to-date", func(o *appsv1.Deployment) any { return fmt.Sprint(o.Status.UpdatedReplicas) }),
			show("Available", func(o *appsv1.Deployment) any { return fmt.Sprint(o.Status.AvailableReplicas) }),
		}
	case *corev1.Namespace, *corev1.NamespaceList:
		own = []column{show("Status", func(o *corev1.Namespace) any { return string(o.Status.Phase) })}
	case *corev1.Node, *corev1.NodeList:
		own = []column{
			show("Status", func(o *corev1.Node) any { return nodeStatus(o) }),
			show("Version", func(o *corev1.Node) any { return o.Status.NodeInfo.KubeletVersion }),
		}
	case *corev1.Service, *corev1.ServiceList:
		return serviceColumns(name, age)
	case *corev1.PersistentVolumeClaim, *corev1.PersistentVolumeClaimList:
		own = claimColumns()
	case *corev1.ConfigMap, *corev1.ConfigMapList:
		own = []column{show("Data", func(o *corev1.ConfigMap) any { return int64(len(o.Data) + len(o.BinaryData)) })}
	case *corev1.Secret, *corev1.SecretList:
		own = []column{
			show("Type", func(o *corev1.Secret) any { return string(o.Type) }),
			show("Data", func(o *corev1.Secret) any { return int64(len(o.Data)) }),
		}
	}
	return append(append([]column{name}, own...), age)
}

func podColumns(name, age column) []column {
	return []column{
		name,
		show("Ready", func(o *corev1.Pod) any { return podReady(o) }),
		show("Status", func(o *corev1.Pod) any { return podStatus(o) }),
		show("Restarts", func(o *corev1.Pod) any { return fmt.Sprint(podRestarts(o)) }),
		age,
		wide(show("IP", func(o *corev1.Pod) any { return orNone(o.Status.PodIP) })),
		wide(show("Node", func(o *corev1.Pod) any { return orNone(o.Spec.NodeName) })),
		wide(show("Nominated Node", func(o *corev1.Pod) any { return orNone(o.Status.NominatedNodeName) })),
		wide(show("Readiness Gates", func(*corev1.Pod) any { return orNone("") })),
	}
}

// templateColumns name the containers of a workload and their images.
func templateColumns[T runtime.Object](of func(T) []corev1.Container) []column {
	each := func(field func(*corev1.Container) string) func(T) any {
		return func(o T) any {
			var texts []string
			for _, c := range of(o) {
				texts = append(texts, field(&c))
			}
			return strings.Join(texts, ",")
		}
	}
	return []column{
		wide(show("Containers", each(func(c *corev1.Container) string { return c.Name }))),
		wide(show("Images", each(func(c *corev1.Container) string { return c.Image }))),
	}
}

// podReady counts the containers and sidecars that are ready.
func podReady(o *corev1.Pod) string {
	ready, all := 0, len(o.Spec.Containers)
	for i := range o.Spec.InitContainers {
		if p := o.Spec.InitContainers[i].RestartPolicy; p != nil && *p == corev1.ContainerRestartPolicyAlways {
			all++
		}
	}
	for _, c := range o.Status.ContainerStatuses {
		if c.Ready {
			ready++
		}
	}
	for _, c := range o.Status.InitContainerStatuses {
		if c.Ready && c.State.Running != nil {
			ready++
		}
	}
	return fmt.Sprintf("%d/%d", ready, all)
}

// podStatus returns why a pod does not run, or its phase.
func podStatus(o *corev1.Pod) string {
	if o.DeletionTimestamp != nil {
		return "Terminating"
	}
	for _, c := range o.Status.ContainerStatuses {
		switch {
		case c.State.Waiting != nil && c.State.Waiting.Reason != "":
			return c.State.Waiting.Reason
		case c.State.Terminated != nil && c.State.Terminated.Reason != "":
			return c.State.Terminated.Reason
		}
	}
	return string(o.Status.Phase)
}

func podRestarts(o *corev1.Pod) (restarts int32) {
	for _, c := range o.Status.ContainerStatuses {
		restarts += c.RestartCount
	}
	return restarts
}

func nodeStatus(o *corev1.Node) string {
	for _, c := range o.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			return "Ready"
		}
	}
	return "NotReady"
}

func serviceColumns(name, age column) []column {
	return []column{
		name,
		show("Type", func(o *corev1.Service) any { return string(o.Spec.Type) }),
		show("Cluster-IP", func(o *corev1.Service) any { return orNone(o.Spec.ClusterIP) }),
		show("External-IP", func(o *corev1.Service) any { return orNone(strings.Join(o.Spec.ExternalIPs, ",")) }),
		show("Port(s)", func(o *corev1.Service) any {
			var ports []string
			for _, p := range o.Spec.Ports {
				ports = append(ports, fmt.Sprintf("%d/%s", p.Port, p.Protocol))
			}
			return orNone(strings.Join(ports, ","))
		}),
		age,
		wide(show("Selector", func(o *corev1.Service) any { return orNone(labels.FormatLabels(o.Spec.Selector)) })),
	}
}

func claimColumns() []column {
	return []column{
		show("Status", func(o *corev1.PersistentVolumeClaim) any { return string(o.Status.Phase) }),
		show("Volume", func(o *corev1.PersistentVolumeClaim) any { return o.Spec.VolumeName }),
		show("Capacity", func(o *corev1.PersistentVolumeClaim) any { return o.Status.Capacity.Storage().String() }),
		show("StorageClass", func(o *corev1.PersistentVolumeClaim) any {
			if o.Spec.StorageClassName == nil {
				return ""
			}
			return *o.Spec.StorageClassName
		}),
	}
}

func eventColumns() []column {
	return []column{
		show("Last Seen", func(o *corev1.Event) any { return since(o.LastTimestamp) }),
		show("Type", func(o *corev1.Event) any { return o.Type }),
		show("Reason", func(o *corev1.Event) any { return o.Reason }),
		show("Object", func(o *corev1.Event) any {
			return strings.ToLower(o.InvolvedObject.Kind) + "/" + o.InvolvedObject.Name
		}),
		show("Message", func(o *corev1.Event) any { return strings.TrimSpace(o.Message) }),
	}
}

func ratio(has int32, wanted *int32) string {
	if wanted == nil {
		return fmt.Sprintf("%d/1", has)
	}
	return fmt.Sprintf("%d/%d", has, *wanted)
}

func orNone(text string) string {
	if text == "" {
		return "<none>"
	}
	return text
}

func since(t metav1.Time) string {
	if t.IsZero() {
		return "<unknown>"
	}
	return time.Since(t.Time).Truncate(time.Second).String()
}
