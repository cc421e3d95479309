// Package apiserver runs a real kube-apiserver over an embedded etcd in this process, both configured for one local
// user. It does not run controllers or nodes.
package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"time"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"

	"agents.example/controlplane/emulators/kubernetes/component"
	"agents.example/controlplane/emulators/kubernetes/kubeconfig"
	"agents.example/controlplane/emulators/kubernetes/pki"
)

// Options configure Start; all but Egress are required.
type Options struct {
	Dir      string           // state: etcd's data, kubeconfig
	Addr     string           // loopback host:port to listen on; port 0 picks a free one
	PKI      pki.Files        // certificates and keys
	ClientCA string           // file of the certificate authorities of clients
	Kubelet  pki.KubeletFiles // to read logs from the kubelets
	// Egress is the Unix socket of an HTTP CONNECT proxy, through which the API server then connects to kubelets,
	// webhooks and other servers of the cluster.
	Egress string
}

// Server is a running API server.
type Server struct {
	Config     *rest.Config // of an administrator, without a client-side rate limit
	Kubeconfig string       // path of the same configuration as a file
	stop       func() error
}

// Stop ends the API server, then etcd. What uses the API must have stopped before.
func (s *Server) Stop() error { return s.stop() }

// Start returns when /readyz answers ok. ctx only bounds the start.
func Start(ctx context.Context, o Options) (_ *Server, err error) {
	etcd, endpoint, err := startEtcd(ctx, o.Dir)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			etcd.Close()
		}
	}()
	listener, err := listen(ctx, o.Addr)
	if err != nil {
		return nil, err
	}
	allowLoopbackEndpoints()
	completed, err := complete(ctx, o, endpoint, listener)
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	s := &Server{Kubeconfig: filepath.Join(o.Dir, "kubeconfig")}
	if s.Config, err = connect(s.Kubeconfig, "https://"+listener.Addr().String(), o.PKI); err != nil {
		return nil, errors.Join(err, listener.Close())
	}

	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	go func() { done <- app.Run(running, completed) }()
	s.stop = func() error {
		cancel()
		err := <-done
		etcd.Close()
		if err != nil && !errors.Is(err, context.Canceled) {
			return fmt.Errorf("stop kube-apiserver: %w", err)
		}
		return nil
	}
	if err := s.ready(ctx, done); err != nil {
		cancel()
		return nil, err
	}
	return s, nil
}

// listen refuses addresses other than loopback: the serving certificate is for loopback only, and a test cluster must
// not be reachable from elsewhere.
func listen(ctx context.Context, addr string) (net.Listener, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen for the API server: %w", err)
	}
	if tcp, ok := listener.Addr().(*net.TCPAddr); !ok || !tcp.IP.IsLoopback() {
		return nil, errors.Join(fmt.Errorf("listen address %s is not a loopback address; use 127.0.0.1", addr),
			listener.Close())
	}
	return listener, nil
}

func complete(ctx context.Context, o Options, etcd string, listener net.Listener) (options.CompletedOptions, error) {
	args, err := arguments(o, etcd)
	if err != nil {
		return options.CompletedOptions{}, err
	}
	s := options.NewServerRunOptions()
	if err := component.Parse("kube-apiserver", s.Flags(), args); err != nil {
		return options.CompletedOptions{}, err
	}
	s.SecureServing.Listener = listener
	s.SecureServing.BindPort = listener.Addr().(*net.TCPAddr).Port
	if err := s.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		return options.CompletedOptions{}, fmt.Errorf("set feature gates: %w", err)
	}
	completed, err := s.Complete(ctx)
	if err != nil {
		return options.CompletedOptions{}, fmt.Errorf("configure kube-apiserver: %w", err)
	}
	if errs := completed.Validate(); len(errs) > 0 {
		return options.CompletedOptions{}, fmt.Errorf("configure kube-apiserver: %w", utilerrors.NewAggregate(errs))
	}
	return completed, nil
}

// arguments returns the command line of kube-apiserver.
func arguments(o Options, etcd string) ([]string, error) {
	args := []string{
		"--etcd-servers=" + etcd,
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1",
		// The reconciler of the kubernetes Service's endpoints refuses a loopback address and delays the stop.
		"--endpoint-reconciler-type=none",
		"--service-cluster-ip-range=10.96.0.0/16",
		"--tls-cert-file=" + o.PKI.ServingCert, "--tls-private-key-file=" + o.PKI.ServingKey,
		"--client-ca-file=" + o.ClientCA,
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + o.PKI.ServiceAccountKey,
		"--service-account-signing-key-file=" + o.PKI.ServiceAccountKey,
		"--kubelet-certificate-authority=" + o.Kubelet.CA, "--kubelet-preferred-address-types=InternalIP",
		"--kubelet-client-certificate=" + o.Kubelet.ClientCert, "--kubelet-client-key=" + o.Kubelet.ClientKey,
		withoutEndpointSlices,
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
		"--allow-privileged=true", "--profiling=false",
		// No load balancer needs time to notice the shutdown.
		"--shutdown-delay-duration=0s",
		// Tests of many concurrent agents must measure the control plane, not this server's queues.
		"--max-requests-inflight=2000", "--max-mutating-requests-inflight=1000",
	}
	if o.Egress == "" {
		return args, nil
	}
	file, err := writeEgress(o.Dir, o.Egress)
	return append(args, "--egress-selector-config-file="+file), err
}

// connect writes the administrator's kubeconfig, and returns the same for this process.
func connect(path, host string, files pki.Files) (*rest.Config, error) {
	k, err := kubeconfig.Write(path, kubeconfig.Access{
		Server: host, CA: files.CA, ClientCert: files.AdminCert, ClientKey: files.AdminKey,
	})
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.NewDefaultClientConfig(*k, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("make a client of the kubeconfig: %w", err)
	}
	config.QPS = -1 // the server's own limits answer 429; a second limit in the client only slows everything down
	return config, nil
}

func (s *Server) ready(ctx context.Context, done <-chan error) error {
	client, err := kubernetes.NewForConfig(s.Config)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	var last error
	err = wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		select {
		case err := <-done:
			return false, fmt.Errorf("kube-apiserver ended early: %w", err)
		default:
		}
		_, last = client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		return last == nil, nil
	})
	if err != nil {
		return errors.Join(fmt.Errorf("wait for the API server: %w", err), last)
	}
	return nil
}
