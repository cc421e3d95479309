//go:build unix

package proxy

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// Kubernetes forwards the requests to an API server, with the identity of the proxy.
type Kubernetes struct {
	addr   string
	tap    Tap
	target http.RoundTripper
	server *http.Server
	served sync.WaitGroup
}

// StartKubernetes forwards requests to the API server of a kubeconfig.
func StartKubernetes(kubeconfig string, tap Tap) (*Kubernetes, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, err
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		return nil, fmt.Errorf("read the address of the API server: %w", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // returns immediately
	if err != nil {
		return nil, err
	}
	p := &Kubernetes{addr: listener.Addr().String(), tap: tap, target: transport}
	p.server = &http.Server{
		Handler: &httputil.ReverseProxy{
			Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, Transport: p, FlushInterval: -1,
			ErrorLog: log.New(io.Discard, "", 0), // requests whose caller was killed
		},
		ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0),
	}
	p.served.Go(func() { _ = p.server.Serve(listener) })
	return p, nil
}

// WriteKubeconfig writes a kubeconfig that leads to the proxy.
func (p *Kubernetes) WriteKubeconfig(path string) error {
	c := api.NewConfig()
	c.Clusters["proxy"] = &api.Cluster{Server: "http://" + p.addr}
	c.Contexts["proxy"] = &api.Context{Cluster: "proxy"}
	c.CurrentContext = "proxy"
	return clientcmd.WriteToFile(*c, path)
}

// Close ends all requests.
func (p *Kubernetes) Close() error {
	err := p.server.Close()
	p.served.Wait()
	utilnet.CloseIdleConnectionsFor(p.target)
	return ignoreClosed(err)
}

// RoundTrip implements http.RoundTripper. A change takes place even if its caller goes.
func (p *Kubernetes) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet {
		return p.target.RoundTrip(r)
	}
	var body []byte
	var err error
	if r.Body != nil {
		body, err = io.ReadAll(r.Body)
	}
	if err != nil {
		return nil, err
	}
	call := r.Method + " " + kind(r.URL.Path)
	if !p.tap.Before(call) {
		return nil, errTapped
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), callTimeout)
	defer cancel()
	r = r.Clone(ctx)
	r.Body = http.NoBody
	if len(body) > 0 {
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	answer, err := p.target.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close() //nolint:errcheck // reading is over
	if body, err = io.ReadAll(answer.Body); err != nil {
		return nil, err
	}
	if !p.tap.After(call) {
		return nil, errTapped
	}
	answer.Body = io.NopCloser(bytes.NewReader(body))
	return answer, nil
}

// kind is the resource of a path such as /apis/apps/v1/namespaces/n/statefulsets/agent.
func kind(path string) string {
	words := strings.Split(strings.Trim(path, "/"), "/")
	for i, word := range words {
		if word == "namespaces" && i+2 < len(words) {
			return words[i+2]
		}
	}
	if n := len(words); n > 1 {
		return words[n-2]
	}
	return path
}
