package pki

import (
	"fmt"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Access is how a user reaches an API server. The certificates and the key are paths of PEM files.
type Access struct {
	Server     string // URL
	CA         string // of the server
	ClientCert string
	ClientKey  string
}

// WriteKubeconfig writes a kubeconfig to path, and returns the same for this process. It needs no other file, so that
// it may be copied.
func WriteKubeconfig(path string, a Access) (*clientcmdapi.Config, error) {
	const name = "local"
	k := clientcmdapi.NewConfig()
	k.CurrentContext = name
	k.Clusters[name] = &clientcmdapi.Cluster{Server: a.Server, CertificateAuthority: a.CA}
	k.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificate: a.ClientCert, ClientKey: a.ClientKey}
	k.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	if err := clientcmdapi.FlattenConfig(k); err != nil {
		return nil, fmt.Errorf("read the certificates for kubeconfig %s: %w", path, err)
	}
	if err := clientcmd.WriteToFile(*k, path); err != nil {
		return nil, fmt.Errorf("write kubeconfig %s: %w", path, err)
	}
	return k, nil
}
