package intake

import (
	"net/http"
	"strings"
)

// OnlyWebSocket keeps a request that is forwarded from becoming anything but a WebSocket: within another protocol, a
// client could send requests that no part of the data plane sees. The handshake of a WebSocket has no body. With one,
// the answer could come while the body is being read, and then the connection would have two readers.
func OnlyWebSocket(out *http.Request) {
	if upgrade := out.Header.Get("Upgrade"); upgrade != "" &&
		(out.Body != nil || !strings.EqualFold(upgrade, "websocket")) {
		out.Header.Del("Upgrade")
		out.Header.Del("Connection")
	}
}
