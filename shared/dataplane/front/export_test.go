package front

import (
	"context"
	"net"
	"net/http"
)

// DialContainer replaces how the front connects to the container. A front without a health path connects by itself.
func (f *Front) DialContainer(dial func(ctx context.Context, network, address string) (net.Conn, error)) {
	f.transport.DialContext = dial
	f.health.client.Transport = &http.Transport{DialContext: dial, DisableKeepAlives: true}
}
