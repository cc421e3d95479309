package controllers

import (
	"encoding/json"
	"hash/fnv"
	"maps"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
)

// newPod returns a pod of a template.
func newPod(template *corev1.PodTemplateSpec, owner *metav1.OwnerReference) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Labels: maps.Clone(template.Labels), Annotations: maps.Clone(template.Annotations),
			Finalizers: template.Finalizers, OwnerReferences: []metav1.OwnerReference{*owner},
		},
		Spec: *template.Spec.DeepCopy(),
	}
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	return pod
}

// isReady reports whether a pod is ready.
func isReady(pod *corev1.Pod) bool {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// hashOf names a template by its content.
func hashOf(template *corev1.PodTemplateSpec) string {
	sum := fnv.New32a()
	_ = json.NewEncoder(sum).Encode(template) // a template can be encoded, and a hash does not fail
	return rand.SafeEncodeString(strconv.FormatUint(uint64(sum.Sum32()), 10))
}
