//go:build unix

package gcloud

import (
	"context"
	"fmt"
)

// Running is a running emulator: an official one, or one embedded in this program.
type Running struct {
	// Of is the name of what it emulates, such as "Pub/Sub".
	Of string
	// Host is its address, host:port.
	Host string
	// Kind is "official", "embedded" or "attached".
	Kind string

	server Serving
}

// Serving is a server of any kind.
type Serving interface {
	// Close ends it. It returns an error if the server had exited before.
	Close() error
	// Done is closed when its process has exited. It is nil without a child process.
	Done() <-chan struct{}
}

// Kinds describes an emulator in all its kinds.
type Kinds struct {
	// Of is the name of what it emulates, such as "Pub/Sub".
	Of     string
	Choice Choice
	// Attach is the address of a running emulator to use instead of starting one.
	Attach string
	// Official is the official emulator, and Dir the directory for its log.
	Official Emulator
	Dir      string
	// Embedded starts the embedded emulator and returns its address.
	Embedded func(ctx context.Context) (Serving, string, error)
}

// Run starts the chosen emulator, or attaches to a running one. If the choice is Official and it is missing, the error
// says what to install.
func Run(ctx context.Context, k Kinds) (*Running, error) {
	if k.Attach != "" {
		s, err := Attach(ctx, k.Official.Name, k.Attach)
		return k.running(s, "attached", err)
	}
	return OrEmbedded(k.Choice,
		func() (*Running, error) {
			s, err := Start(ctx, k.Official, k.Dir)
			return k.running(s, "official", err)
		},
		func() (*Running, error) {
			s, addr, err := k.Embedded(ctx)
			if err != nil {
				return nil, err
			}
			return &Running{Of: k.Of, Host: addr, Kind: "embedded", server: s}, nil
		})
}

func (k Kinds) running(s *Server, kind string, err error) (*Running, error) {
	if err != nil {
		return nil, err
	}
	return &Running{Of: k.Of, Host: s.Address, Kind: kind, server: s}, nil
}

// Done is closed when the emulator's process has exited. It is nil without a child process.
func (r *Running) Done() <-chan struct{} { return r.server.Done() }

// Close ends the emulator and drops its data. It returns an error if the emulator had exited before.
func (r *Running) Close() error { return r.server.Close() }

// String names it and its address.
func (r *Running) String() string { return fmt.Sprintf("the %s %s at %s", r.Kind, r.Of, r.Host) }
