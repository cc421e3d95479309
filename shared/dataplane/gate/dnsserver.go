package gate

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"agents.example/controlplane/shared/dataplane/intake"
)

// respond returns the answer to a message from an address, or nil for none. It holds messages of unknown addresses.
func (g *Gate) respond(ctx context.Context, address netip.Addr, message []byte) []byte {
	q, err := parseQuery(message)
	if err != nil {
		g.metrics.queries[outcomeInvalid].Inc()
		return nil
	}
	what, code := outcomeUnknown, dnsmessage.RCodeServerFailure
	if a, ok := g.agentAt(ctx, address); ok {
		what, code = g.decide(a, q)
	}
	g.metrics.queries[what].Inc()
	answer, err := g.answer(q, what, code)
	if err != nil {
		return nil // the question could be read, but not be written
	}
	return answer
}

// servePackets answers queries by UDP until the socket is closed.
func (g *Gate) servePackets(ctx context.Context, c net.PacketConn) error {
	var held sync.WaitGroup
	defer held.Wait()
	buffer := make([]byte, maxQuery)
	for {
		n, from, err := c.ReadFrom(buffer)
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read queries: %w", err)
		}
		address := intake.AddressOf(from)
		if _, ok := g.o.Policies.Lookup(address); ok {
			if answer := g.respond(ctx, address, buffer[:n]); answer != nil {
				_, _ = c.WriteTo(answer, from) // a lost answer is asked for again
			}
			continue
		}
		// The bound of those that are held bounds the goroutines, too: others end immediately.
		message := append([]byte(nil), buffer[:n]...)
		held.Go(func() {
			if answer := g.respond(ctx, address, message); answer != nil {
				_, _ = c.WriteTo(answer, from)
			}
		})
	}
}

// queryIdle is how long a connection may be silent between two queries.
const queryIdle = 10 * time.Second

// serveQueries answers the queries of a connection, one after the other.
func (g *Gate) serveQueries(ctx context.Context, k *link) {
	defer func() { _ = k.Close() }()
	k.becomeTunnel()
	for {
		if k.SetDeadline(time.Now().Add(queryIdle)) != nil {
			return
		}
		message, err := readMessage(k)
		if err != nil {
			return
		}
		answer := g.respond(ctx, k.address, message)
		if answer == nil {
			return
		}
		_ = k.SetDeadline(time.Now().Add(queryIdle)) // it may have been held
		if _, err := k.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...)); err != nil {
			return
		}
	}
}

// readMessage reads a message with its length.
func readMessage(r io.Reader) ([]byte, error) {
	var length [2]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint16(length[:]))
	if n > maxQuery {
		return nil, errQuery
	}
	message := make([]byte, n)
	_, err := io.ReadFull(r, message)
	return message, err
}
