package cloud_test

import (
	"encoding/binary"
	"fmt"
	"strings"

	"golang.org/x/net/dns/dnsmessage"
)

// attempt and outcome are those of the probe.
type attempt struct {
	Network, Address string
	TLS              bool     `json:",omitempty"`
	ServerName       string   `json:",omitempty"`
	ALPN             []string `json:",omitempty"`
	Send             []byte   `json:",omitempty"`
}

type outcome struct {
	Connected bool
	Got       []byte
	Error     string
}

// wayOut is something that a hostile agent tries.
type wayOut struct {
	what string
	attempt
	// out reports whether it led out.
	out func(outcome) bool
	// open is true for what leads out of an agent that may reach the internet.
	open bool
}

// leadsToRefused reports whether the host answered that the agent must not reach.
func leadsToRefused(o outcome) bool { return strings.Contains(string(o.Got), reached(refusedHost)) }

func connects(o outcome) bool { return o.Connected }

func answers(o outcome) bool { return len(o.Got) > 0 }

// get is a request for a host.
func get(host string) []byte {
	return []byte("GET / HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n\r\n")
}

// places are the addresses that ways out lead to.
type places struct{ gate, gatePod, router, neighbor, allowed, refused string }

// direct are the ways past the gate.
func (p places) direct() []wayOut {
	tcp := func(what, address string, open bool) wayOut {
		return wayOut{
			what: what, out: connects, open: open,
			attempt: attempt{Network: "tcp", Address: address, Send: get(refusedHost)},
		}
	}
	udp := func(what, address string, send []byte, open bool) wayOut {
		return wayOut{
			what: what, out: answers, open: open, attempt: attempt{Network: "udp", Address: address, Send: send},
		}
	}
	socket := func(what, path string) wayOut {
		return wayOut{what: what, out: connects, attempt: attempt{Network: "unix", Address: path}}
	}
	ping := []byte{8, 0, 0xf7, 0xfd, 0, 1, 0, 1}
	query := dnsQuery(refusedHost, dnsmessage.TypeA)
	return []wayOut{
		tcp("a refused host", p.refused+":80", true),
		tcp("a refused host with TLS", p.refused+":443", true),
		tcp("an allowed host past the gate", p.allowed+":80", true),
		tcp("an allowed host with TLS past the gate", p.allowed+":443", true),
		tcp("another host of the internet", "203.0.113.10:80", true),
		tcp("the control plane past the gate", "203.0.113.20:80", true),
		tcp("another port of a host", p.refused+":8443", false),
		tcp("mail", p.refused+":25", false),
		tcp("SSH", p.refused+":22", false),
		tcp("DNS over TLS", p.refused+":853", false),
		tcp("the node's resolver", "169.254.20.10:53", true),
		udp("a query at the node's resolver", "169.254.20.10:53", query, true),
		udp("a query at a host", p.refused+":53", query, false),
		udp("QUIC", p.refused+":443", query, false),
		udp("time", p.refused+":123", query, false),
		udp("DNS for many", "224.0.0.251:5353", query, false),
		udp("all hosts of the network", "255.255.255.255:67", query, false),
		udp("the gate as another protocol", p.gate+":443", query, false),
		tcp("the metadata server", "169.254.169.254:80", false),
		tcp("its other port", "169.254.169.252:988", false),
		tcp("a host of the VPC", "10.99.0.10:80", false),
		tcp("the notifier", "10.99.0.20:8080", false),
		tcp("Pub/Sub of the cell", "10.99.0.21:443", false),
		tcp("secrets of the cell", "10.99.0.22:443", false),
		tcp("the API server", "10.96.0.1:443", false),
		tcp("the API server at the node", "10.77.255.1:443", false),
		tcp("the kubelet", "10.77.255.1:10250", false),
		tcp("the node's link", "198.51.100.1:10250", false),
		tcp("the node's gateway", "198.51.100.2:80", false),
		tcp("Google's front end", "35.191.0.10:80", false),
		tcp("another agent's front", p.neighbor+":8080", false),
		tcp("another agent's container", p.neighbor+":3000", false),
		tcp("another agent's metrics", p.neighbor+":9091", false),
		udp("another agent's names", p.neighbor+":53", query, false),
		tcp("the router", p.router+":8080", false),
		tcp("the router's metrics", p.router+":9090", false),
		tcp("the gate's metrics", p.gatePod+":9090", false),
		tcp("metrics at its Service", p.gate+":9090", false),
		tcp("a pod's port at its Service", p.gate+":8443", false),
		tcp("another port of its Service", p.gate+":22", false),
		tcp("IPv6", "[2001:db8::1]:80", false),
		tcp("IPv6 of the link", "[fe80::1%eth0]:80", false),
		tcp("IPv4 in IPv6", "[::ffff:"+p.refused+"]:80", true),
		tcp("IPv4 by NAT64", "[64:ff9b::cb00:7166]:80", false),
		{what: "ping", out: answers, attempt: attempt{Network: "ip4:icmp", Address: p.refused, Send: ping}},
		{what: "a tunnel in IP", out: answers, attempt: attempt{Network: "ip4:47", Address: p.refused, Send: ping}},
		{what: "raw TCP", out: answers, attempt: attempt{Network: "ip4:6", Address: p.refused, Send: ping}},
		socket("containerd", "/run/containerd/containerd.sock"),
		socket("Docker", "/var/run/docker.sock"),
		socket("the kubelet's plugins", "/var/lib/kubelet/device-plugins/kubelet.sock"),
		socket("containerd by an abstract name", "@containerd"),
	}
}

