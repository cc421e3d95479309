package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"agents.example/controlplane/infra/gke/cellwatch"
)

// write is a request with which the worker applied an object, and the UID that the object got.
type write struct {
	path, query string
	body        []byte
	uid         string
}

// template is what the worker wrote to provision one agent.
type template struct {
	agentID string
	writes  []write
}

// rawClient applies the objects of a template to a cluster as client-go does, without the control plane.
type rawClient struct {
	rest *rest.RESTClient
	core *rest.RESTClient
}

func newRawClient(kubeconfig string) (*rawClient, error) {
	config, err := cellwatch.Connect(kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	config.NegotiatedSerializer = serializer.NewCodecFactory(runtime.NewScheme()).WithoutConversion()
	plain, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		return nil, err
	}
	core, err := cellwatch.Client(config, "bench", cellwatch.Core())
	return &rawClient{plain, core}, err
}

// apply applies the objects of a template for another agent, one after the other. Owners get their new UIDs.
func (c *rawClient) apply(ctx context.Context, t template, agentID string) error {
	replaced := []string{t.agentID, agentID}
	for _, w := range t.writes {
		names := strings.NewReplacer(replaced...)
		query, err := url.ParseQuery(w.query)
		if err != nil {
			return err
		}
		req := c.rest.Patch(types.ApplyYAMLPatchType).AbsPath(names.Replace(w.path)).
			Body([]byte(names.Replace(string(w.body))))
		for name := range query {
			req.Param(name, query.Get(name))
		}
		answer, err := req.Do(ctx).Raw()
		if err != nil {
			return fmt.Errorf("apply %s: %w", w.path, err)
		}
		uid, err := uidOf(answer)
		if err != nil {
			return err
		}
		replaced = append(replaced, w.uid, uid)
	}
	return nil
}

// awaitReady returns when a pod of a namespace is Ready. w watches the namespace's pods.
func awaitReady(ctx context.Context, w watch.Interface) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e, ok := <-w.ResultChan():
			if !ok {
				return errors.New("the watch of a pod ended early")
			}
			if pod, isPod := e.Object.(*corev1.Pod); isPod && isReady(pod) {
				return nil
			}
		}
	}
}

func isReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// watchPods watches the pods of an agent, whose namespace may not exist yet.
func (c *rawClient) watchPods(ctx context.Context, agentID string) (watch.Interface, error) {
	return c.core.Get().Namespace("agent-"+agentID).Resource("pods").
		VersionedParams(&metav1.ListOptions{Watch: true}, metav1.ParameterCodec).Watch(ctx)
}

func uidOf(object []byte) (string, error) {
	var o metav1.PartialObjectMetadata
	if err := json.Unmarshal(object, &o); err != nil || o.UID == "" {
		return "", errors.Join(errors.New("an applied object has no UID"), err)
	}
	return string(o.UID), nil
}

// recorder is a transport that reports what was applied, in the order of the answers.
type recorder struct {
	base    http.RoundTripper
	applied func(write)
}

// RoundTrip implements http.RoundTripper.
func (r recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodPatch || req.Body == nil {
		return r.base.RoundTrip(req)
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	req = req.Clone(req.Context())
	req.Body = io.NopCloser(bytes.NewReader(body))
	// The worker asks for the same as protobuf, which uidOf does not read.
	req.Header.Set("Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
	res, err := r.base.RoundTrip(req)
	if err != nil || res.StatusCode >= http.StatusMultipleChoices {
		return res, err
	}
	answer, err := io.ReadAll(res.Body)
	if err = errors.Join(err, res.Body.Close()); err != nil {
		return nil, err
	}
	res.Body = io.NopCloser(bytes.NewReader(answer))
	uid, err := uidOf(answer)
	if err != nil {
		return nil, err
	}
	r.applied(write{path: req.URL.Path, query: req.URL.RawQuery, body: body, uid: uid})
	return res, nil
}
