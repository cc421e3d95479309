package kubeletserver

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"strconv"
	"syscall"
)

// Port is the port of kubelets.
const Port = 10250

// blockBits is the size of a cluster's block of loopback addresses: 127.x.0.0/16.
const blockBits = 16

// Endpoint is where the kubelets of a cluster listen.
type Endpoint struct {
	Listener net.Listener
	Address  netip.AddrPort
	// Block is the block of loopback addresses that only this cluster uses as long as it listens. It is invalid where
	// the operating system has only 127.0.0.1.
	Block netip.Prefix
}

// Listen listens at the first address of a block of loopback addresses that no other cluster of this machine uses.
// Where the operating system has only 127.0.0.1, it listens there, on a free port.
func Listen(ctx context.Context) (Endpoint, error) {
	first := rand.IntN(254)
	for i := range 254 {
		block := netip.PrefixFrom(netip.AddrFrom4([4]byte{127, byte(1 + (first+i)%254), 0, 0}), blockBits)
		address := netip.AddrPortFrom(block.Addr().Next(), Port)
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address.String())
		switch {
		case err == nil:
			return Endpoint{Listener: listener, Address: address, Block: block}, nil
		case errors.Is(err, syscall.EADDRNOTAVAIL):
			return listenAnywhere(ctx)
		case !errors.Is(err, syscall.EADDRINUSE):
			return Endpoint{}, fmt.Errorf("listen for the kubelets: %w", err)
		}
	}
	return Endpoint{}, errors.New("listen for the kubelets: other programs use port " + strconv.Itoa(Port) +
		" of all loopback addresses")
}

func listenAnywhere(ctx context.Context) (Endpoint, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return Endpoint{}, fmt.Errorf("listen for the kubelets: %w", err)
	}
	return Endpoint{Listener: listener, Address: listener.Addr().(*net.TCPAddr).AddrPort()}, nil
}
