package apiserver

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// writeEgress writes the configuration that sends connections to servers of the cluster through a proxy, and returns
// its path.
func writeEgress(dir, socket string) (string, error) {
	type object = map[string]any
	config, err := json.Marshal(object{
		"apiVersion": "apiserver.k8s.io/v1beta1", "kind": "EgressSelectorConfiguration",
		"egressSelections": []object{{"name": "cluster", "connection": object{
			"proxyProtocol": "HTTPConnect", "transport": object{"uds": object{"udsName": socket}},
		}}},
	})
	if err != nil {
		return "", fmt.Errorf("encode the egress configuration: %w", err)
	}
	file := filepath.Join(dir, "egress.json")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		return "", fmt.Errorf("write the egress configuration: %w", err)
	}
	return file, nil
}
