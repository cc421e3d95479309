//go:build unix

package apitest

import (
	"context"
	"errors"
	"net/http"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// clientCases use the clients of client-go, which send and read protobuf.
func clientCases() map[string]func(*space) {
	return map[string]func(*space){
		"objects as protobuf":  testProtobuf,
		"watch as protobuf":    testProtobufWatch,
		"metadata as protobuf": testMetadataClient,
		"dynamic client":       testDynamicClient,
		"informer":             testInformer,
	}
}

// protobuf returns a client of the core group as the router and the notifier have it.
func (s *space) protobuf() *rest.RESTClient {
	s.Helper()
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		s.Fatal(err)
	}
	config := rest.CopyConfig(s.server.Config)
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf
	config.GroupVersion, config.APIPath = &corev1.SchemeGroupVersion, "/api"
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientForConfigAndClient(config, s.admin.http)
	if err != nil {
		s.Fatal(err)
	}
	return client
}

func testProtobuf(s *space) {
	client := s.protobuf()
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}, BinaryData: map[string][]byte{"a": {0, 255}}}
	created := &corev1.ConfigMap{}
	configs := func(r *rest.Request) *rest.Request { return r.Namespace(s.namespace).Resource("configmaps") }
	if err := configs(client.Post()).Body(config).Do(s.Context()).Into(created); err != nil {
		s.Fatal(err)
	}
	err := configs(client.Post()).Body(config).Do(s.Context()).Error()
	if !apierrors.IsAlreadyExists(err) {
		s.Errorf("second creation: %v", err)
	}
	created.Data = map[string]string{"b": "c"}
	if err := configs(client.Put()).Name("a").Body(created).Do(s.Context()).Into(created); err != nil {
		s.Error(err)
	}
	list := &corev1.ConfigMapList{}
	if err := configs(client.Get()).Param("fieldSelector", "metadata.name=a").Do(s.Context()).Into(list); err != nil {
		s.Fatal(err)
	}
	if len(list.Items) != 1 || string(list.Items[0].BinaryData["a"]) != "\x00\xff" || list.Items[0].Data["b"] != "c" ||
		list.Items[0].ResourceVersion != created.ResourceVersion || list.ResourceVersion == "" {
		s.Errorf("list %+v", list)
	}
	uid := created.UID
	options := &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}
	if err := configs(client.Delete()).Name("a").Body(options).Do(s.Context()).Error(); err != nil {
		s.Error(err)
	}
	if err := configs(client.Get()).Name("a").Do(s.Context()).Error(); !apierrors.IsNotFound(err) {
		s.Errorf("read of a deleted object: %v", err)
	}
	a := s.send(call{path: "configmaps/a", header: accept(runtime.ContentTypeProtobuf)})
	if a.code != http.StatusNotFound || a.header.Get("Content-Type") != runtime.ContentTypeProtobuf ||
		string(a.body[:4]) != "k8s\x00" {
		s.Errorf("refusal as protobuf: %d %q", a.code, a.header.Get("Content-Type"))
	}
}