// secured are the ways through the gate's port for TLS.
func (p places) secured() []wayOut {
	at := p.gate + ":443"
	tls := func(what, name, host string, alpn ...string) wayOut {
		return wayOut{what: what, out: leadsToRefused, attempt: attempt{
			Network: "tcp", Address: at, TLS: true, ServerName: name, ALPN: alpn, Send: get(host),
		}}
	}
	plain := func(what, send string) wayOut {
		return wayOut{
			what: what, out: leadsToRefused, attempt: attempt{Network: "tcp", Address: at, Send: []byte(send)},
		}
	}
	return []wayOut{
		tls("TLS to a refused name", refusedHost, refusedHost),
		tls("without a name", "", refusedHost),
		tls("with capital letters", strings.ToUpper(refusedHost), refusedHost),
		tls("with a dot at the end", refusedHost+".", refusedHost),
		tls("with two dots", refusedHost+"..", refusedHost),
		tls("with HTTP/2", refusedHost, refusedHost, "h2"),
		tls("with another protocol", refusedHost, refusedHost, "acme-tls/1"),
		tls("to an address", p.refused, refusedHost),
		tls("below an allowed name", "x."+allowedHost, refusedHost),
		tls("an allowed name as a part", allowedHost+"."+refusedHost, refusedHost),
		tls("an allowed name and a zero", allowedHost+"\x00."+refusedHost, refusedHost),
		tls("a name in the cluster", "kubernetes.default.svc.cluster.local", refusedHost),
		tls("localhost", "localhost", refusedHost),
		tls("the name of the metadata server", "metadata.google.internal", refusedHost),
		tls("a request for it in an allowed connection", allowedHost, refusedHost),
		plain("HTTP on the port of TLS", string(get(refusedHost))),
		plain("CONNECT on the port of TLS",
			"CONNECT "+refusedHost+":443 HTTP/1.1\r\nHost: "+refusedHost+":443\r\n\r\n"),
		plain("SSH on the port of TLS", "SSH-2.0-OpenSSH_9.9\r\n"),
		plain("nothing but zeros", strings.Repeat("\x00", 600)),
		plain("a record that is too long", "\x16\x03\x01\xff\xff"+strings.Repeat("a", 1000)),
	}
}

