package main

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"agents.example/controlplane/emulators/cloud"
	"agents.example/controlplane/emulators/node"
)

// The values of the flag -node.
const (
	simulatedNode = "simulated"
	realNode      = "real"
)

// nodeFlags adds the flags of the node. The function that it returns reads them, after they are parsed; its result is
// nil if nodes are simulated.
func nodeFlags(flags *flag.FlagSet) func(kubeconfig string) (*cloud.NodeOptions, error) {
	hosts := map[string]string{}
	flags.Func("host", "`NAME:PORT=ADDRESS`: pods of -node real reach this address of the machine by that name; may be\n"+
		"repeated. They reach a stand-in of a model provider as http://"+cloud.ModelHost+"/v1",
		pairs(hosts, "NAME:PORT=ADDRESS, such as model.example:443=127.0.0.1:18080"))
	kind := flags.String("node", simulatedNode,
		"`where` pods run: simulated (as processes of this machine) or real (as containers of a node;\n"+
			"needs Linux and root)")
	image := flags.String("image", "",
		"the image of agents with -node real: a `reference`, or a file that docker save wrote\n"+
			"(default: the sample agent)")
	registry := flags.String("registry", "",
		"the `host:port` of a registry without TLS; a reference without a host is of this registry")
	return func(kubeconfig string) (*cloud.NodeOptions, error) {
		switch {
		case *kind != simulatedNode && *kind != realNode:
			return nil, fmt.Errorf("unknown value %q of -node; want simulated or real", *kind)
		case *kind == simulatedNode && *image != "":
			return nil, errors.New("-image needs -node real: pods of simulated nodes are processes of this machine")
		case *kind == simulatedNode && *registry != "":
			return nil, errors.New("-registry needs -node real: simulated nodes pull no images")
		case *kind == simulatedNode && len(hosts) > 0:
			return nil, errors.New("-host needs -node real: pods of simulated nodes have the machine's network")
		case *kind == simulatedNode:
			return nil, nil
		case kubeconfig != "":
			return nil, errors.New("-node real and -kubeconfig exclude each other: a real node joins the local cluster")
		}
		if _, _, err := net.SplitHostPort(*registry); *registry != "" && err != nil {
			return nil, fmt.Errorf("-registry must be a host and a port, such as 127.0.0.1:5000: %w", err)
		}
		for at, address := range hosts {
			for _, hostPort := range []string{at, address} {
				if _, _, err := net.SplitHostPort(hostPort); err != nil {
					return nil, fmt.Errorf("-host %s=%s: %w", at, address, err)
				}
			}
		}
		o := &cloud.NodeOptions{Registry: *registry, Runc: findRunc(), Hosts: hosts}
		if *image == "" {
			return o, nil
		}
		var err error
		o.AgentImage, err = readImage(*image)
		return o, err
	}
}

// findRunc returns the path of runc; empty where it is not installed.
func findRunc() string {
	path, err := exec.LookPath("runc")
	if err != nil {
		return ""
	}
	return path
}

// readImage says whether an image is in a file or in a registry. A file may be followed by "#" and the name of one of
// its images.
func readImage(image string) (*node.Image, error) {
	file, _, named := strings.Cut(image, "#")
	info, err := os.Stat(file)
	if isFile := err == nil && info.Mode().IsRegular(); !isFile && !named && !looksLikeFile(file) {
		return &node.Image{Reference: image}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("the file of -image cannot be read: %w", err)
	}
	absolute, err := filepath.Abs(file)
	if err != nil {
		return nil, err
	}
	return &node.Image{Tarball: absolute + strings.TrimPrefix(image, file)}, nil
}

// looksLikeFile reports whether a text is a path and no reference.
func looksLikeFile(image string) bool {
	return strings.HasPrefix(image, "/") || strings.HasPrefix(image, ".") || strings.HasSuffix(image, ".tar") ||
		strings.HasSuffix(image, ".tar.gz") || strings.HasSuffix(image, ".tgz")
}
