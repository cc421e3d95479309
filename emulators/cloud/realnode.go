package cloud

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	secretmanager "cloud.google.com/go/secretmanager/apiv1"
	"cloud.google.com/go/secretmanager/apiv1/secretmanagerpb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"agents.example/controlplane/emulators/dataplane"
	"agents.example/controlplane/emulators/node"
	"agents.example/controlplane/shared/function"
)

// NodeOptions configure a node that runs pods as containers.
type NodeOptions struct {
	// AgentImage is the image of agents; nil is the sample agent of the control plane's image.
	AgentImage *node.Image
	// Images are further images of the node's registry, by name.
	Images map[string]node.Image
	// Registry is the host and port of a registry without TLS. References without a host are of this registry.
	Registry string
	// Hosts maps what pods can connect to, a name of the internet and a port, to addresses of this machine.
	Hosts map[string]string
	// Roots is a file with the certificates that the gate and images of programs trust; empty is that of this machine.
	Roots string
	// Runc is the path of runc, which then runs the pods that need no sandbox. Otherwise gVisor runs all.
	Runc string
}

// Names of images in the node's registry.
const (
	platformImage = "platform"
	agentImage    = "agent"
)

// The API's name and address in the network of a real node. Fronts fetch keys from there, and their network policy
// admits addresses of the internet only.
const (
	apiName    = "control-plane.example"
	apiAddress = "203.0.113.20"
)

// Addresses in the network of a real node at which the cell's programs reach the notifier and the emulators. As all
// private addresses, agents cannot reach them.
func notifierAt() netip.AddrPort { return netip.MustParseAddrPort("10.99.0.20:8080") }
func pubsubAt() netip.AddrPort   { return netip.MustParseAddrPort("10.99.0.21:443") }
func secretsAt() netip.AddrPort  { return netip.MustParseAddrPort("10.99.0.22:443") }

const (
	// gateService is the address of the gate's Service in the cluster of a real node.
	gateService = "10.96.0.53"
	// world has the names that pods of a real node resolve.
	world = "203.0.113.0/24"
	// podTime bounds the start of a pod of the cell. It takes seconds.
	podTime = 5 * time.Minute
)

// nodeDir is the directory of the node's state. It has a short name: paths of Unix sockets have a limit.
func (c *Cloud) nodeDir() string { return filepath.Join(c.options.Dir, "node") }

// checkNode refuses options that a real node cannot have.
func (o Options) checkNode() error {
	switch {
	case o.Node == nil:
		return nil
	case o.Kubeconfig != "":
		return errors.New("a real node joins the local cluster only: leave out the kubeconfig")
	case o.Binaries != "":
		return errors.New("a real node needs programs that are linked statically: leave out the binaries")
	default:
		return nil
	}
}

// startNode starts the real node, if there is one.
func (c *Cloud) startNode(ctx context.Context) error {
	o := c.options.Node
	if o == nil {
		return nil
	}
	programs, err := dataplane.BuildImage(ctx)
	if err != nil {
		return err
	}
	images := map[string]node.Image{platformImage: {Programs: programs}}
	maps.Copy(images, o.Images)
	if o.AgentImage != nil {
		images[agentImage] = *o.AgentImage
	}
	if err := c.startModel(ctx); err != nil {
		return err
	}
	hosts, names, err := c.internet(o.Hosts)
	if err != nil {
		return err
	}
	n, err := node.Start(ctx, node.Options{
		Dir: c.nodeDir(), Cluster: c.cluster, Images: images, Insecure: o.Registry, Runc: o.Runc,
		Hosts: hosts, Names: names, Roots: cmp.Or(o.Roots, systemRoots()),
	})
	if err != nil {
		return err
	}
	c.Node = n
	c.closeLater(n.Close)
	c.watchPart("The node "+node.Name, n.Done())
	runtimes := "gVisor"
	if o.Runc != "" {
		runtimes = "runc and gVisor"
	}
	c.progress("  %-18s %s", "Node", node.Name+", containers in "+runtimes)
	for _, w := range n.Warnings {
		c.progress("  Warning: %s", w)
	}
	return nil
}

// maxHosts bounds the hosts that pods can reach: each name has its address.
const maxHosts = 100

