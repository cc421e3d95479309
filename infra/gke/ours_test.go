package gke

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestIsOurs_NeedsTheManagerAndTheAgent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		labels map[string]string
		want   bool
	}{
		"ours":            {map[string]string{labelManagedBy: fieldManager, labelAgent: testID}, true},
		"another manager": {map[string]string{labelManagedBy: "helm", labelAgent: testID}, false},
		"no manager":      {map[string]string{labelAgent: testID}, false},
		"another agent":   {map[string]string{labelManagedBy: fieldManager, labelAgent: testID + "0"}, false},
		"no agent":        {map[string]string{labelManagedBy: fieldManager}, false},
		"no labels":       {nil, false},
	} {
		namespace := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Labels: c.labels}}
		if got := isOurs(namespace, testID); got != c.want {
			t.Errorf("%s: isOurs is %t, want %t", name, got, c.want)
		}
	}
}
