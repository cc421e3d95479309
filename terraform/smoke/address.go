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

// candidate returns a client that asks for the newest revision, which the load balancer knows by a header. Without a
// load balancer the URL names the revision.
func candidate(c *http.Client) *http.Client {
	return &http.Client{Transport: asking{c.Transport}}
}

type asking struct{ next http.RoundTripper }

func (a asking) RoundTrip(req *http.Request) (*http.Response, error) {
	next := a.next
	if next == nil {
		next = http.DefaultTransport
	}
	req = req.Clone(req.Context())
	req.Header.Set("Release-Candidate", "true")
	return next.RoundTrip(req)
}
