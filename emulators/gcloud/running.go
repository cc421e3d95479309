//go:build unix

package gcloud

import (
	"context"
	"fmt"
)

// Running is an emulator that runs: the official one, or one that is embedded in this program.
type Running struct {
	// Of is what it emulates, as people call it.
	Of string
	// Host is its address, host:port.
	Host string
	// Kind tells people what it is: "official", "embedded" or "attached".
	Kind string

	server Serving
}

// Serving is what the kinds have in common.
type Serving interface {
	// Close ends it. The error tells of one that had ended by itself.
	Close() error
	// Done is closed when its process has ended; nil when it is no process of ours.
	Done() <-chan struct{}
}

// Kinds are the ways to get an emulator.
type Kinds struct {
	// Of is what is emulated, as people call it.
	Of     string
	Choice Choice
	// Attach is the address of a running emulator to use instead of starting one.
	Attach string
	// Official is the official one, and Dir takes its log.
	Official Emulator
	Dir      string
	// Embedded starts the embedded one and answers its address.
	Embedded func(ctx context.Context) (Serving, string, error)
}

// Run starts an emulator as the choice says, or attaches to a running one. Where the official one is asked for and
// missing, the error says what to install.
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

// Done is closed when the emulator's process has ended; nil when it is no process of ours.
func (r *Running) Done() <-chan struct{} { return r.server.Done() }

// Close ends the emulator with what it holds. The error tells of an emulator that had ended by itself.
func (r *Running) Close() error { return r.server.Close() }

// String says what it is, and where.
func (r *Running) String() string { return fmt.Sprintf("the %s %s at %s", r.Kind, r.Of, r.Host) }
