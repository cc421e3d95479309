package podworker

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestExpand_ReplacesKnownVariables(t *testing.T) {
	t.Parallel()
	values := map[string]string{"A": "1", "REF": "$(A)"}
	for text, want := range map[string]string{
		"x$(A)y": "x1y", "$(UNKNOWN)": "$(UNKNOWN)", "$$(A)": "$(A)", "$(A": "$(A", "$": "$", "$A": "$A",
		"$(REF)": "$(A)", "$(A)$(A)": "11", "": "",
	} {
		if got := expand(text, values); got != want {
			t.Errorf("expand(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestFieldOf_ReadsWhatPodsMayRefer(t *testing.T) {
	t.Parallel()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: "p", UID: "u", Labels: map[string]string{"b/c": "2", "a": "1"}, Annotations: map[string]string{"x": "y"},
	}}
	for path, want := range map[string]string{
		"metadata.name": "p", "metadata.uid": "u", "metadata.labels": "a=\"1\"\nb/c=\"2\"",
		"metadata.labels['b/c']":  "2",
		"metadata.labels['none']": "", "metadata.annotations['x']": "y",
	} {
		if got, err := fieldOf(pod, path); err != nil || got != want {
			t.Errorf("field %s = %q, %v; want %q", path, got, err, want)
		}
	}
	if _, err := fieldOf(pod, "spec.hostNetwork"); err == nil {
		t.Error("an unsupported field has a value, want an error")
	}
}

func TestResourceOf_RoundsUpToTheDivisor(t *testing.T) {
	t.Parallel()
	c := &corev1.Container{Resources: corev1.ResourceRequirements{
		Limits: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("1500m"), corev1.ResourceMemory: resource.MustParse("1537Mi"),
		},
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m")},
	}}
	for _, row := range []struct{ resource, divisor, want string }{
		{resource: "limits.cpu", divisor: "1", want: "2"},
		{resource: "limits.cpu", divisor: "1m", want: "1500"},
		{resource: "limits.memory", divisor: "1Mi", want: "1537"},
		{resource: "limits.memory", divisor: "1Gi", want: "2"},
		{resource: "requests.cpu", divisor: "0", want: "1"},
		{resource: "requests.memory", divisor: "1", want: "0"},
	} {
		selector := &corev1.ResourceFieldSelector{Resource: row.resource, Divisor: resource.MustParse(row.divisor)}
		if got, err := resourceOf(c, selector); err != nil || got != row.want {
			t.Errorf("%s in %s = %q, %v; want %q", row.resource, row.divisor, got, err, row.want)
		}
	}
}
