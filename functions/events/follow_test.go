package events_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	"agents.example/controlplane/functions/backendtest"
	"agents.example/controlplane/functions/events"
	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/shared/client"
	"agents.example/controlplane/shared/function"
)

// cuttingNetwork breaks streams off after some bytes, in the middle of an event or between two. It is for one client,
// whose requests are not concurrent.
type cuttingNetwork struct {
	http.RoundTripper
	streams int
	// opened is closed with the first stream.
	opened chan struct{}
}

// RoundTrip implements http.RoundTripper.
func (n *cuttingNetwork) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := n.RoundTripper.RoundTrip(req)
	if err != nil || res.Header.Get("Content-Type") != "text/event-stream" {
		return res, err
	}
	if n.streams == 0 {
		close(n.opened)
	}
	cuts := []int{20, 400, 90, 1700, 333, 20, 700, 1201}
	res.Body = &cutBody{ReadCloser: res.Body, left: cuts[n.streams%len(cuts)]}
	n.streams++
	return res, nil
}

type cutBody struct {
	io.ReadCloser
	left int
}

// Read implements io.Reader. It shortens the pause that the server asks for.
func (b *cutBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.ErrUnexpectedEOF
	}
	read, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= read
	copy(p, bytes.Replace(p[:read], []byte("retry: 2000"), []byte("retry: 0001"), 1))
	return read, err
}

// followUntil returns the ids of the events up to the revocation of a key.
func followUntil(ctx context.Context, c *client.Client, params client.StreamEventsParams, keyID string) (
	[]string, error,
) {
	var ids []string
	for e, err := range c.FollowEvents(ctx, params) {
		if err != nil {
			return ids, err
		}
		ids = append(ids, e.ID)
		if e.Type == client.EventTypeAPIKeyRevoked && e.Data["id"] == keyID {
			break
		}
	}
	return ids, nil
}

// TestFollowEvents_LosesAndRepeatsNoEventOfTheRoutes creates and revokes keys while clients follow the real log over
// streams that break off.
func TestFollowEvents_LosesAndRepeatsNoEventOfTheRoutes(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	_, key := b.CreateKey(t, "org-1")
	lastKey, _ := b.CreateKey(t, "org-1")
	server := functiontest.Serve(t, function.Mux([]function.Served{
		events.List(b.Events).Served(b.Guard), events.Stream(b.Events, nil).Served(b.Guard),
	}))
	before, _ := list(t, b, functiontest.AsAdmin("org-1"), nil)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()

	var ended, writing sync.WaitGroup
	defer ended.Wait()
	for name, params := range map[string]client.StreamEventsParams{
		"all events": {}, "one type": {Type: client.EventTypeAPIKeyRevoked},
	} {
		network := &cuttingNetwork{RoundTripper: server.Client().Transport, opened: make(chan struct{})}
		c, err := client.New(server.URL, client.StaticToken(key),
			client.WithHTTPClient(&http.Client{Transport: network}))
		if err != nil {
			t.Fatal(err)
		}
		ended.Go(func() {
			got, err := followUntil(ctx, c, params, lastKey)
			query := url.Values{"limit": {"100"}, "cursor": {before.Header.Get("X-Event-Cursor")}}
			if params.Type != "" {
				query.Set("type", string(params.Type))
			}
			_, committed := list(t, b, functiontest.AsAdmin("org-1"), query)
			var want []string
			for _, e := range committed {
				want = append(want, string(e.ID))
			}
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%s: received %q, %v; want %q", name, got, err, want)
			}
			if len(want) < 13 || network.streams < 5 {
				t.Errorf("%s: %d events over %d streams, want many of both", name, len(want), network.streams)
			}
		})
		<-network.opened
	}
	for range 3 {
		writing.Go(func() {
			for range 4 {
				id, _ := b.CreateKey(t, "org-1")
				b.CallNamed(t, "RevokeAPIKey", functiontest.AsAdmin("org-1"), functiontest.Path("key_id", id)).
					Want(t, http.StatusNoContent, "")
			}
		})
	}
	writing.Wait()
	b.CallNamed(t, "RevokeAPIKey", functiontest.AsAdmin("org-1"), functiontest.Path("key_id", lastKey)).
		Want(t, http.StatusNoContent, "")
}
