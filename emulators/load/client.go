package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// patience is how long a client waits for an answer. Requests that wait for an agent have maxWait in addition.
const patience = 30 * time.Second

// idleConnections is how many connections a client keeps, so that none waits for a connection.
const idleConnections = 500

// apiClient sends requests from one address.
type apiClient struct {
	base      string
	transport *http.Transport
	http      http.Client
}

func newAPIClient(base, from string) *apiClient {
	t := &http.Transport{
		DialContext: dialer(from).DialContext, MaxIdleConnsPerHost: idleConnections, IdleConnTimeout: time.Minute,
	}
	return &apiClient{base: base, transport: t, http: http.Client{Transport: t}}
}

// dialer connects from an address. Where the operating system does not have all addresses of the loopback network,
// clients share one.
func dialer(from string) *net.Dialer {
	d := &net.Dialer{Timeout: patience}
	local := &net.TCPAddr{IP: net.ParseIP(from)}
	l, err := net.ListenTCP("tcp", local)
	if err == nil {
		_ = l.Close() // nothing was accepted
		d.LocalAddr = local
	}
	return d
}

func (c *apiClient) close() { c.transport.CloseIdleConnections() }

// call is a request of the API.
type call struct{ token, method, path, body, etag string }

// answer is an answer of the API.
type answer struct {
	status int
	body   []byte
	etag   string
}

// code returns the status and, of an error, its code.
func (a answer) code() string {
	var e struct {
		Code string `json:"code"`
	}
	_ = json.Unmarshal(a.body, &e) // only errors have one
	return strings.TrimSpace(fmt.Sprint(a.status, " ", e.Code))
}

// reason describes the end of a request that failed.
func reason(a answer, err error) string {
	switch {
	case err == nil:
		return a.code()
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	default:
		return "connection error"
	}
}

// send sends a request and reads its answer.
func (c *apiClient) send(ctx context.Context, r call) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, r.method, c.base+r.path, strings.NewReader(r.body))
	if err != nil {
		return answer{}, err
	}
	if r.token != "" {
		req.Header.Set("Authorization", "Bearer "+r.token)
	}
	if r.body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if r.etag != "" {
		req.Header.Set("If-None-Match", r.etag)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close() //nolint:errcheck // reading is over
	body, err := io.ReadAll(res.Body)
	return answer{res.StatusCode, body, res.Header.Get("ETag")}, err
}
