package gate

import (
	"net/http"

	"agents.example/controlplane/shared/dataplane/intake"
	"agents.example/controlplane/shared/egress"
)

// serveBrokered serves a request to port 443 of a host with brokered secrets.
func (g *Gate) serveBrokered(w http.ResponseWriter, req *http.Request) {
	k := linkOf(req.Context())
	out, req := intake.Duplex(w, req)
	defer out.Finish()
	a, ok := g.o.Policies.Lookup(k.address)
	if !ok || !k.belongsTo(a) {
		g.refuseStranger(out)
		return
	}
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
