package gate

import (
	"net/http"

	"agents.example/controlplane/shared/dataplane/intake"
	"agents.example/controlplane/shared/egress"
)

// maxUnread bounds the requests by HTTP/2 of an agent whose answers it does not take, in addition to those that are
// forwarded.
const maxUnread = 64

// serveBrokered serves a request to port 443 of a host with brokered secrets.
//
// An agent can have requests on a connection by HTTP/2 without end, and says how much of their answers it takes. Those
// that are refused stay in memory, too, until their answers are sent. So they are counted until then, and a connection
// that has too many is closed.
func (g *Gate) serveBrokered(w http.ResponseWriter, req *http.Request) {
	k := linkOf(req.Context())
	k.serve()
	out, req := intake.Duplex(w, req)
	defer out.Finish()
	a, ok := g.o.Policies.Lookup(k.address)
	if !ok || !k.belongsTo(a) {
		g.refuseStranger(out)
		return
	}
	if req.ProtoMajor > 1 {
		k.http2.Store(true)
		t := g.tenants.of(a.ID)
		defer t.streams.Add(-1)
		if t.streams.Add(1) > g.o.Limits.AgentRequests+maxUnread {
			g.refused(a, k.hostName(), egress.TooMany)
			_ = k.Close()
			return
		}
	}
	g.serveInTLS(out, req, k, a)
	out.FlushBody()
}

func (g *Gate) serveInTLS(out *intake.Writer, req *http.Request, k *link, a Agent) {
	named, port := splitPort(req.Host)
	host, err := egress.CanonicalHost(named)
	if err != nil {
		host = egress.NoHost
	}
	switch {
	case echoes(req.Method):
		g.refuseMethod(out, a, k.hostName(), req.Method)
	case !isTarget(req, "https"):
		refuseTarget(out)
	case host != k.hostName():
		g.refuse(out, a, host, egress.OtherHost)
	case port != "" && port != "443":
		g.refuse(out, a, host, egress.Unsupported)
	default:
		g.serveHost(out, req, &exchange{scheme: "https", host: host, link: k})
	}
}

// echoes reports whether the answer to a method repeats the request, with its secrets, or the connection would be
// another one's.
func echoes(method string) bool {
	return method == http.MethodTrace || method == "TRACK" || method == http.MethodConnect
}
