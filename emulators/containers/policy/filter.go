package policy

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/florianl/go-nfqueue/v2"
	"golang.org/x/sys/unix"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/kube-network-policies/pkg/network"
	"sigs.k8s.io/kube-network-policies/pkg/networkpolicy"
)

const (
	headers     = 128     // bytes of a packet that the kernel copies; IP and TCP headers have 120 at most
	queueLength = 1024    // packets; the kernel drops more
	readBuffer  = 2 << 20 // bytes

	// The kubelet reports the address of a pod up to a second after its first container has started. TCP would repeat
	// the first packet after one second, but a query for a name only after five.
	lateFor = 3 * time.Second
	lateMax = queueLength / 4 // the rest of the queue is for the packets of known pods
)

// filter decides packets.
type filter struct {
	Options
	engine     *networkpolicy.PolicyEngine
	pods       byAddress
	namespaces corelisters.NamespaceLister
	queue      *nfqueue.Nfqueue
	held       sync.WaitGroup

	late    chan struct{} // has a place for each packet that waits for its pod
	mu      sync.Mutex
	changed chan struct{} // closed at the next change of a pod or namespace
}

// open reads the queue until the context ends. The channel receives the error that ends it before.
func (f *filter) open(ctx context.Context) (<-chan error, error) {
	queue, err := nfqueue.Open(&nfqueue.Config{
		NfQueue: f.Queue, MaxPacketLen: headers, MaxQueueLen: queueLength, Copymode: nfqueue.NfQnlCopyPacket,
		Flags: nfqueue.NfQaCfgFlagGSO, // without it, the kernel computes checksums and splits packets first
	})
	if err != nil {
		return nil, err
	}
	f.queue = queue
	_ = queue.Con.SetReadBuffer(readBuffer) // a smaller buffer drops packets earlier
	failed := make(chan error, 1)
	err = queue.RegisterWithErrorFunc(ctx, func(a nfqueue.Attribute) int {
		f.receive(ctx, a)
		return 0
	}, func(err error) int {
		// A full buffer costs packets. A packet that waits goes with the network interface of its pod, and its verdict
		// then finds none. A deadline is how the library ends reading.
		timeout, harmless := net.Error(nil), errors.Is(err, unix.ENOBUFS) || errors.Is(err, unix.ENOENT)
		if harmless || errors.As(err, &timeout) && timeout.Timeout() {
			return 0
		}
		failed <- err
		return 1
	})
	if err != nil {
		_ = queue.Close()
		return nil, err
	}
	return failed, nil
}

// close drops the packets without a verdict.
func (f *filter) close() {
	_ = f.queue.Close()
	f.held.Wait()
}

func (f *filter) receive(ctx context.Context, a nfqueue.Attribute) {
	if a.PacketID == nil || a.Payload == nil {
		return // the kernel sends both
	}
	packet, err := parse(*a.Payload)
	packet.ID = *a.PacketID
	if _, known := f.podsOf(packet); err != nil || known {
		f.conclude(packet, err == nil && f.allows(ctx, packet))
		return
	}
	select {
	case f.late <- struct{}{}:
		f.held.Go(func() {
			defer func() { <-f.late }()
			f.conclude(packet, f.awaitPods(ctx, packet) && f.allows(ctx, packet))
		})
	default:
		f.conclude(packet, false)
	}
}

// conclude gives the kernel the verdict. A packet whose verdict cannot be sent stays in the queue until the queue ends.
func (f *filter) conclude(packet network.Packet, allowed bool) {
	verdict := nfqueue.NfAccept
	if !allowed {
		verdict = nfqueue.NfDrop
	}
	_ = f.queue.SetVerdict(packet.ID, verdict)
	if !allowed && f.Denied != nil {
		f.Denied(packet)
	}
}

// parse refuses what the library's parser cannot read. It panics at some packets that are too short; those of one pod
// must not end the decisions for all.
func parse(payload []byte) (packet network.Packet, err error) {
	defer func() {
		if recover() != nil {
			err = network.ErrorCorrupted
		}
	}()
	return network.ParsePacket(payload)
}

// allows lets the engine decide. The engine takes an unknown pod for a host outside the cluster, so the pods must be
// the same before and after.
func (f *filter) allows(ctx context.Context, packet network.Packet) bool {
	before, known := f.podsOf(packet)
	allowed, err := f.engine.EvaluatePacket(ctx, &packet)
	after, stillKnown := f.podsOf(packet)
	return known && stillKnown && before == after && allowed && err == nil
}

// podsOf returns the keys of the pods that send and receive a packet. They are known if each address of the node's pods
// belongs to a pod whose namespace is known.
func (f *filter) podsOf(packet network.Packet) (keys [2]string, known bool) {
	for i, ip := range []net.IP{packet.SrcIP, packet.DstIP} {
		if !contains(f.Pods, ip) {
			continue
		}
		var found bool
		if keys[i], found = f.pods.LookupPod(ip.String()); !found {
			return keys, false
		}
		namespace, _, _ := cache.SplitMetaNamespaceKey(keys[i])
		if _, err := f.namespaces.Get(namespace); err != nil {
			return keys, false
		}
	}
	return keys, true
}

// awaitPods reports whether the packet's pods become known in time.
func (f *filter) awaitPods(ctx context.Context, packet network.Packet) bool {
	ctx, cancel := context.WithTimeout(ctx, lateFor)
	defer cancel()
	for {
		f.mu.Lock()
		changed := f.changed
		f.mu.Unlock()
		if _, known := f.podsOf(packet); known {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// wake lets waiting packets look for their pods again.
func (f *filter) wake() {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.changed)
	f.changed = make(chan struct{})
}
