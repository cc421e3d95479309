package apiserver

import (
	"encoding/json"
	"net/http"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"agents.example/controlplane/emulators/kubernetesemu/kinds"
	"agents.example/controlplane/emulators/kubernetesemu/registry"
	"agents.example/controlplane/emulators/kubernetesemu/store"
)

// replicasOf returns where a workload says how many pods it wants, how many it has, and which.
func replicasOf(o runtime.Object) (wanted **int32, has int32, selector *metav1.LabelSelector) {
	switch o := o.(type) {
	case *appsv1.StatefulSet:
		return &o.Spec.Replicas, o.Status.Replicas, o.Spec.Selector
	case *appsv1.Deployment:
		return &o.Spec.Replicas, o.Status.Replicas, o.Spec.Selector
	case *appsv1.ReplicaSet:
		return &o.Spec.Replicas, o.Status.Replicas, o.Spec.Selector
	}
	none := new(int32)
	return &none, 0, nil
}

// scaleOf returns the subresource scale of a workload.
func scaleOf(o runtime.Object) *autoscalingv1.Scale {
	wanted, has, selector := replicasOf(o)
	m := store.Meta(o)
	s := &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{
			Name: m.GetName(), Namespace: m.GetNamespace(), UID: m.GetUID(), ResourceVersion: m.GetResourceVersion(),
			CreationTimestamp: m.GetCreationTimestamp(),
		},
		Status: autoscalingv1.ScaleStatus{Replicas: has, Selector: metav1.FormatLabelSelector(selector)},
	}
	s.SetGroupVersionKind(autoscalingv1.SchemeGroupVersion.WithKind("Scale"))
	if *wanted != nil {
		s.Spec.Replicas = **wanted
	}
	return s
}

// rescale changes the replicas of a workload to those of a scale.
func rescale(live runtime.Object, s *autoscalingv1.Scale) (runtime.Object, error) {
	m := store.Meta(live)
	if s.ResourceVersion != "" {
		m.SetResourceVersion(s.ResourceVersion)
	}
	wanted, _, _ := replicasOf(live)
	*wanted = &s.Spec.Replicas
	return live, nil
}

func (s *Server) updateScale(c *call) error {
	wanted := scaleOf(c.target.kind.New())
	q, _, err := s.readObject(c, wanted)
	if err != nil {
		return err
	}
	o, err := s.registry.Update(q, func(live runtime.Object) (runtime.Object, error) { return rescale(live, wanted) })
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, scaleOf(o))
}

func (s *Server) patchScale(c *call, q registry.Request, kind types.PatchType, body []byte) error {
	o, err := s.registry.Update(q, func(live runtime.Object) (runtime.Object, error) {
		text, err := registry.Patched(kind, scaleOf(live), body)
		if err != nil {
			return nil, err
		}
		var wanted autoscalingv1.Scale
		if err := json.Unmarshal(text, &wanted); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		return rescale(live, &wanted)
	})
	switch {
	case err != nil:
		return err
	case c.accept.as != "": // the client asks for the metadata of the workload
		return c.answer(http.StatusOK, o)
	}
	return c.answer(http.StatusOK, scaleOf(o))
}

// scaledFields returns the fields of a workload that the applied fields of its scale set.
func scaledFields(k *kinds.Kind, scale map[string]any) (map[string]any, error) {
	u := unstructured.Unstructured{Object: scale}
	if u.GroupVersionKind() != autoscalingv1.SchemeGroupVersion.WithKind("Scale") {
		return nil, apierrors.NewBadRequest("the object is no autoscaling/v1 Scale")
	}
	fields := map[string]any{"apiVersion": k.GroupVersion().String(), "kind": k.Kind}
	if m, ok := scale["metadata"]; ok {
		fields["metadata"] = m
	}
	if replicas, ok, _ := unstructured.NestedFieldNoCopy(scale, "spec", "replicas"); ok {
		fields["spec"] = map[string]any{"replicas": replicas}
	}
	return fields, nil
}
