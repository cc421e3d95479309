package config

import (
	"fmt"
	"strings"
)

// EdgeSecrets are secrets that are redacted when printed: the present one, and those that may
// replace it or that it replaced.
type EdgeSecrets []string

const (
	minEdgeSecret   = 32
	mostEdgeSecrets = 3
)

// EnvDecode implements envconfig.Decoder. Its error never contains the value.
func (s *EdgeSecrets) EnvDecode(value string) error {
	if value == "" {
		return nil
	}
	secrets := strings.Split(value, ",")
	if len(secrets) > mostEdgeSecrets {
		return fmt.Errorf("want at most %d values, separated by commas", mostEdgeSecrets)
	}
	for _, secret := range secrets {
		if len(secret) < minEdgeSecret || strings.TrimSpace(secret) != secret {
			return fmt.Errorf("want values of at least %d characters, separated by commas", minEdgeSecret)
		}
	}
	*s = secrets
	return nil
}

// String redacts the secrets.
func (EdgeSecrets) String() string { return "[redacted]" }

// GoString redacts the secrets.
func (EdgeSecrets) GoString() string { return "[redacted]" }
