// Package admission decides which writes the embedded Kubernetes accepts, and completes objects, as the admission
// plugins of an API server do: namespace lifecycle, service accounts, runtime classes, priorities, Pod Security, the
// growth of claims, validating admission policies and quotas.
package admission

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"agents.example/controlplane/emulators/kubernetesemu/kinds"
	"agents.example/controlplane/emulators/kubernetesemu/store"
)

// Operation is what a request does to an object.
type Operation string

// The operations, by the names that policies know.
const (
	Create Operation = "CREATE"
	Update Operation = "UPDATE"
	Delete Operation = "DELETE"
	// Connect opens a stream to an object, such as that of a command in a pod.
	Connect Operation = "CONNECT"
)

// The finalizers that keep claims and volumes while they are used.
const (
	FinalizerClaim  = "kubernetes.io/pvc-protection"
	FinalizerVolume = "kubernetes.io/pv-protection"
)

// Attributes are what admission decides by.
type Attributes struct {
	Operation   Operation
	User        authenticationv1.UserInfo
	Kind        *kinds.Kind
	Key         store.Key
	Subresource string
	DryRun      bool
	Object      runtime.Object // nil for a deletion
	Old         runtime.Object // nil for a creation
	Warn        func(string)
}

func (a *Attributes) forbidden(format string, args ...any) *apierrors.StatusError {
	return apierrors.NewForbidden(a.Kind.Resource(), a.Key.Name, fmt.Errorf(format, args...))
}

// Admission decides by the objects of a store. The callers of its methods hold the store's lock.
type Admission struct {
	store    *store.Store
	catalog  *kinds.Catalog
	policies map[string]*policy // compiled, by name
}

// New returns the admission of a store.
func New(s *store.Store, catalog *kinds.Catalog) *Admission {
	return &Admission{store: s, catalog: catalog, policies: map[string]*policy{}}
}

// Mutate completes the object of a request. It refuses objects that cannot be completed.
func (a *Admission) Mutate(r Attributes) error {
	if r.Operation != Create {
		return nil
	}
	if r.Kind.Namespaced {
		if err := a.checkNamespace(&r); err != nil {
			return err
		}
	}
	switch o := r.Object.(type) {
	case *corev1.Pod:
		return a.completePod(&r, o)
	case *corev1.PersistentVolumeClaim:
		protect(o, FinalizerClaim)
	case *corev1.PersistentVolume:
		protect(o, FinalizerVolume)
	}
	return nil
}

// Validate refuses what policies and quotas forbid.
func (a *Admission) Validate(r Attributes) error {
	if err := a.checkPolicies(&r); err != nil {
		return err
	}
	switch r.Operation {
	case Delete:
		return checkUndeletable(&r)
	case Connect:
		return nil
	case Create, Update:
	}
	switch o := r.Object.(type) {
	case *corev1.Pod:
		if r.Operation == Create {
			if err := a.checkPodSecurity(&r, &o.ObjectMeta, &o.Spec); err != nil {
				return err
			}
		}
	case *corev1.PersistentVolumeClaim:
		if err := a.checkResize(&r, o); err != nil {
			return err
		}
	case *appsv1.StatefulSet:
		a.warnTemplate(&r, &o.Spec.Template)
	case *appsv1.Deployment:
		a.warnTemplate(&r, &o.Spec.Template)
	}
	if r.Subresource == "" {
		return a.checkQuotas(&r)
	}
	return nil
}

// checkNamespace refuses new objects of a namespace that does not exist or is being deleted.
func (a *Admission) checkNamespace(r *Attributes) error {
	n, ok := a.store.Get(a.catalog.Core("Namespace"), store.Key{Name: r.Key.Namespace}).(*corev1.Namespace)
	if !ok {
		return apierrors.NewNotFound(corev1.Resource("namespaces"), r.Key.Namespace)
	}
	if n.DeletionTimestamp == nil {
		return nil
	}
	err := r.forbidden("unable to create new content in namespace %s because it is being terminated", n.Name)
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{
		Type: corev1.NamespaceTerminatingCause, Message: fmt.Sprintf("namespace %s is being terminated", n.Name),
		Field: "metadata.namespace",
	})
	return err
}

// checkUndeletable protects the namespaces that every cluster has.
func checkUndeletable(r *Attributes) error {
	if r.Kind.Group != "" || r.Kind.Kind != "Namespace" {
		return nil
	}
	switch r.Key.Name {
	case metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic:
		return r.forbidden("this namespace may not be deleted")
	}
	return nil
}

// protect keeps an object until the controller of the finalizer has found that no object uses it.
func protect(o metav1.Object, finalizer string) {
	if !slices.Contains(o.GetFinalizers(), finalizer) {
		o.SetFinalizers(append(o.GetFinalizers(), finalizer))
	}
}

// checkResize refuses to grow a claim whose class does not allow that.
func (a *Admission) checkResize(r *Attributes, claim *corev1.PersistentVolumeClaim) error {
	old, ok := r.Old.(*corev1.PersistentVolumeClaim)
	if !ok {
		return nil
	}
	asked, had := claim.Spec.Resources.Requests[corev1.ResourceStorage], old.Spec.Resources.Requests[corev1.ResourceStorage]
	if asked.Cmp(had) <= 0 {
		return nil
	}
	if name := old.Spec.StorageClassName; name != nil {
		kind := a.catalog.Kind(storagev1.SchemeGroupVersion.WithKind("StorageClass"))
		class, ok := a.store.Get(kind, store.Key{Name: *name}).(*storagev1.StorageClass)
		if ok && class.AllowVolumeExpansion != nil && *class.AllowVolumeExpansion {
			return nil
		}
	}
	return r.forbidden("only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc " +
		"must support resize")
}
