package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"agents.example/controlplane/shared/dataplane"
)

// AgentPort is a port on which an agent's container listens; 0 is none.
type AgentPort int

// EnvDecode implements envconfig.Decoder.
func (p *AgentPort) EnvDecode(value string) error {
	if value == "" {
		return nil
	}
	const lowest, highest = 1024, 65535 // a container without rights cannot listen below
	n, err := strconv.Atoi(value)
	switch {
	case err != nil || n < lowest || n > highest:
		return fmt.Errorf("want a port from %d to %d, got %q", lowest, highest, value)
	case n == dataplane.FrontPort || n == dataplane.FrontMetricsPort:
		return fmt.Errorf("the front of every agent listens on %d: choose another port", n)
	}
	*p = AgentPort(n)
	return nil
}

// HealthPath is a path of an agent's container.
type HealthPath string

// EnvDecode implements envconfig.Decoder.
func (p *HealthPath) EnvDecode(value string) error {
	if value != "" && !strings.HasPrefix(value, "/") {
		return errors.New(`want a path that begins with "/"`)
	}
	*p = HealthPath(value)
	return nil
}

// AgentAuth says who checks the credentials of requests to an agent.
type AgentAuth string

// EnvDecode implements envconfig.Decoder.
func (a *AgentAuth) EnvDecode(value string) error {
	if value != "" && value != dataplane.AuthFront && value != dataplane.AuthImage {
		return fmt.Errorf("want %q or %q, got %q", dataplane.AuthFront, dataplane.AuthImage, value)
	}
	*a = AgentAuth(value)
	return nil
}

// Registries are the beginnings of references to custom images.
type Registries []string

// EnvDecode implements envconfig.Decoder.
func (r *Registries) EnvDecode(value string) error {
	if value == "" {
		return nil
	}
	for registry := range strings.SplitSeq(value, ",") {
		host, _, _ := strings.Cut(registry, "/")
		if !strings.HasSuffix(registry, "/") || !strings.ContainsAny(host, ".:") {
			return fmt.Errorf(`want beginnings with a host that end in "/", such as registry.example.com/team/, got %q`,
				registry)
		}
		*r = append(*r, registry)
	}
	return nil
}
