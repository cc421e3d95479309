package main

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"

	"agents.example/controlplane/emulators/containers/images"
)

// config is what the node's parts need to know. Package emulators/node writes it.
type config struct {
	// Dir holds the node's state and sockets, Programs the programs that it runs, and Cluster what the cluster made
	// for the node: certificates and kubeconfigs.
	Dir, Programs, Cluster string
	// API is the address of the API server on the host.
	API string
	// Runc is the path of runc; empty runs every pod in gVisor.
	Runc string
	// Images are the images that pods may pull, by name, and Insecure the registry without TLS that they may come from.
	Images   map[string]images.Source
	Insecure string
	// Roots is a file with certificates that images of programs have; empty for none.
	Roots string
	// Hosts are addresses of the host by the addresses in the world that lead there.
	Hosts map[netip.AddrPort]string
	// Names are names of the world.
	Names map[string]netip.Addr
}

func readConfig(file string) (config, error) {
	var c config
	text, err := os.ReadFile(file)
	if err != nil {
		return c, fmt.Errorf("read the node's configuration: %w", err)
	}
	if err := json.Unmarshal(text, &c); err != nil {
		return c, fmt.Errorf("read the node's configuration: %w", err)
	}
	return c, nil
}

// Addresses of the node and its world; see the package comment.
const (
	nodeName        = "real-0"
	kubeletPort     = "10250"
	leastCPUs       = "64" // for the scheduler; agents that wait need none
	apiServer       = "127.0.0.1:6443"
	registry        = "127.0.0.1:5000"
	registryName    = "agents.localhost"
	apiServicePort  = 443
	resolverPort    = 53
	podRange        = "10.77.0.0/20"
	worldInterface  = "world"
	nodeInterface   = "uplink"
	resolverAddress = "169.254.20.10" // of the cache on every node of GKE Autopilot
	nodeAddress     = "10.77.255.1"
	apiService      = "10.96.0.1"
	nodeUplink      = "198.51.100.1"
	worldUplink     = "198.51.100.2"
	uplinkBits      = 30
	loadBalancer    = "35.191.0.10"
)

// greeters are hosts of the world that answer requests: one of the internet, the metadata server, one of a VPC, and a
// front end of Google's.
func greeters() []string {
	return []string{"203.0.113.10", "169.254.169.254", "10.99.0.10", loadBalancer}
}

// socket returns the path of one of the node's Unix sockets.
func (c config) socket(name string) string { return filepath.Join(c.Dir, name+".sock") }

// program returns the path of a program that the node runs.
func (c config) program(name string) string { return filepath.Join(c.Programs, name) }
