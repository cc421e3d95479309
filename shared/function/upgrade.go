package function

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"

	"agents.example/controlplane/shared/fault"
)

// Upgrade is the output of a route whose success takes over the connection. Serve answers the request, and returns when
// the connection has ended. The context of its request ends as that of the handler does: with the caller's rights.
type Upgrade struct {
	Serve func(w http.ResponseWriter, req *http.Request) error
}

// tokenProtocol begins the subprotocol that has a token in base64url, as API servers of Kubernetes take it from
// browsers. The server selects another subprotocol, so the token is in no answer.
const tokenProtocol = "base64url.bearer.authorization.k8s.io."

const protocolHeader = "Sec-WebSocket-Protocol"

// takeTokenOfWebSocket moves a token from the subprotocols of a request to its header Authorization.
func (r *Route) takeTokenOfWebSocket(req *http.Request) {
	if !r.WebSocket || req.Header.Get(protocolHeader) == "" {
		return
	}
	var others []string
	for protocol := range strings.SplitSeq(strings.Join(req.Header.Values(protocolHeader), ","), ",") {
		protocol = strings.TrimSpace(protocol)
		encoded, ok := strings.CutPrefix(protocol, tokenProtocol)
		if !ok {
			others = append(others, protocol)
			continue
		}
		token, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(encoded, "="))
		if err == nil && req.Header.Get("Authorization") == "" {
			req.Header.Set("Authorization", "Bearer "+string(token))
		}
	}
	req.Header.Set(protocolHeader, strings.Join(others, ", "))
}

// CheckOrigin refuses the WebSocket of a web page of another origin. Browsers do not ask before they open one.
func CheckOrigin(req *http.Request) error {
	origin := req.Header.Get("Origin")
	if origin == "" {
		return nil
	}
	if u, err := url.Parse(origin); err == nil && strings.EqualFold(u.Host, req.Host) {
		return nil
	}
	return fault.New(fault.Forbidden, "origin_refused",
		"A page of another origin may not open this connection. Open it from the console, or from a program.")
}