// unsecured are the ways through the gate's port for HTTP.
func (p places) unsecured() []wayOut {
	at := p.gate + ":80"
	send := func(what, text string) wayOut {
		return wayOut{
			what: what, out: leadsToRefused, attempt: attempt{Network: "tcp", Address: at, Send: []byte(text)},
		}
	}
	header := func(host, rest string) string {
		return "GET / HTTP/1.1\r\nHost: " + host + "\r\n" + rest + "Connection: close\r\n\r\n"
	}
	refused := string(get(refusedHost))
	const create = "POST /api/v1/agents HTTP/1.1\r\nContent-Length: 2\r\nConnection: close\r\nHost: "
	control := func(what, text string) wayOut {
		return wayOut{
			what: what, out: func(o outcome) bool { return strings.Contains(string(o.Got), `"request_id"`) },
			attempt: attempt{Network: "tcp", Address: at, Send: []byte(text)},
		}
	}
	return []wayOut{
		control("the control plane by its name", create+"control-plane.example\r\n\r\n{}"),
		control("the control plane at the gate", create+p.gate+"\r\n\r\n{}"),
		control("the control plane at the gate without a host", create+"\r\n\r\n{}"),
		send("HTTP to a refused name", refused),
		send("with a port", header(refusedHost+":80", "")),
		send("with another port", header(refusedHost+":8080", "")),
		send("with a dot at the end", header(refusedHost+".", "")),
		send("with capital letters", header(strings.ToUpper(refusedHost), "")),
		send("in the line of the request", "GET http://"+refusedHost+"/ HTTP/1.1\r\nHost: "+allowedHost+"\r\n\r\n"),
		send("CONNECT", "CONNECT "+refusedHost+":80 HTTP/1.1\r\nHost: "+refusedHost+":80\r\n\r\n"+refused),
		send("CONNECT to an address", "CONNECT "+p.refused+":80 HTTP/1.1\r\nHost: "+p.refused+":80\r\n\r\n"+refused),
		send("two hosts", header(allowedHost, "Host: "+refusedHost+"\r\n")),
		send("a second request", "GET / HTTP/1.1\r\nHost: "+allowedHost+"\r\n\r\n"+refused),
		send("a user before the host", header(allowedHost+"@"+refusedHost, "")),
		send("a fragment after the host", header(refusedHost+"#"+allowedHost, "")),
		send("a list of hosts", header(allowedHost+", "+refusedHost, "")),
		send("a host of the proxy", header(allowedHost,
			"X-Forwarded-Host: "+refusedHost+"\r\nForwarded: host="+refusedHost+"\r\n")),
		send("no host", "GET / HTTP/1.1\r\n\r\n"),
		send("HTTP/1.0 without a host", "GET / HTTP/1.0\r\n\r\n"),
		send("an address", header(p.refused, "")),
		send("an address as a number", header("3405803878", "")),
		send("an address in octal", header("0313.0.0161.0146", "")),
		send("an address of IPv6", header("[::1]", "")),
		send("IPv4 in IPv6", header("[::ffff:"+p.refused+"]", "")),
		send("a request in the body of another", "POST / HTTP/1.1\r\nHost: "+allowedHost+
			"\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"+refused),
		send("a length twice", "POST / HTTP/1.1\r\nHost: "+allowedHost+
			"\r\nContent-Length: 0\r\nContent-Length: 9\r\n\r\n"+refused),
		send("a folded header", "GET / HTTP/1.1\r\nHost: "+allowedHost+"\r\n "+refusedHost+"\r\n\r\n"),
		send("an upgrade to HTTP/2",
			header(allowedHost, "Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n")+refused),
		send("HTTP/2 from the start", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
		send("SOCKS", "\x05\x01\x00"),
		send("a name in the cluster", header("agent-router.agent-gateway.svc.cluster.local", "")),
		send("the metadata server", header("metadata.google.internal", "Metadata-Flavor: Google\r\n")),
	}
}

// names are queries at the gate. None may lead to the resolver, which knows the addresses.
func (p places) names(neighbor string) (all []wayOut) {
	out := func(o outcome) bool { // an address that is not the gate's
		for _, address := range []string{p.refused, p.allowed, p.neighbor, "10.96.0.1"} {
			if strings.Contains(string(o.Got), string(binary.BigEndian.AppendUint32(nil, numberOf(address)))) {
				return true
			}
		}
		return false
	}
	for _, q := range []struct {
		name string
		kind dnsmessage.Type
	}{
		{name: refusedHost, kind: dnsmessage.TypeA},
		{name: refusedHost, kind: dnsmessage.TypeAAAA},
		{name: refusedHost, kind: dnsmessage.TypeTXT},
		{name: refusedHost, kind: dnsmessage.TypeMX},
		{name: refusedHost, kind: dnsmessage.TypeNS},
		{name: refusedHost, kind: dnsmessage.TypeCNAME},
		{name: refusedHost, kind: dnsmessage.TypeALL},
		{name: refusedHost, kind: dnsmessage.TypeAXFR},
		{name: allowedHost, kind: dnsmessage.TypeA},
		{name: "stolen-data." + refusedHost, kind: dnsmessage.TypeA},
		{name: "kubernetes.default.svc.cluster.local", kind: dnsmessage.TypeA},
		{name: "agent.agent-" + neighbor + ".svc.cluster.local", kind: dnsmessage.TypeA},
		{name: "1.0.96.10.in-addr.arpa", kind: dnsmessage.TypePTR},
	} {
		query := dnsQuery(q.name, q.kind)
		length := binary.BigEndian.AppendUint16(nil, uint16(len(query))) //nolint:gosec // it is short
		what := fmt.Sprintf("query %s of %s", q.kind, q.name)
		all = append(all,
			wayOut{what: what, out: out, attempt: attempt{Network: "udp", Address: p.gate + ":53", Send: query}},
			wayOut{what: what + " by TCP", out: out, attempt: attempt{
				Network: "tcp", Address: p.gate + ":53", Send: append(length, query...),
			}})
	}
	return all
}

func numberOf(address string) (n uint32) {
	var parts [4]byte
	_, _ = fmt.Sscanf(address, "%d.%d.%d.%d", &parts[0], &parts[1], &parts[2], &parts[3])
	return binary.BigEndian.Uint32(parts[:])
}

func dnsQuery(name string, kind dnsmessage.Type) []byte {
	m := dnsmessage.Message{
		Header: dnsmessage.Header{ID: 7, RecursionDesired: true},
		Questions: []dnsmessage.Question{{
			Name: dnsmessage.MustNewName(name + "."), Type: kind, Class: dnsmessage.ClassINET,
		}},
	}
	b, err := m.Pack()
	if err != nil {
		panic(err) // names of this file
	}
	return b
}
