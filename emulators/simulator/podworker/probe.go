package podworker

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// portNumber returns the number of a container's port that a probe names, or 0 if there is none.
func portNumber(port intstr.IntOrString, c *corev1.Container) int {
	if port.Type == intstr.Int {
		return port.IntValue()
	}
	for _, p := range c.Ports {
		if p.Name == port.StrVal {
			return int(p.ContainerPort)
		}
	}
	number, err := strconv.Atoi(port.StrVal)
	if err != nil {
		return 0 // no server listens there, so the probe fails
	}
	return number
}

// probeHTTP runs an httpGet probe once, as a kubelet does: any certificate is trusted, every status from 200 to 399 is
// a success, and a redirect to another host is not followed.
func probeHTTP(ctx context.Context, action *corev1.HTTPGetAction, address string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, probeURL(action, address), http.NoBody)
	if err != nil {
		return false
	}
	request.Header.Set("User-Agent", "kube-probe")
	request.Header.Set("Accept", "*/*")
	for _, header := range action.HTTPHeaders {
		if strings.EqualFold(header.Name, "Host") {
			request.Host = header.Value
			continue
		}
		request.Header.Add(header.Name, header.Value)
	}
	transport := &http.Transport{
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // probes trust any certificate
		DisableKeepAlives: true, DisableCompression: true,
	}
	client := &http.Client{Transport: transport, CheckRedirect: func(next *http.Request, via []*http.Request) error {
		if next.URL.Hostname() != via[0].URL.Hostname() || len(via) > maxRedirects {
			return http.ErrUseLastResponse
		}
		return nil
	}}
	response, err := client.Do(request)
	if err != nil {
		return false
	}
	_ = response.Body.Close() // the status is all that counts
	return response.StatusCode >= http.StatusOK && response.StatusCode < http.StatusBadRequest
}

const maxRedirects = 10

func probeURL(action *corev1.HTTPGetAction, address string) string {
	target := url.URL{
		Scheme: strings.ToLower(cmp.Or(string(action.Scheme), string(corev1.URISchemeHTTP))),
		Host:   net.JoinHostPort(cmp.Or(action.Host, address), action.Port.String()),
	}
	path := action.Path
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	return target.String() + path
}

// probeTCP runs a tcpSocket probe once.
func probeTCP(ctx context.Context, action *corev1.TCPSocketAction, address string) bool {
	connection, err := new(net.Dialer).DialContext(ctx, "tcp",
		net.JoinHostPort(cmp.Or(action.Host, address), action.Port.String()))
	if err != nil {
		return false
	}
	_ = connection.Close()
	return true
}
