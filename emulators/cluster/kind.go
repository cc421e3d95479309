//go:build unix

package cluster

import "fmt"

// Kind is the kind of a cluster's control plane. The zero value is Embedded.
type Kind string

const (
	// Embedded is an API server that is part of this program. It has no custom resources, and no node that runs
	// containers.
	Embedded Kind = "embedded"
	// Real is etcd and Kubernetes' API server, controllers and scheduler, as a child of this process.
	Real Kind = "real"
)

// UnmarshalText reads a kind, such as a flag. Empty text is Embedded.
func (k *Kind) UnmarshalText(text []byte) error {
	switch kind := Kind(text); kind {
	case Embedded, Real:
		*k = kind
	case "":
		*k = Embedded
	default:
		return fmt.Errorf("cluster %q: want %s or %s", text, Embedded, Real)
	}
	return nil
}

// MarshalText writes a kind for UnmarshalText.
func (k Kind) MarshalText() ([]byte, error) {
	if k == "" {
		return []byte(Embedded), nil
	}
	return []byte(k), nil
}
