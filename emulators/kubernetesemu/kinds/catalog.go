package kinds

import (
	"errors"
	"fmt"
	"reflect"
	"sync"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"

	"agents.example/controlplane/emulators/kubeclient"
)

// Catalog has all kinds, by what requests call them.
type Catalog struct {
	Scheme *runtime.Scheme
	Codecs serializer.CodecFactory
	Kinds  []*Kind

	resources map[schema.GroupVersionResource]*Kind
	objects   map[schema.GroupVersionKind]*Kind
	types     map[reflect.Type]*Kind
}

// Load returns the catalog. It is the same for all clusters of a process, and must not be changed.
func Load() (*Catalog, error) { return catalog() }

var catalog = sync.OnceValues(newCatalog)

func newCatalog() (*Catalog, error) {
	c := &Catalog{
		Scheme: runtime.NewScheme(), Kinds: defineAll(),
		resources: map[schema.GroupVersionResource]*Kind{}, objects: map[schema.GroupVersionKind]*Kind{},
		types: map[reflect.Type]*Kind{},
	}
	var errs []error
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, appsv1.AddToScheme, discoveryv1.AddToScheme, networkingv1.AddToScheme, nodev1.AddToScheme,
		rbacv1.AddToScheme, schedulingv1.AddToScheme, storagev1.AddToScheme, admissionregistrationv1.AddToScheme,
		authorizationv1.AddToScheme, authenticationv1.AddToScheme, autoscalingv1.AddToScheme, autoscalingv2.AddToScheme, policyv1.AddToScheme,
		kubeclient.AddSnapshotsToScheme, metav1.AddMetaToScheme,
	} {
		errs = append(errs, add(c.Scheme))
	}
	metav1.AddToGroupVersion(c.Scheme, schema.GroupVersion{Version: "v1"})
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("register the types of Kubernetes: %w", err)
	}
	c.Codecs = serializer.NewCodecFactory(c.Scheme)
	if err := c.newManagers(); err != nil {
		return nil, err
	}
	for _, k := range c.Kinds {
		c.resources[k.GroupVersion().WithResource(k.Plural)], c.objects[k.GroupVersionKind] = k, k
		c.types[reflect.TypeOf(k.object())] = k
	}
	return c, nil
}

// Resource returns the kind of a resource, or nil.
func (c *Catalog) Resource(r schema.GroupVersionResource) *Kind { return c.resources[r] }

// Kind returns a kind by its name, or nil.
func (c *Catalog) Kind(gvk schema.GroupVersionKind) *Kind { return c.objects[gvk] }

// Core returns a kind of the core group, which must exist.
func (c *Catalog) Core(kind string) *Kind { return c.Kind(corev1.SchemeGroupVersion.WithKind(kind)) }

// Of returns the kind of the objects that have the type of o, which may be nil.
func (c *Catalog) Of(o runtime.Object) *Kind { return c.types[reflect.TypeOf(o)] }