// internet returns what pods can connect to, by address and port, and the addresses of names: the API, the model, and
// chosen hosts.
func (c *Cloud) internet(chosen map[string]string) (hosts, names map[string]string, err error) {
	hosts = map[string]string{
		net.JoinHostPort(apiAddress, "80"):   c.listener.Addr().String(),
		net.JoinHostPort(modelAddress, "80"): c.Model.addr,
		pubsubAt().String():                  c.Ready.PubSubEmulatorHost,
		secretsAt().String():                 c.Secrets.Addr,
	}
	if c.notifier != "" {
		hosts[notifierAt().String()] = c.notifier
	}
	names = map[string]string{apiName: apiAddress, ModelHost: modelAddress}
	if len(chosen) > maxHosts {
		return nil, nil, fmt.Errorf("pods can reach %d hosts at most, not %d", maxHosts, len(chosen))
	}
	next := netip.MustParseAddr("203.0.113.100")
	for _, at := range slices.Sorted(maps.Keys(chosen)) {
		name, port, err := net.SplitHostPort(at)
		if err != nil {
			return nil, nil, fmt.Errorf("host %q: want a name and a port, such as model.example:443", at)
		}
		if names[name] == "" {
			names[name] = next.String()
			next = next.Next()
		}
		hosts[net.JoinHostPort(names[name], port)] = chosen[at]
	}
	return hosts, names, nil
}

// useNode changes the environment of functions to that of a cluster with a real node.
func (c *Cloud) useNode(env map[string]string) {
	if c.Node == nil {
		return
	}
	env["PLATFORM_IMAGE"] = c.Node.Images[platformImage]
	if image := c.Node.Images[agentImage]; image != "" {
		env["AGENT_IMAGE"] = image
	}
	env["JWKS_URL"] = "http://" + apiName + "/.well-known/jwks.json"
}

// startRouterPod starts the router as a pod of the real node.
func (c *Cloud) startRouterPod(ctx context.Context) (*dataplane.Router, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, podTime, fmt.Errorf("timed out after %s", podTime))
	defer cancel()
	o := dataplane.RouterPodOptions{
		Kubeconfig: c.Ready.Kubeconfig, Domain: cellDomain, Image: c.Node.Images[platformImage],
		Dial: c.Node.DialContext,
	}
	if c.notifier != "" {
		o.Notifier = notifierAt()
	}
	return dataplane.StartRouterPod(ctx, o)
}

// startGatePod starts the gate as a pod of the real node.
func (c *Cloud) startGatePod(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, podTime, fmt.Errorf("timed out after %s", podTime))
	defer cancel()
	secret, err := c.createGateSecret(ctx)
	if err != nil {
		return err
	}
	return dataplane.StartGatePod(ctx, dataplane.GatePodOptions{
		Kubeconfig: c.Ready.Kubeconfig, Image: c.Node.Images[platformImage], Address: gateService,
		Project: c.Ready.ProjectID, Topic: string(function.EgressReports), CASecret: secret,
		PubSub: pubsubAt(), Secrets: secretsAt(), AllowedRanges: world,
	})
}

// createGateSecret creates the secret from which the CAs of agents follow, as Terraform does, and returns its version.
func (c *Cloud) createGateSecret(ctx context.Context) (version string, err error) {
	client, err := secretmanager.NewClient(ctx, option.WithEndpoint(c.Secrets.Addr), option.WithoutAuthentication(),
		option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())))
	if err != nil {
		return "", fmt.Errorf("connect to Secret Manager: %w", err)
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	automatic := &secretmanagerpb.Replication{Replication: &secretmanagerpb.Replication_Automatic_{
		Automatic: &secretmanagerpb.Replication_Automatic{},
	}}
	secret, err := client.CreateSecret(ctx, &secretmanagerpb.CreateSecretRequest{
		Parent: "projects/" + c.Ready.ProjectID, SecretId: dataplane.Environment + "-gate-ca",
		Secret: &secretmanagerpb.Secret{Replication: automatic},
	})
	if err != nil {
		return "", fmt.Errorf("create the gate's secret: %w", err)
	}
	value := make([]byte, 32) //nolint:mnd // as long as a key of its CAs
	_, _ = rand.Read(value)   // never fails
	added, err := client.AddSecretVersion(ctx, &secretmanagerpb.AddSecretVersionRequest{
		Parent: secret.GetName(), Payload: &secretmanagerpb.SecretPayload{Data: value},
	})
	if err != nil {
		return "", fmt.Errorf("create the gate's secret: %w", err)
	}
	return added.GetName(), nil
}

// systemRoots is the file of the certificates that this machine trusts; empty if it is not where Debian has it.
func systemRoots() string {
	const name = "/etc/ssl/certs/ca-certificates.crt"
	if _, err := os.Stat(name); err != nil {
		return ""
	}
	return name
}
