//go:build unix

package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"

	"agents.example/controlplane/emulators/cluster/bootstrap"
	"agents.example/controlplane/emulators/cluster/pki"
	"agents.example/controlplane/emulators/kubeclient"
	"agents.example/controlplane/emulators/kubernetesemu"
	"agents.example/controlplane/emulators/simulator"
	"agents.example/controlplane/emulators/simulator/kubeletserver"
)

// starting is a cluster that starts.
type starting struct {
	options Options
	dir     string // absolute
	binary  string // of a real control plane
	parts   *group

	certificates pki.Files
	listener     *net.TCPListener // of the API server
	kubelets     kubeletserver.Endpoint
	kubeletFiles pki.KubeletFiles
	kubeconfig   string
	client       *kubeclient.Client
	simulator    *simulator.Simulator
	plane        controlPlane
}

// controlPlane is an API server with its controllers and scheduler.
type controlPlane interface {
	Close() error
	Done() <-chan struct{}
}

// start returns when the cluster can be used. The caller ends the parts, then the control plane if there is one.
func (s *starting) start(ctx context.Context) error {
	if err := s.listen(ctx); err != nil {
		return err
	}
	if err := s.connect(); err != nil {
		return err
	}
	if err := s.makeSimulator(); err != nil {
		return err
	}
	if err := s.startControlPlane(ctx); err != nil {
		return err
	}
	s.parts.run("control plane", func(ctx context.Context) error {
		select {
		case <-s.plane.Done():
		case <-ctx.Done():
		}
		return nil
	})
	s.parts.run("simulator", s.simulator.Run)
	nodes := s.options.Nodes
	if nodes == 0 {
		nodes = defaultNodes
	}
	if err := s.simulator.EnsureNodes(ctx, nodes); err != nil {
		return err
	}
	return s.bootstrap(ctx)
}

// listen opens the sockets of the API server and the kubelets, and makes the certificates.
func (s *starting) listen(ctx context.Context) (err error) {
	if err = os.MkdirAll(s.dir, 0o700); err != nil {
		return fmt.Errorf("make the state directory: %w", err)
	}
	if s.certificates, err = pki.Ensure(s.dir); err != nil {
		return err
	}
	if s.kubelets, err = kubeletserver.Listen(ctx); err != nil {
		return err
	}
	s.parts.owned = append(s.parts.owned, s.kubelets.Listener)
	if s.kubeletFiles, err = pki.Kubelet(s.dir, s.kubelets.Address.Addr()); err != nil {
		return err
	}
	if s.listener, err = listenLoopback(ctx, s.options.Addr); err != nil {
		return err
	}
	s.parts.owned = append(s.parts.owned, s.listener)
	return nil
}

// listenLoopback refuses addresses other than loopback: the serving certificate is for loopback only, and a local
// cluster must not be reachable from elsewhere.
func listenLoopback(ctx context.Context, addr string) (*net.TCPListener, error) {
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen for the API server: %w", err)
	}
	tcp, ok := listener.(*net.TCPListener)
	if !ok || !tcp.Addr().(*net.TCPAddr).IP.IsLoopback() {
		return nil, errors.Join(fmt.Errorf("listen address %s is not a loopback address; use 127.0.0.1", addr),
			listener.Close())
	}
	return tcp, nil
}

// connect writes the administrator's kubeconfig and makes a client of it.
func (s *starting) connect() error {
	s.kubeconfig = filepath.Join(s.dir, "kubeconfig")
	k, err := pki.WriteKubeconfig(s.kubeconfig, pki.Access{
		Server: "https://" + s.listener.Addr().String(), CA: s.certificates.CA,
		ClientCert: s.certificates.AdminCert, ClientKey: s.certificates.AdminKey,
	})
	if err != nil {
		return err
	}
	config, err := clientcmd.NewDefaultClientConfig(*k, nil).ClientConfig()
	if err == nil {
		s.client, err = kubeclient.New(config)
	}
	if err != nil {
		return fmt.Errorf("make a client of the kubeconfig: %w", err)
	}
	s.parts.owned = append(s.parts.owned, closer(s.client.Close))
	return nil
}

// closer is a Close that does not fail.
type closer func()

// Close implements io.Closer.
func (c closer) Close() error {
	c()
	return nil
}

// makeSimulator makes the simulator, which logs to simulator.log, and serves the kubelets' API.
func (s *starting) makeSimulator() error {
	images := map[string]string{}
	for image, programs := range s.options.Images {
		dir, err := filepath.Abs(programs)
		if err != nil {
			return fmt.Errorf("resolve the directory of image %s: %w", image, err)
		}
		images[image] = dir
	}
	file, err := os.Create(filepath.Join(s.dir, "simulator.log"))
	if err != nil {
		return fmt.Errorf("create the simulator's log: %w", err)
	}
	s.parts.owned = append(s.parts.owned, file)
	log := slog.New(slog.NewTextHandler(io.Writer(file), nil))
	s.simulator, err = simulator.New(s.client, simulator.Options{
		Dir: s.dir, Images: images, Kubelets: s.kubelets.Address, Block: s.kubelets.Block,
		NodeSocket: s.options.NodeSocket, Log: log,
	})
	if err != nil {
		return err
	}
	s.parts.run("kubelets' API", func(ctx context.Context) error {
		return kubeletserver.Serve(ctx, s.kubelets.Listener, kubeletserver.Options{
			Files: s.kubeletFiles, Pods: s.simulator, Log: log,
		})
	})
	return nil
}

func (s *starting) startControlPlane(ctx context.Context) error {
	if s.options.Kind == Real {
		child, err := s.startReal(ctx)
		if err != nil {
			return err
		}
		s.plane = child
		return nil
	}
	server, err := kubernetesemu.Start(ctx, kubernetesemu.Options{
		Dir: s.dir, Listener: s.listener, Certificates: s.certificates, Kubelets: s.kubeletFiles,
		Refuse: s.simulator.Refuse,
	})
	if err != nil {
		return err
	}
	s.plane = server
	return nil
}

// bootstrap makes the objects that every cluster has, and waits until the cluster works.
func (s *starting) bootstrap(ctx context.Context) error {
	fence, err := fenceFile()
	if err != nil {
		return err
	}
	o := bootstrap.Options{GVisor: !s.options.NoGVisor, Fence: fence, RealNode: s.options.NodeSocket != ""}
	if s.options.Kind == Real {
		if o.CRDs, err = gatewayCRDs(ctx); err != nil {
			return err
		}
		snapshots, err := sourceFile("emulators", "cluster", "snapshots.yaml")
		if err != nil {
			return err
		}
		o.CRDs = append(o.CRDs, snapshots)
	}
	return bootstrap.Run(ctx, s.client, o)
}
