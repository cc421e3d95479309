package policy

import (
	"encoding/binary"
	"net"
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/xt"
	"golang.org/x/sys/unix"
)

func table() *nftables.Table {
	return &nftables.Table{Name: "network-policies", Family: nftables.TableFamilyINet}
}

// replaceRules replaces the table, if there is one, in one transaction. The verdict applies to packets of pods that
// belong to no connection. There is no rule for the node's own packets, which pass the output hook only.
func replaceRules(pods netip.Prefix, verdict expr.Any) error {
	c, err := nftables.New()
	if err != nil {
		return err
	}
	t := table()
	c.AddTable(t)
	c.DelTable(t)
	c.AddTable(t)
	for name, hook := range map[string]*nftables.ChainHook{
		"forward": nftables.ChainHookForward, "input": nftables.ChainHookInput,
	} {
		chain := c.AddChain(&nftables.Chain{
			Name: name, Table: t, Type: nftables.ChainTypeFilter, Hooknum: hook,
			Priority: nftables.ChainPriorityFilter,
		})
		for _, rule := range [][]expr.Any{
			append(isLocal(), accept()),
			append(isIPv6(), drop()),
			append(isSpoofed(), drop()),
			append(isOfConnection(), accept()),
			append(hasAddress(sourceOffset, pods), verdict),
			append(hasAddress(destinationOffset, pods), verdict),
		} {
			c.AddRule(&nftables.Rule{Table: t, Chain: chain, Exprs: rule})
		}
	}
	return c.Flush()
}

func removeRules() error {
	c, err := nftables.New()
	if err != nil {
		return err
	}
	c.DelTable(table())
	return c.Flush()
}

func accept() expr.Any { return &expr.Verdict{Kind: expr.VerdictAccept} }
func drop() expr.Any   { return &expr.Verdict{Kind: expr.VerdictDrop} }

// enqueue is the target of iptables, which more kernels have than nftables' queue expression. Without its flag
// "bypass", the kernel drops packets while no process reads the queue.
func enqueue(number uint16) expr.Any {
	info := make(xt.Unknown, 8) // struct xt_NFQ_info_v3, aligned
	binary.NativeEndian.PutUint16(info[0:], number)
	binary.NativeEndian.PutUint16(info[2:], 1) // queues
	return &expr.Target{Name: "NFQUEUE", Rev: 3, Info: &info}
}

// isLocal matches packets that the node sends to itself.
func isLocal() []expr.Any {
	loopback := append([]byte("lo"), make([]byte, unix.IFNAMSIZ-len("lo"))...)
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: loopback},
	}
}

func isIPv6() []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{unix.NFPROTO_IPV6}},
	}
}

// isSpoofed matches packets whose answers would leave through another interface: a pod cannot take the address of
// another pod, or one that is no pod's.
func isSpoofed() []expr.Any {
	return []expr.Any{
		&expr.Fib{Register: 1, FlagSADDR: true, FlagIIF: true, ResultOIF: true},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binaryutil.NativeEndian.PutUint32(0)},
	}
}

func isOfConnection() []expr.Any {
	states := binaryutil.NativeEndian.PutUint32(expr.CtStateBitESTABLISHED | expr.CtStateBitRELATED)
	return []expr.Any{
		&expr.Ct{Key: expr.CtKeySTATE, Register: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: states, Xor: make([]byte, 4)},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: make([]byte, 4)},
	}
}

// Offsets in the header of IPv4.
const (
	sourceOffset      = 12
	destinationOffset = 16
)

func hasAddress(offset uint32, prefix netip.Prefix) []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{unix.NFPROTO_IPV4}},
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: 4},
		&expr.Bitwise{
			SourceRegister: 1, DestRegister: 1, Len: 4,
			Mask: net.CIDRMask(prefix.Bits(), prefix.Addr().BitLen()), Xor: make([]byte, 4),
		},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: prefix.Masked().Addr().AsSlice()},
	}
}

func contains(prefix netip.Prefix, ip net.IP) bool {
	addr, ok := netip.AddrFromSlice(ip)
	return ok && prefix.Contains(addr.Unmap())
}
