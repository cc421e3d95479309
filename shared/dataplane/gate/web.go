package gate

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/dataplane/intake"
	"agents.example/controlplane/shared/egress"
)

type linkKey struct{}

// withLink adds the link below a server's connection to the context of its requests.
func withLink(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, linkKey{}, linkBelow(c))
}

// linkBelow returns the link below a server's connection, which always has one.
func linkBelow(c net.Conn) *link {
	for {
		switch outer := c.(type) {
		case *replay:
			return outer.link
		case *link:
			return outer
		case interface{ NetConn() net.Conn }:
			c = outer.NetConn()
		default:
			return nil
		}
	}
}

func linkOf(ctx context.Context) *link {
	k, _ := ctx.Value(linkKey{}).(*link) // always there
	return k
}

// serveWeb serves a request to port 80.
func (g *Gate) serveWeb(w http.ResponseWriter, req *http.Request) {
	k := linkOf(req.Context())
	out, req := intake.Duplex(w, req) // no answer waits for the request's body
	defer out.Finish()
	a, ok := g.agentAt(req.Context(), k.address)
	if !ok || !k.belongsTo(a) {
		g.refuseStranger(out)
		return
	}
	raw, port := splitPort(req.Host)
	host, err := egress.CanonicalHost(raw)
	if err != nil {
		host = egress.NoHost
	}
	switch {
	case req.Method == http.MethodConnect:
		g.refuseMethod(out, a, host, req.Method)
	case !isTarget(req, "http"):
		refuseTarget(out)
	case g.isOwn(raw):
		g.serveOwn(out, req, a)
	case err != nil:
		g.refuse(out, a, host, egress.NoName)
	case port != "" && port != "80":
		g.refuse(out, a, host, egress.Unsupported)
	default:
		g.serveHost(out, req, &exchange{scheme: "http", host: host, link: k})
	}
}

// serveHost forwards a request if the policy admits its host now.
func (g *Gate) serveHost(w *intake.Writer, req *http.Request, x *exchange) {
	a, why, ok := x.link.admit(x.host)
	switch {
	case !ok:
		g.refuseStranger(w)
		return
	case why != "":
		g.refuse(w, a, x.host, why)
		return
	}
	x.Writer, x.gate, x.agent, x.tenant = w, g, a, g.tenants.of(a.ID)
	if x.scheme == "https" {
		var err error
		if x.secrets, err = g.values.headers(req.Context(), a, x.host); err != nil && req.Context().Err() != nil {
			return // the agent is gone
		} else if err != nil {
			g.warn("secret could not be read", a, err)
			g.refuse(w, a, x.host, egress.Unavailable)
			return
		}
	}
	x.forward(req)
}

// isTarget reports whether the target of a request is a path, or the address of a host with a path.
func isTarget(req *http.Request, scheme string) bool {
	if dataplane.IsPath(req.RequestURI) {
		return true
	}
	return strings.EqualFold(req.URL.Scheme, scheme) && req.URL.Host != "" && req.URL.Opaque == ""
}

// splitPort returns the name and the port of a request's host. The port is empty if there is none.
func splitPort(host string) (name, port string) {
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") &&
		(strings.HasPrefix(host, "[") || strings.IndexByte(host, ':') == i) {
		return host[:i], host[i+1:]
	}
	return host, ""
}

// isOwn reports whether a host is the gate's address.
func (g *Gate) isOwn(host string) bool {
	a, err := netip.ParseAddr(host)
	return err == nil && a == g.o.Address
}

// isOfFront reports whether a request is one that the front of an agent sends to the control plane.
func isOfFront(req *http.Request, a Agent) bool {
	if a.Policy.Control == "" || req.URL.RawPath != "" {
		return false
	}
	switch req.URL.Path {
	case dataplane.PathKeys:
		return req.Method == http.MethodGet
	case dataplane.PathIntrospect, fmt.Sprintf(dataplane.PathSleep, a.ID):
		return req.Method == http.MethodPost
	default:
		return false
	}
}

// serveControl passes a request of an agent's front on to the control plane. What else the control plane serves would
// be a way out: whoever made the agent may have a key of another organization.
func (g *Gate) serveControl(w *intake.Writer, req *http.Request, a Agent) {
	control, err := url.Parse(a.Policy.Control)
	if err != nil || control.Host == "" || control.Path != "" {
		answer(w, http.StatusBadGateway, "", "The control plane has no address.")
		return
	}
	x := &exchange{
		Writer: w, gate: g, link: linkOf(req.Context()), agent: a, tenant: g.tenants.of(a.ID),
		scheme: control.Scheme, host: control.Host, used: func() {}, // the log has the agent's hosts
	}
	x.forward(req)
}

// serveOwn serves a request to the gate itself.
func (g *Gate) serveOwn(w *intake.Writer, req *http.Request, a Agent) {
	switch {
	case isOfFront(req, a):
		g.serveControl(w, req, a)
	case req.URL.Path != dataplane.PathGateCA:
		answer(w, http.StatusNotFound, "",
			"The gate serves "+dataplane.PathGateCA+" only. Use the name of a host to reach it.")
	case req.Method != http.MethodGet && req.Method != http.MethodHead:
		answer(w, http.StatusMethodNotAllowed, "", "The certificate can be read only.")
	case g.leaves.secret == nil:
		answer(w, http.StatusServiceUnavailable, "", "This cell has no brokered secrets.")
	case a.Policy.InjectHash() == "" || req.URL.Query().Get(dataplane.QueryGatePolicy) != a.Policy.InjectHash():
		answer(w, http.StatusServiceUnavailable, "", "The gate does not know this policy yet. Retry.")
	default:
		pem, err := g.leaves.authorityPEM(a.ID, a.Policy.InjectedHosts())
		if err != nil {
			g.warn("certificate could not be made", a, err)
			answer(w, http.StatusServiceUnavailable, "", "The certificate could not be made. Retry.")
			return
		}
		w.Header().Set("Content-Type", "application/x-pem-file")
		w.Header().Set("Cache-Control", "no-store")
		_, _ = w.Write(pem)
	}
}
