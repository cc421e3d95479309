//go:build unix

// Package node runs one real Kubernetes node for a local cluster, as a child of this process: pods become containers in
// gVisor, or in runc where that is installed, and network policies are enforced. It needs Linux and root.
//
// It builds the node's programs from the nested modules emulators/containers and emulators/kubernetes, once for each
// state of their sources. The package comment of emulators/containers says how the node is isolated.
package node

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"agents.example/controlplane/emulators/cluster"
	"agents.example/controlplane/emulators/process"
)

const (
	// startTimeout bounds what takes seconds on an idle machine.
	startTimeout = 5 * time.Minute
	// stopGrace is longer than the node takes to end and to remove its control groups.
	stopGrace = 15 * time.Second
	// maxSocketPath is the longest path of a Unix socket that every Linux accepts.
	maxSocketPath = 107
)

// Name is the node's name in the cluster.
const Name = "real-0"

// Image says where an image comes from. Exactly one field is set.
type Image struct {
	// Programs is a directory of static programs, which the image has in /ko-app.
	Programs string `json:",omitempty"`
	// Program is the file of a static program, which the image runs.
	Program string `json:",omitempty"`
	// Tarball is a file that `docker save` wrote, or one with an OCI layout. If it holds several images, "#" and the
	// name of one follow the file's name.
	Tarball string `json:",omitempty"`
	// Reference is pulled from its registry, with the credentials of `docker login`.
	Reference string `json:",omitempty"`
}

// Options configure Start.
type Options struct {
	// Dir holds the node's state, logs and sockets. Required; its path must be short enough for Unix sockets.
	Dir string
	// Cluster is the cluster that the node joins, which was started with the Socket of Dir. Required.
	Cluster *cluster.Cluster `json:"-"`
	// Images maps names to the images that pods may pull.
	Images map[string]Image
	// Insecure is the host and port of a registry without TLS. References without a host are of this registry.
	Insecure string
	// Roots is a file with certificates that the programs of Images trust. It may be empty.
	Roots string
	// Hosts maps addresses that pods can connect to, such as 203.0.113.20:80, to addresses of this machine. Pods
	// resolve Names.
	Hosts, Names map[string]string
	// Runc is the path of runc, which then runs the pods that need no sandbox. Otherwise gVisor runs all.
	Runc string
}

// Node is a running node. Its methods may be called from any goroutine.
type Node struct {
	// Images maps the names of Options.Images to references by digest.
	Images map[string]string
	// Warnings say why pods of agents would not start with an image.
	Warnings []string

	process *process.Process
	dir     string
}

// Socket returns the path of the Unix socket by which the API server of a cluster reaches the kubelet of the node in
// dir. It exists when the node runs.
func Socket(dir string) string { return filepath.Join(dir, "node.sock") }

// Start builds the node's programs if they are missing, and returns when the node takes pods. ctx bounds only the
// start. The node cannot outlive this process, even if this process is killed. Close ends it.
func Start(ctx context.Context, o Options) (*Node, error) {
	programs, err := Build(ctx, nil)
	if err != nil {
		return nil, err
	}
	file, err := o.write(programs)
	if err != nil {
		return nil, fmt.Errorf("start a node: %w", err)
	}
	n := &Node{dir: o.Dir}
	log := filepath.Join(o.Dir, "node.log")
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("timed out after %s", startTimeout))
	defer cancel()
	n.process, err = process.Start(ctx, process.Options{
		Name: "the node " + Name, Path: filepath.Join(programs, "node"), Args: []string{"up", "-config", file},
		LogFile: log, Grace: stopGrace, EndsWithInput: true,
		Ready: func(context.Context) error { return n.read(log) },
	})
	if err != nil {
		return nil, fmt.Errorf("%w\nSee also the logs in %s", err, o.Dir)
	}
	return n, nil
}

// write writes the configuration of the node.
func (o Options) write(programs string) (file string, err error) {
	if o.Dir == "" {
		return "", errors.New("Options.Dir is empty")
	}
	if o.Dir, err = filepath.Abs(o.Dir); err != nil {
		return "", err
	}
	if longest := filepath.Join(o.Dir, "host-203.0.113.255-65535.sock"); len(longest) > maxSocketPath {
		return "", fmt.Errorf("the path %s is too long for Unix sockets; set TMPDIR to a shorter one", o.Dir)
	}
	if err := os.MkdirAll(o.Dir, 0o711); err != nil { // containers' users pass through it
		return "", err
	}
	settings := struct {
		Options
		Programs, Cluster, API string
	}{Options: o, Programs: programs}
	if o.Cluster != nil {
		config, err := clientcmd.BuildConfigFromFlags("", o.Cluster.Kubeconfig)
		if err != nil {
			return "", fmt.Errorf("read the address of the API server: %w", err)
		}
		settings.Cluster, settings.API = o.Cluster.NodeFiles(), strings.TrimPrefix(config.Host, "https://")
	}
	text, err := json.Marshal(settings)
	if err != nil {
		return "", err
	}
	file = filepath.Join(o.Dir, "node.json")
	return file, os.WriteFile(file, text, 0o600)
}

// read reads what the node printed, until it is ready.
func (n *Node) read(log string) error {
	file, err := os.Open(log)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	images, warnings := map[string]string{}, []string(nil)
	for lines := bufio.NewScanner(file); lines.Scan(); {
		kind, rest, _ := strings.Cut(lines.Text(), " ")
		switch kind {
		case "image":
			name, reference, _ := strings.Cut(rest, "=")
			images[name] = reference
		case "warning":
			warnings = append(warnings, rest)
		case "ready":
			n.Images, n.Warnings = images, warnings
			return nil
		}
	}
	return errors.New("the node is not ready yet")
}

// Pid is the process that started the node's.
func (n *Node) Pid() int { return n.process.Pid() }

// Done is closed when the node has ended, for any reason.
func (n *Node) Done() <-chan struct{} { return n.process.Done() }

// Close ends the node and all containers. It may be called again. It returns an error if the node had ended before.
func (n *Node) Close() error { return n.process.Close() }

// DialContext connects to an address in the node's network, such as a pod's, from the address of a load balancer.
func (n *Node) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return n.DialFrom(ctx, "", network, address)
}

// DialFrom connects like DialContext, from an address of the world.
func (n *Node) DialFrom(ctx context.Context, source, _, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", filepath.Join(n.dir, "gateway.sock"))
	if err != nil {
		return nil, fmt.Errorf("enter the node's network: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	req := "CONNECT " + address + " HTTP/1.1\r\nHost: " + address + "\r\n"
	if source != "" {
		req += "X-Source: " + source + "\r\n"
	}
	r := bufio.NewReader(conn)
	_, err = conn.Write([]byte(req + "\r\n"))
	var res *http.Response
	if err == nil {
		res, err = http.ReadResponse(r, &http.Request{Method: http.MethodConnect}) //nolint:bodyclose // no body
	}
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("the node's network refuses the connection: %s", res.Status)
	}
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("connect to %s: %w", address, errors.Join(err, ctx.Err()))
	}
	return &connection{Conn: conn, r: r}, nil
}

// connection is a connection of which the answer's reader may have read ahead.
type connection struct {
	net.Conn
	r *bufio.Reader
}

func (c *connection) Read(p []byte) (int, error) { return c.r.Read(p) }

// CloseWrite ends what is sent, and leaves what is received open.
func (c *connection) CloseWrite() error { return c.Conn.(*net.UnixConn).CloseWrite() }