func testProtobufWatch(s *space) {
	events, err := s.protobuf().Get().Namespace(s.namespace).Resource("configmaps").
		Param("watch", "true").Param("sendInitialEvents", "true").Param("resourceVersionMatch", "NotOlderThan").
		Param("allowWatchBookmarks", "true").Param("labelSelector", "list").Watch(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	defer events.Stop()
	s.create("configmaps", "metadata: {name: a, labels: {list: 'yes'}}\ndata: {a: b}")
	seen := map[watch.EventType]bool{}
	for !seen[watch.Bookmark] || !seen[watch.Added] {
		e, open := <-events.ResultChan()
		object, ok := e.Object.(*corev1.ConfigMap)
		if !open || !ok {
			s.Fatalf("event %s of %T", e.Type, e.Object)
		}
		end := object.Annotations[metav1.InitialEventsAnnotationKey] == "true"
		if e.Type == watch.Bookmark && !end { // a server may send one at any time
			continue
		}
		if seen[e.Type] || e.Type == watch.Added && object.Data["a"] != "b" {
			s.Errorf("event %s of %+v", e.Type, object)
		}
		seen[e.Type] = true
	}
}

func testMetadataClient(s *space) {
	client, err := metadata.NewForConfigAndClient(s.server.Config, s.admin.http)
	if err != nil {
		s.Fatal(err)
	}
	configs := client.Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).Namespace(s.namespace)
	s.configs(3)
	page, err := configs.List(s.Context(), metav1.ListOptions{LabelSelector: "list", Limit: 2})
	if err != nil || len(page.Items) != 2 || page.Continue == "" || page.Items[0].Labels["list"] != "yes" {
		s.Fatalf("first page %+v, %v", page, err)
	}
	events, err := configs.Watch(s.Context(), metav1.ListOptions{ResourceVersion: page.ResourceVersion})
	if err != nil {
		s.Fatal(err)
	}
	defer events.Stop()
	if err := configs.DeleteCollection(s.Context(), metav1.DeleteOptions{},
		metav1.ListOptions{LabelSelector: "list"}); err != nil {
		s.Error(err)
	}
	for range 3 {
		if e := <-events.ResultChan(); e.Type != watch.Deleted {
			s.Errorf("event %s of %+v", e.Type, e.Object)
		}
	}
	if _, err := configs.Get(s.Context(), "c-000", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		s.Errorf("metadata of a deleted object: %v", err)
	}
}

func testDynamicClient(s *space) {
	client, err := dynamic.NewForConfigAndClient(s.server.Config, s.admin.http)
	if err != nil {
		s.Fatal(err)
	}
	sets := client.Resource(appsv1.SchemeGroupVersion.WithResource("statefulsets")).Namespace(s.namespace)
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a"},
		"data": map[string]any{"a": "b"},
	}}
	configs := client.Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).Namespace(s.namespace)
	if _, err := configs.Apply(s.Context(), "a", object, metav1.ApplyOptions{FieldManager: "one"}); err != nil {
		s.Fatal(err)
	}
	object.Object["data"] = map[string]any{"a": "c"}
	_, err = configs.Apply(s.Context(), "a", object, metav1.ApplyOptions{FieldManager: "two"})
	if !apierrors.IsConflict(err) || !apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict) {
		s.Errorf("apply of another manager: %v", err)
	}
	if _, err := sets.Get(s.Context(), "none", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		s.Errorf("unknown object: %v", err)
	}
	if _, err := sets.Create(s.Context(), object, metav1.CreateOptions{}); !apierrors.IsBadRequest(err) {
		s.Errorf("object of another kind: %v", err)
	}
}

// testInformer runs what the router and the notifier run.
func testInformer(s *space) {
	s.configs(2)
	lists := cache.NewFilteredListWatchFromClient(s.protobuf(), "configmaps", s.namespace, func(o *metav1.ListOptions) {
		o.LabelSelector = "list"
	})
	informer := cache.NewSharedIndexInformer(lists, &corev1.ConfigMap{}, 0, nil)
	ctx, cancel := context.WithCancel(s.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		informer.RunWithContext(ctx)
	}()
	defer func() {
		cancel()
		<-done
	}()
	holds := func(what string, key string, exists bool) {
		s.eventually(what, func(context.Context) error {
			_, found, err := informer.GetStore().GetByKey(s.namespace + "/" + key)
			if err == nil && found != exists {
				err = errors.New("it is not so yet")
			}
			return err
		})
	}
	holds("the first list is known", "c-001", true)
	s.create("configmaps", "metadata: {name: later, labels: {list: 'yes'}}")
	holds("a new object is known", "later", true)
	s.must(call{verb: "MERGE", path: "configmaps/later", body: "metadata: {labels: {list: null}}"})
	holds("an object that left the selection is not known", "later", false)
	s.must(call{verb: "DELETE", path: "configmaps/c-001"})
	holds("a deleted object is not known", "c-001", false)
}
