// Package kubernetesemu runs a small Kubernetes in this process: an API server over Kubernetes' own libraries, with the
// controllers and the scheduler that agents need. Its nodes are those of package simulator.
//
// What clients of this project see of it is what they see of the real one: package apitest tests both. README.md says
// what it does not do.
package kubernetesemu

import (
	"context"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"agents.example/controlplane/emulators/cluster/pki"
	"agents.example/controlplane/emulators/kubernetesemu/admission"
	"agents.example/controlplane/emulators/kubernetesemu/apiserver"
	"agents.example/controlplane/emulators/kubernetesemu/controllers"
	"agents.example/controlplane/emulators/kubernetesemu/kinds"
	"agents.example/controlplane/emulators/kubernetesemu/registry"
	"agents.example/controlplane/emulators/kubernetesemu/store"
)

const (
	// stateFile has the objects of a cluster that was closed.
	stateFile = "objects.jsonl"
	// closeTimeout bounds the wait for requests when the server is closed. Watches end immediately.
	closeTimeout = 2 * time.Second
	// maxStreams is how many requests a client may have in one connection. Watches are requests.
	maxStreams = 1000
)

// Options configure Start.
type Options struct {
	Dir          string           // where Close saves the objects; a later server continues with them
	Listener     net.Listener     // of the API server, which closes it
	Certificates pki.Files        // of the API server and its users
	Kubelets     pki.KubeletFiles // to connect to kubelets
	// Refuse returns why a node may not take a pod, or the empty string. It may be nil.
	Refuse func(pod *corev1.Pod, node string) string
}

// Server is a running cluster without nodes.
type Server struct {
	store *store.Store
	http  *http.Server
	dir   string
	stop  context.CancelFunc
	parts sync.WaitGroup
	done  chan struct{}
	close func() error
}

// Start returns when the server accepts requests. ctx bounds only the start.
func Start(ctx context.Context, o Options) (_ *Server, err error) {
	catalog, err := kinds.Load()
	if err != nil {
		return nil, err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer func() {
		if err != nil {
			stop()
		}
	}()
	s := &Server{dir: o.Dir, stop: stop, done: make(chan struct{})}
	s.close = sync.OnceValue(s.end)
	var loops *controllers.Controllers
	s.store = store.New(catalog.Kinds, func(c store.Change) { loops.Observe(c) })
	objects := &registry.Registry{Store: s.store, Catalog: catalog, Admission: admission.New(s.store, catalog)}
	ca, err := os.ReadFile(o.Certificates.CA)
	if err != nil {
		return nil, fmt.Errorf("read the certificate authority: %w", err)
	}
	loops = controllers.New(objects, controllers.Options{CA: string(ca), Refuse: o.Refuse})
	if err := s.store.Restore(filepath.Join(o.Dir, stateFile), catalog); err != nil {
		return nil, err
	}
	if err := loops.Bootstrap(); err != nil {
		return nil, err
	}
	if s.http, err = newHTTPServer(running, o, objects); err != nil {
		return nil, err
	}
	s.parts.Go(func() { loops.Run(running) })
	s.parts.Go(func() {
		defer close(s.done)
		err := s.http.ServeTLS(o.Listener, "", "")
		if !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) { // by the owner of the listener
			slog.Error("the embedded API server ended", "error", err)
		}
	})
	return s, nil
}

// newHTTPServer returns the server of the API.
func newHTTPServer(running context.Context, o Options, objects *registry.Registry) (*http.Server, error) {
	key, err := readKey(o.Certificates.ServiceAccountKey)
	if err != nil {
		return nil, err
	}
	kubelets, err := kubeletTransport(o.Kubelets)
	if err != nil {
		return nil, err
	}
	handler, err := apiserver.New(apiserver.Options{
		Catalog: objects.Catalog, Registry: objects, Kubelets: kubelets, AccountKey: key, Stopping: running,
	})
	if err != nil {
		return nil, err
	}
	files := o.Certificates
	certificate, clients, err := pki.Read(files.ServingCert, files.ServingKey, files.CA)
	if err != nil {
		return nil, fmt.Errorf("serve the API: %w", err)
	}
	return &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second,
		HTTP2:    &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
		ErrorLog: slog.NewLogLogger(slog.Default().Handler(), slog.LevelDebug),
		TLSConfig: &tls.Config{
			MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{certificate}, ClientCAs: clients,
			ClientAuth: tls.VerifyClientCertIfGiven,
		},
	}, nil
}

// kubeletTransport reaches kubelets as the API server. Their streams need HTTP/1.1.
func kubeletTransport(files pki.KubeletFiles) (http.RoundTripper, error) {
	certificate, roots, err := pki.Read(files.ClientCert, files.ClientKey, files.CA)
	if err != nil {
		return nil, fmt.Errorf("connect to kubelets: %w", err)
	}
	return &http.Transport{
		TLSClientConfig: &tls.Config{
			MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{certificate}, RootCAs: roots,
		},
		TLSHandshakeTimeout: 5 * time.Second, IdleConnTimeout: 10 * time.Second, DisableCompression: true,
	}, nil
}

// readKey reads the key that signs the tokens of service accounts.
func readKey(path string) (*ecdsa.PrivateKey, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the key of service accounts: %w", err)
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("%s has no key", path)
	}
	key, err := x509.ParseECPrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("read the key of service accounts: %w", err)
	}
	return key, nil
}

// Done is closed when the server no longer accepts requests, for any reason.
func (s *Server) Done() <-chan struct{} { return s.done }

// Close ends the server and saves its objects. It may be called again.
func (s *Server) Close() error { return s.close() }

func (s *Server) end() error {
	s.stop()
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = s.http.Close()
	}
	if errors.Is(err, net.ErrClosed) { // by the owner of the listener
		err = nil
	}
	s.parts.Wait()
	s.store.RLock()
	defer s.store.RUnlock()
	return errors.Join(err, s.store.Save(filepath.Join(s.dir, stateFile)))
}
