package apiserver

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"agents.example/controlplane/emulators/kubernetesemu/admission"
	"agents.example/controlplane/emulators/kubernetesemu/store"
)

// maxKubeletError is how much of a kubelet's error a client gets.
const maxKubeletError = 4096

// serveLog passes the log of a container on from the kubelet of its pod.
func (s *Server) serveLog(c *call) error {
	pod, container, err := s.podOf(c)
	if err != nil {
		return err
	}
	if err := checkLogOptions(c.URL.Query()); err != nil {
		return err
	}
	if pod.Spec.NodeName == "" {
		c.w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return s.proxy(c, pod, "/containerLogs/"+pod.Namespace+"/"+pod.Name+"/"+container)
}

// checkLogOptions refuses sizes and times that are negative.
func checkLogOptions(query url.Values) error {
	var errs field.ErrorList
	for _, name := range []string{"tailLines", "sinceSeconds", "limitBytes"} {
		value, err := strconv.ParseInt(query.Get(name), 10, 64)
		if query.Has(name) && (err != nil || value < 0 || value == 0 && name != "tailLines") {
			errs = append(errs, field.Invalid(field.NewPath(name), query.Get(name),
				"must be greater than or equal to 0"))
		}
	}
	return optionsError("PodLogOptions", nil, errs)
}

// connect passes a stream on to the kubelet of a pod: exec, attach or portForward.
func (s *Server) connect(what string) func(*call) error {
	return func(c *call) error {
		create := *c // a WebSocket begins with GET, and needs the right to create as well
		if create.verb = "create"; !s.allows(&c.user, attributesOf(c.target, create.verb)) {
			return forbid(&create)
		}
		if err := s.admitStream(c); err != nil {
			return err
		}
		if what == "portForward" && strings.EqualFold(c.Header.Get("Upgrade"), "websocket") {
			return apierrors.NewBadRequest("ports are not forwarded over WebSocket: use SPDY, as kubectl does then")
		}
		if what == "portForward" {
			o, err := s.registry.Get(c.target.kind, c.target.key)
			if err != nil {
				return err
			}
			pod := o.(*corev1.Pod)
			return s.proxy(c, pod, "/portForward/"+pod.Namespace+"/"+pod.Name)
		}
		pod, container, err := s.podOf(c)
		if err != nil {
			return err
		}
		return s.proxy(c, pod, "/"+what+"/"+pod.Namespace+"/"+pod.Name+"/"+container)
	}
}

// admitStream refuses a stream that an admission policy forbids.
func (s *Server) admitStream(c *call) error {
	query := c.URL.Query()
	stdin, stdout, stderr := isTrue(query.Get("stdin")), isTrue(query.Get("stdout")), isTrue(query.Get("stderr"))
	var options runtime.Object = &corev1.PodPortForwardOptions{}
	switch c.target.subresource {
	case "exec":
		options = &corev1.PodExecOptions{
			Stdin: stdin, Stdout: stdout, Stderr: stderr, TTY: isTrue(query.Get("tty")),
			Container: query.Get("container"), Command: query["command"],
		}
	case "attach":
		options = &corev1.PodAttachOptions{
			Stdin: stdin, Stdout: stdout, Stderr: stderr, TTY: isTrue(query.Get("tty")),
			Container: query.Get("container"),
		}
	}
	objects := s.registry.Store
	objects.Lock() // policies are compiled when they are used first
	defer objects.Unlock()
	return s.registry.Admission.Validate(admission.Attributes{
		Operation: admission.Connect, User: c.user, Kind: c.target.kind, Key: c.target.key,
		Subresource: c.target.subresource, Object: options, Warn: c.warn,
	})
}

// podOf returns the pod and the container that a request names.
func (s *Server) podOf(c *call) (*corev1.Pod, string, error) {
	o, err := s.registry.Get(c.target.kind, c.target.key)
	if err != nil {
		return nil, "", err
	}
	pod := o.(*corev1.Pod)
	name := c.URL.Query().Get("container")
	var all []string
	for _, containers := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range containers {
			all = append(all, containers[i].Name)
			if containers[i].Name == name {
				return pod, name, nil
			}
		}
	}
	switch {
	case name == "" && len(pod.Spec.Containers) == 1:
		return pod, pod.Spec.Containers[0].Name, nil
	case name == "" && pod.Annotations["kubectl.kubernetes.io/default-container"] != "":
		return pod, pod.Annotations["kubectl.kubernetes.io/default-container"], nil
	case name == "":
		return nil, "", apierrors.NewBadRequest(fmt.Sprintf("a container name must be specified for pod %s, choose "+
			"one of: %v", pod.Name, all))
	}
	return nil, "", apierrors.NewBadRequest(fmt.Sprintf("container %s is not valid for pod %s", name, pod.Name))
}

// proxy passes a request on to a path of the kubelet of a pod.
func (s *Server) proxy(c *call, pod *corev1.Pod, path string) error {
	kubelet, err := s.kubeletOf(pod)
	if err != nil {
		return err
	}
	var failure error
	p := &httputil.ReverseProxy{
		Transport: s.kubelets, FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(kubelet)
			r.Out.URL.Path, r.Out.URL.RawPath = path, ""
			r.Out.URL.RawQuery = kubeletQuery(r.In.URL.Query()).Encode()
			for name := range r.Out.Header {
				if name == "Authorization" || strings.HasPrefix(name, "Impersonate-") {
					r.Out.Header.Del(name)
				}
			}
		},
		ModifyResponse: func(r *http.Response) error { return checkKubelet(c, r) },
		ErrorHandler:   func(_ http.ResponseWriter, _ *http.Request, err error) { failure = err },
	}
	p.ServeHTTP(c.w, c.Request)
	return failure
}

// kubeletQuery returns a query as kubelets read it.
func kubeletQuery(query url.Values) url.Values {
	for api, kubelet := range map[string]string{
		"stdin": "input", "stdout": "output", "stderr": "error", "ports": "port",
	} {
		if values, ok := query[api]; ok {
			delete(query, api)
			for i, value := range values {
				if value == "true" {
					values[i] = "1"
				}
			}
			query[kubelet] = values
		}
	}
	if query.Get("tty") == "true" {
		query.Set("tty", "1")
	}
	return query
}

// kubeletOf returns the address of the kubelet of a pod.
func (s *Server) kubeletOf(pod *corev1.Pod) (*url.URL, error) {
	if pod.Spec.NodeName == "" {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("pod %s does not have a host assigned", pod.Name))
	}
	o, err := s.registry.Get(s.catalog.Core("Node"), store.Key{Name: pod.Spec.NodeName})
	if err != nil {
		return nil, err
	}
	return kubeletURL(o.(*corev1.Node))
}

func kubeletURL(node *corev1.Node) (*url.URL, error) {
	for _, a := range node.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			port := strconv.Itoa(int(node.Status.DaemonEndpoints.KubeletEndpoint.Port))
			return &url.URL{Scheme: "https", Host: net.JoinHostPort(a.Address, port)}, nil
		}
	}
	return nil, apierrors.NewInternalError(fmt.Errorf("node %s has no address", node.Name))
}

// checkKubelet makes an error of what a kubelet refuses.
func checkKubelet(c *call, r *http.Response) error {
	if r.StatusCode < http.StatusBadRequest {
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxKubeletError))
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	text := strings.TrimRight(string(body), "\n")
	if r.StatusCode == http.StatusBadRequest {
		return apierrors.NewBadRequest(text)
	}
	return apierrors.NewGenericServerResponse(r.StatusCode, c.verb, c.target.resource, c.target.key.Name, text, 0, true)
}
