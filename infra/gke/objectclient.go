package gke

import (
	"context"
	"encoding/json"
	"net/http"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// objectClient reads whole objects of the few types that this package looks into, and the metadata of all others. The
// clientset of client-go would link the types of all API groups, and its metadata client registers types before main.
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
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	api, err := rest.UnversionedRESTClientForConfigAndClient(config, client)
	return &objectClient{api, runtime.NewParameterCodec(scheme)}, err
}

func (c *objectClient) get(ctx context.Context, t target, into runtime.Object) error {
	return fromServer(c.rest.Get().AbsPath(append(t.path(), t.name)...).Do(ctx).Into(into), t)
}

func (c *objectClient) list(ctx context.Context, t target, o metav1.ListOptions, into runtime.Object) error {
	return fromServer(c.rest.Get().AbsPath(t.path()...).
		SpecificallyVersionedParams(&o, c.parameters, corev1.SchemeGroupVersion).Do(ctx).Into(into), t)
}

// acceptMetadata asks for no more of an object, or of each object of a list, than its metadata.
func acceptMetadata(kind string) string {
	as := ";as=" + kind + ";g=meta.k8s.io;v=v1"
	return runtime.ContentTypeProtobuf + as + "," + runtime.ContentTypeJSON + as
}

// metadata sends a request and returns the metadata of the object in its answer.
func metadata(ctx context.Context, t target, r *rest.Request) (*metav1.PartialObjectMetadata, error) {
	m := &metav1.PartialObjectMetadata{}
	if err := r.SetHeader("Accept", acceptMetadata("PartialObjectMetadata")).Do(ctx).Into(m); err != nil {
		return nil, fromServer(err, t)
	}
	return m, nil
}

func (c *objectClient) getMetadata(ctx context.Context, t target) (*metav1.PartialObjectMetadata, error) {
	return metadata(ctx, t, c.rest.Get().AbsPath(t.path()...).Name(t.name))
}

// patch is the body of a patch. subresource is usually empty.
type patch struct {
	kind        types.PatchType
	body        []byte
	subresource []string
}

func (c *objectClient) patch(ctx context.Context, t target, p patch, o metav1.PatchOptions) (
	*metav1.PartialObjectMetadata, error,
) {
	return metadata(ctx, t, c.rest.Patch(p.kind).AbsPath(t.path()...).Name(t.name).SubResource(p.subresource...).
		Body(p.body).
		SpecificallyVersionedParams(&o, c.parameters, corev1.SchemeGroupVersion))
}

// create sends an object as JSON, as delete does, and reads no more of the answer than its metadata.
func (c *objectClient) create(ctx context.Context, t target, o runtime.Object) error {
	body, err := json.Marshal(o)
	if err != nil {
		return err
	}
	_, err = metadata(ctx, t, c.rest.Post().AbsPath(t.path()...).SetHeader("Content-Type", runtime.ContentTypeJSON).
		Body(body).SpecificallyVersionedParams(&metav1.CreateOptions{FieldManager: fieldManager}, c.parameters,
		corev1.SchemeGroupVersion))
	return err
}

func (c *objectClient) listMetadata(ctx context.Context, t target, o metav1.ListOptions) (
	*metav1.PartialObjectMetadataList, error,
) {
	page := &metav1.PartialObjectMetadataList{}
	err := c.rest.Get().AbsPath(t.path()...).SetHeader("Accept", acceptMetadata("PartialObjectMetadataList")).
		SpecificallyVersionedParams(&o, c.parameters, corev1.SchemeGroupVersion).Do(ctx).Into(page)
	return page, fromServer(err, t)
}

// delete sends its options as JSON, because handlers of custom resources refuse protobuf.
func (c *objectClient) delete(ctx context.Context, t target, o metav1.DeleteOptions) error {
	o.TypeMeta = metav1.TypeMeta{Kind: "DeleteOptions", APIVersion: "v1"}
	body, err := json.Marshal(&o)
	if err != nil {
		return err
	}
	err = c.rest.Delete().AbsPath(t.path()...).Name(t.name).SetHeader("Content-Type", runtime.ContentTypeJSON).
		Body(body).Do(ctx).Error()
	return fromServer(err, t)
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
