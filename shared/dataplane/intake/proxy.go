package intake

import (
	"net/http"
	"strings"
	"sync"
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

// bufferSize bounds how much of an answer is in memory. A stream holds its buffer for as long as it lasts.
const bufferSize = 16 << 10

// Buffers implements httputil.BufferPool.
type Buffers struct{ pool sync.Pool }

// Get implements httputil.BufferPool.
func (p *Buffers) Get() []byte {
	if b, ok := p.pool.Get().(*[bufferSize]byte); ok {
		return b[:]
	}
	return new([bufferSize]byte)[:]
}

// Put implements httputil.BufferPool.
func (p *Buffers) Put(b []byte) { p.pool.Put((*[bufferSize]byte)(b)) }
