// Package apiserver runs a real kube-apiserver over an embedded etcd in this process, both configured for one local
// user. It uses certificates and a kubeconfig that package cluster made. It does not run controllers or nodes.
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
)

// Options configure Start; all but Egress are required.
type Options struct {
	Dir      string       // state: certificates, keys, kubeconfig, etcd's data; the working directory
	Listener net.Listener // of a loopback address
	// ClientCA and KubeletCA are the files of the certificate authorities of clients and of kubelets.
	ClientCA, KubeletCA string
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
	allowLoopbackEndpoints()
	completed, err := complete(ctx, o, endpoint)
	if err != nil {
		return nil, errors.Join(err, o.Listener.Close())
	}
	s := &Server{Kubeconfig: filepath.Join(o.Dir, "kubeconfig")}
	if s.Config, err = clientcmd.BuildConfigFromFlags("", s.Kubeconfig); err != nil {
		return nil, errors.Join(fmt.Errorf("make a client of the kubeconfig: %w", err), o.Listener.Close())
	}
	s.Config.QPS = -1 // the server's own limits answer 429; a second limit in the client only slows everything down

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

func complete(ctx context.Context, o Options, etcd string) (options.CompletedOptions, error) {
	args, err := arguments(o, etcd)
	if err != nil {
		return options.CompletedOptions{}, err
	}
	s := options.NewServerRunOptions()
	if err := component.Parse("kube-apiserver", s.Flags(), args); err != nil {
		return options.CompletedOptions{}, err
	}
	s.SecureServing.Listener = o.Listener
	s.SecureServing.BindPort = o.Listener.Addr().(*net.TCPAddr).Port
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
	in := func(name string) string { return filepath.Join(o.Dir, name) }
	args := []string{
		"--etcd-servers=" + etcd,
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1",
		// The reconciler of the kubernetes Service's endpoints refuses a loopback address and delays the stop.
		"--endpoint-reconciler-type=none",
		"--service-cluster-ip-range=10.96.0.0/16",
		"--tls-cert-file=" + in("apiserver.crt"), "--tls-private-key-file=" + in("apiserver.key"),
		"--client-ca-file=" + o.ClientCA,
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + in("service-account.key"),
		"--service-account-signing-key-file=" + in("service-account.key"),
		"--kubelet-certificate-authority=" + o.KubeletCA, "--kubelet-preferred-address-types=InternalIP",
		"--kubelet-client-certificate=" + in("kubelet-client.crt"),
		"--kubelet-client-key=" + in("kubelet-client.key"),
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
