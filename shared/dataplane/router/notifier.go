package router

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// Notifier is the Waker that calls the notifier of a cell.
type Notifier struct {
	base   *url.URL
	client *http.Client
}

// NewNotifier returns a Waker for the notifier at a URL without a path, such as http://agent-notifier:8080.
func NewNotifier(base string) (*Notifier, error) {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Path != "" && u.Path != "/" ||
		u.RawQuery != "" {
		return nil, fmt.Errorf("router: %q is not the URL of a notifier, such as http://agent-notifier:8080", base)
	}
	return &Notifier{base: u, client: &http.Client{
		Transport: &http.Transport{MaxIdleConnsPerHost: maxWakes, IdleConnTimeout: 30 * time.Second},
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}}, nil
}

// Wake implements Waker.
func (n *Notifier) Wake(ctx context.Context, agentID string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, n.base.JoinPath("wake", agentID).String(), nil)
	if err != nil {
		return fmt.Errorf("ask the notifier: %w", err)
	}
	res, err := n.client.Do(req)
	if err != nil {
		return fmt.Errorf("ask the notifier: %w", err)
	}
	_ = res.Body.Close() // the answer has no body
	if res.StatusCode != http.StatusAccepted {
		return fmt.Errorf("the notifier answers %d, want 202", res.StatusCode)
	}
	return nil
}

// Close closes the connections that are not in use.
func (n *Notifier) Close() { n.client.CloseIdleConnections() }
