package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
)

// reach returns a client that calls the load balancer at its address while the domain in the API's URL does not lead
// there. The certificate is checked for the domain in both cases. Other hosts, as those of agents, are resolved.
func reach(ctx context.Context, base, address string, out io.Writer) *http.Client {
	u, err := url.Parse(base)
	if err != nil {
		return http.DefaultClient // the first call reports it
	}
	if found, err := net.DefaultResolver.LookupHost(ctx, u.Hostname()); err == nil && slices.Contains(found, address) {
		return http.DefaultClient
	}
	fmt.Fprintf(out, "%s does not lead to %s yet; the test calls this address\n", u.Hostname(), address)
	return &http.Client{Transport: &http.Transport{
		ForceAttemptHTTP2: true,
		DialContext: func(ctx context.Context, network, target string) (net.Conn, error) {
			var d net.Dialer
			if host, port, err := net.SplitHostPort(target); err == nil && host == u.Hostname() {
				target = net.JoinHostPort(address, port)
			}
			return d.DialContext(ctx, network, target)
		},
	}}
}
