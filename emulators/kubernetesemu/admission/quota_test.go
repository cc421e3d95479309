package admission

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"agents.example/controlplane/emulators/kubernetesemu/kinds"
	"agents.example/controlplane/emulators/kubernetesemu/store"
)

func TestValidate_GoesByTheLimitsInTheStatusOfAQuota(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		spec, status string // the limit of claims
		wantRefused  bool
	}{
		"computed":         {spec: "2", status: "2"},
		"full":             {spec: "1", status: "1", wantRefused: true},
		"raised just now":  {spec: "2", status: "1", wantRefused: true},
		"lowered just now": {spec: "1", status: "2"},
		"made just now":    {spec: "1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			catalog, err := kinds.Load()
			if err != nil {
				t.Fatal(err)
			}
			s := store.New(catalog.Kinds, nil)
			quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "one", Name: "plan"}}
			quota.Spec.Hard = claims(row.spec)
			if row.status != "" {
				quota.Status.Hard = claims(row.status)
			}
			s.Put(catalog.Core("ResourceQuota"), store.Key{Namespace: "one", Name: "plan"}, quota)
			kind, claim := catalog.Core("PersistentVolumeClaim"), &corev1.PersistentVolumeClaim{}
			s.Put(kind, store.Key{Namespace: "one", Name: "a"}, claim)
			err = New(s, catalog).Validate(Attributes{
				Operation: Create, Kind: kind, Key: store.Key{Namespace: "one", Name: "b"},
				Object: &corev1.PersistentVolumeClaim{}, Warn: func(string) {},
			})
			if refused := apierrors.IsForbidden(err); refused != row.wantRefused || !refused && err != nil {
				t.Errorf("a second claim: error %v, want a refusal: %t", err, row.wantRefused)
			}
		})
	}
}

// claims is a limit of the number of claims.
func claims(most string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourcePersistentVolumeClaims: resource.MustParse(most)}
}
