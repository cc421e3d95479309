package front

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"time"
)

// DialContainer replaces how the front connects to the container. A front without a health path connects by itself.
func (f *Front) DialContainer(dial func(ctx context.Context, network, address string) (net.Conn, error)) {
	f.transport.DialContext = dial
	f.health.client.Transport = &http.Transport{DialContext: dial, DisableKeepAlives: true}
}

// IsPublic reports whether a target is public, and how the most liberal server reads its path, with a slash at the end.
func IsPublic(paths []string, target string) (public bool, read string) {
	u, err := url.ParseRequestURI(target)
	if err != nil {
		return false, ""
	}
	twice, _ := url.PathUnescape(u.Path) // some servers decode a path that they get decoded
	return publicPaths(paths).have(&http.Request{RequestURI: target, URL: u}), normalize(twice) + "/"
}

// DialControlPlane replaces how the front connects to the control plane.
func (f *Front) DialControlPlane(dial func(ctx context.Context, network, address string) (net.Conn, error)) {
	f.links.keys.client.Transport = &http.Transport{DialContext: dial, DisableKeepAlives: true}
}

// ReadBusyFile returns what the file in a folder says at a time: "restful", "unclear" or "occupied".
func ReadBusyFile(dir string, now time.Time) string {
	return [...]string{"restful", "unclear", "occupied"}[readBusyFile(dir, now)]
}

// BeginDrain makes every answer the last one of its connection, as Serve does when it ends.
func (f *Front) BeginDrain() { f.draining.Store(true) }
