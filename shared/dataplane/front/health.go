package front

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

const (
	healthTimeout = time.Second
	// healthAge is how long a result is valid, so that a flood of requests does not reach the container.
	healthAge = 250 * time.Millisecond
)

// health checks whether the container serves.
type health struct {
	hostname string
	url      string   // that must answer with 2xx or 3xx, if any
	ports    []string // addresses that must accept connections
	now      func() time.Time
	client   *http.Client

	mu      sync.Mutex // held during a check, so that one check serves all that wait
	checked time.Time
	err     error
}

func newHealth(o Options) *health {
	h := &health{hostname: o.Hostname, now: o.Now, client: &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	if o.HealthPath != "" {
		h.url = "http://" + loopback(o.Port) + o.HealthPath
	} else {
		h.ports = append(h.ports, loopback(o.Port))
	}
	if o.APIPort != o.Port {
		h.ports = append(h.ports, loopback(o.APIPort))
	}
	return h
}

// loopback returns the address of a port of the container, which shares the loopback interface of its pod.
func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// check returns nil if the container serves: its ports accept connections, and its health path answers with 2xx or 3xx,
// as the kubelet expects of a probe.
func (h *health) check(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if now := h.now(); h.checked.IsZero() || now.Sub(h.checked) >= healthAge || now.Before(h.checked) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), healthTimeout)
		defer cancel()
		h.err, h.checked = h.ask(ctx), now
	}
	return h.err
}

func (h *health) ask(ctx context.Context) error {
	for _, address := range h.ports {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		_ = conn.Close() // unused
	}
	if h.url == "" {
		return nil
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.url, nil)
	if err != nil {
		return err
	}
	req.Host = h.hostname
	req.Header.Set("User-Agent", "agent-front")
	res, err := h.client.Do(req)
	if err != nil {
		return err
	}
	_ = res.Body.Close() // unread
	if res.StatusCode < http.StatusOK || res.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("status %d", res.StatusCode)
	}
	return nil
}
