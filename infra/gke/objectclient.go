package gke

import (
	"context"
	"net/http"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
)

// objectClient reads whole objects of the few types that this package looks into. The clientset of client-go would link
// the types of all API groups.
type objectClient struct {
	rest       *rest.RESTClient
	parameters runtime.ParameterCodec
}

func newObjectClient(config *rest.Config, client *http.Client) (*objectClient, error) {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypes(corev1.SchemeGroupVersion, &corev1.Namespace{}, &corev1.Pod{}, &corev1.PodList{},
		&corev1.Event{}, &corev1.EventList{}, &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{},
		&corev1.PersistentVolumeList{})
	scheme.AddKnownTypes(appsv1.SchemeGroupVersion, &appsv1.StatefulSet{})
	metav1.AddToGroupVersion(scheme, corev1.SchemeGroupVersion)
	config = rest.CopyConfig(config)
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	api, err := rest.UnversionedRESTClientForConfigAndClient(config, client)
	return &objectClient{api, runtime.NewParameterCodec(scheme)}, err
}

func (c *objectClient) get(ctx context.Context, t target, into runtime.Object) error {
	return c.rest.Get().AbsPath(append(t.path(), t.name)...).Do(ctx).Into(into)
}

func (c *objectClient) list(ctx context.Context, t target, o metav1.ListOptions, into runtime.Object) error {
	return c.rest.Get().AbsPath(t.path()...).
		SpecificallyVersionedParams(&o, c.parameters, corev1.SchemeGroupVersion).Do(ctx).Into(into)
}

// path is the path of the target's collection.
func (t target) path() []string {
	path := []string{"apis", t.gvk.Group, t.gvk.Version}
	if t.gvk.Group == "" {
		path = []string{"api", t.gvk.Version}
	}
	if t.namespace != "" {
		path = append(path, "namespaces", t.namespace)
	}
	return append(path, t.resource().Resource)
}
