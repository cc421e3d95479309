package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"agents.example/controlplane/emulators/containers/policy"
	"agents.example/controlplane/emulators/containers/resolver"
	"agents.example/controlplane/emulators/containers/tunnel"
)

// poll is how often the start looks whether a part is ready.
const poll = 50 * time.Millisecond

// initialize is PID 1 of the node: when it ends, the kernel ends everything in the node.
func initialize(ctx context.Context, c config, file string) error {
	group, err := passedGroup()
	if err != nil {
		return err
	}
	if err := os.Unsetenv(groupVariable); err != nil {
		return err
	}
	if err := mountAll(group); err != nil {
		return err
	}
	if err := syscall.Sethostname([]byte(nodeName)); err != nil {
		return fmt.Errorf("name the node: %w", err)
	}
	// Runtimes and shims look for programs there.
	path := c.Programs + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	if err := os.Setenv("PATH", path); err != nil {
		return err
	}
	s := newSupervisor(c.Dir)
	if err := s.start("world", "/proc/self/exe", []string{"world", "-config", file}, syscall.CLONE_NEWNET); err != nil {
		return err
	}
	if err := connectWorld(s.pid("world")); err != nil {
		return err
	}
	if err := c.serve(ctx, s); err != nil {
		return err
	}
	if err := writeFiles(c); err != nil {
		return err
	}
	err = s.start("containerd", c.program("containerd"), []string{"--config", c.file("containerd.toml")}, 0)
	if err != nil {
		return err
	}
	if err := await(ctx, func() error { return dials("unix", containerdSocket) }); err != nil {
		return fmt.Errorf("start containerd: %w; see %s", err, filepath.Join(c.Dir, "containerd.log"))
	}
	err = s.start("kubelet", c.program("kubelet"), []string{
		"--config", c.file("kubelet.yaml"), "--kubeconfig", filepath.Join(c.Cluster, "kubeconfig"),
		"--root-dir", filepath.Join(c.Dir, "kubelet"), "--cert-dir", filepath.Join(c.Dir, "kubelet"),
		"--hostname-override", nodeName, "--node-ip", nodeAddress, "--least-cpus", leastCPUs,
		"--node-labels", "topology.kubernetes.io/region=local,topology.kubernetes.io/zone=local-a",
	}, 0)
	if err != nil {
		return err
	}
	go func() {
		if err := c.announce(ctx); err != nil && ctx.Err() == nil {
			slog.Error("the node does not become ready", "error", err)
		}
	}()
	return s.wait(ctx)
}

// serve starts what serves the node's network: the ways to the API server, to the kubelet and to the images, the
// network policies, names, and the addresses of Services.
func (c config) serve(ctx context.Context, s *supervisor) error {
	for at, to := range map[string]string{
		apiServer: "api", net.JoinHostPort(nodeAddress, strconv.Itoa(apiServicePort)): "api", registry: "registry",
	} {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", at)
		if err != nil {
			return err
		}
		s.run("way to "+to, func() error { return tunnel.Forward(ctx, l, tunnel.To("unix", c.socket(to))) })
	}
	l, err := tunnel.Listen(ctx, c.socket("node"))
	if err != nil {
		return err
	}
	s.run("way to the kubelet", func() error {
		return tunnel.Connect(ctx, l, map[string]netip.Addr{nodeName: netip.MustParseAddr(nodeAddress)}, netip.Addr{})
	})
	client, err := c.networkClient()
	if err != nil {
		return err
	}
	enforced := make(chan struct{})
	s.run("network policies", func() error {
		return policy.Run(ctx, policy.Options{
			Client: client, Node: nodeName, Pods: netip.MustParsePrefix(podRange), Ready: func() { close(enforced) },
		})
	})
	s.run("names", func() error {
		return resolver.Run(ctx, resolver.Options{
			Addr:  netip.AddrPortFrom(netip.MustParseAddr(resolverAddress), resolverPort),
			Names: c.Names, Client: client, Domain: clusterDomain,
		})
	})
	s.run("Services", func() error { return proxyServices(ctx, client) })
	select {
	case <-enforced:
		return nil
	case err := <-s.failed:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c config) networkClient() (kubernetes.Interface, error) {
	rest, err := clientcmd.BuildConfigFromFlags("", filepath.Join(c.Cluster, "network.kubeconfig"))
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	return kubernetes.NewForConfig(rest)
}

// announce prints that the node is ready when it takes pods.
func (c config) announce(ctx context.Context) error {
	client, err := c.networkClient()
	if err != nil {
		return err
	}
	this := metav1.ListOptions{FieldSelector: "metadata.name=" + nodeName}
	err = await(ctx, func() error {
		nodes, err := client.CoreV1().Nodes().List(ctx, this)
		if err != nil {
			return err
		}
		for i := range nodes.Items {
			if takesPods(&nodes.Items[i]) {
				return nil
			}
		}
		return errors.New("the node is not ready")
	})
	if err != nil {
		return err
	}
	_, err = fmt.Println("ready")
	return err
}

func takesPods(node *corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue && len(node.Spec.Taints) == 0
		}
	}
	return false
}

func dials(network, address string) error {
	conn, err := net.Dial(network, address) //nolint:noctx // a local socket answers immediately
	if err == nil {
		_ = conn.Close()
	}
	return err
}

// await repeats check until it succeeds or ctx ends.
func await(ctx context.Context, check func() error) error {
	var last error
	err := wait.PollUntilContextCancel(ctx, poll, true, func(context.Context) (bool, error) {
		last = check()
		return last == nil, nil
	})
	if err != nil {
		return errors.Join(err, last)
	}
	return nil
}
