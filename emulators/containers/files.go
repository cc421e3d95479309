package main

import (
	"bytes"
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"text/template"
)

const (
	containerdSocket = "/run/containerd/containerd.sock"
	clusterDomain    = "cluster.local"
)

//go:embed files
var templates embed.FS

// file returns the path of one of the configuration files.
func (c config) file(name string) string { return filepath.Join(c.Dir, "etc", name) }

// writeFiles writes the configuration of the node's programs.
func writeFiles(c config) error {
	all, err := template.New("").Option("missingkey=error").ParseFS(templates, "files/*")
	if err != nil {
		return err
	}
	pause, err := os.ReadFile(c.file(pauseImage))
	if err != nil {
		return fmt.Errorf("read the reference of the image of pause: %w", err)
	}
	values := map[string]any{
		"Config": c, "Etc": c.file(""), "Socket": containerdSocket, "Pause": string(pause), "Node": nodeAddress,
		"Pods": podRange, "Port": kubeletPort, "Resolver": resolverAddress, "Domain": clusterDomain,
		"Registry": registry, "Uplink": worldUplink,
	}
	for name, at := range map[string]string{
		"containerd.toml": "containerd.toml", "kubelet.yaml": "kubelet.yaml", "runsc.toml": "runsc.toml",
		"ptp.conflist": "cni/10-ptp.conflist", "hosts.toml": "registries/" + registryName + "/hosts.toml",
		"resolv.conf": "resolv.conf",
	} {
		var text bytes.Buffer
		if err := all.ExecuteTemplate(&text, name, values); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
		if err := os.MkdirAll(filepath.Dir(c.file(at)), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(c.file(at), text.Bytes(), 0o600); err != nil {
			return err
		}
	}
	return nil
}
