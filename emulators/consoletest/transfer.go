//go:build unix

package consoletest

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
)

// Transfer is a request of a page and its response.
type Transfer struct {
	URL  string
	Type network.ResourceType
	// Status of the response; 0 without one.
	Status int64
	// Bytes on the wire: headers and the compressed body. 0 from a cache.
	Bytes int64
	// Decoded is the size of the body without compression.
	Decoded int64
	// Cached is a response that came from a cache.
	Cached bool
	// Done is a response that is complete, or a request that failed or whose document is gone.
	Done bool

	document cdp.LoaderID
}

// networkEvent keeps requests, and adds faults of assets and foreign origins.
func (r *record) networkEvent(event any) {
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		r.sent(e)
	case *page.EventFrameNavigated:
		if e.Frame.ParentID == "" {
			r.leave(e.Frame.LoaderID)
		}
	case *network.EventWebSocketCreated:
		r.checkOrigin(e.URL)
	case *network.EventRequestServedFromCache:
		if t := r.requests[e.RequestID]; t != nil {
			t.Cached = true
		}
	case *network.EventResponseReceived:
		if t := r.requests[e.RequestID]; t != nil {
			t.Status, t.Cached = e.Response.Status, t.Cached || e.Response.FromDiskCache
			if t.Status >= 400 && isAsset(t.Type) {
				r.add(AssetFailure, "%s %s: status %d", t.Type, t.URL, t.Status)
			}
		}
	case *network.EventDataReceived:
		if t := r.requests[e.RequestID]; t != nil {
			t.Decoded += e.DataLength
		}
	case *network.EventLoadingFinished:
		if t := r.requests[e.RequestID]; t != nil {
			t.Bytes, t.Done = t.Bytes+int64(e.EncodedDataLength), true
		}
	case *network.EventLoadingFailed:
		t := r.requests[e.RequestID]
		if t != nil {
			t.Done = true
		}
		// The policy's violation has a separate fault.
		if t != nil && !e.Canceled && e.BlockedReason == "" && isAsset(t.Type) {
			r.add(AssetFailure, "%s %s: %s", t.Type, t.URL, e.ErrorText)
		}
	}
}

// leave ends the requests of former documents: the browser may not report that it canceled them.
func (r *record) leave(document cdp.LoaderID) {
	for _, t := range r.transfers {
		t.Done = t.Done || t.document != document
	}
}

func (r *record) sent(e *network.EventRequestWillBeSent) {
	if !r.checkOrigin(e.Request.URL) {
		return
	}
	t := &Transfer{URL: e.Request.URL, Type: e.Type, document: e.LoaderID}
	if e.RedirectResponse != nil {
		if old := r.requests[e.RequestID]; old != nil {
			old.Status, old.Done = e.RedirectResponse.Status, true
			old.Bytes = int64(e.RedirectResponse.EncodedDataLength)
		}
	}
	r.requests[e.RequestID] = t
	r.transfers = append(r.transfers, t)
}

// checkOrigin reports whether an address belongs to a host. It adds a fault if the host is not allowed.
func (r *record) checkOrigin(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		r.add(ForeignRequest, "%s", address)
		return false
	}
	switch u.Scheme {
	case "http", "https", "ws", "wss":
	default:
		return false // such as data: and blob:, which leave nothing
	}
	origin := strings.Replace(u.Scheme, "ws", "http", 1) + "://" + u.Host
	if !slices.Contains(r.origins, origin) {
		u.RawQuery, u.Fragment = "", "" // may have secrets
		r.add(ForeignRequest, "%s", u.String())
	}
	return true
}

// isAsset reports whether a response is part of the page. Responses to fetch are data, whose errors the page handles.
func isAsset(t network.ResourceType) bool {
	switch t {
	case network.ResourceTypeXHR, network.ResourceTypeFetch, network.ResourceTypeEventSource,
		network.ResourceTypeWebSocket, network.ResourceTypePing, network.ResourceTypePreflight:
		return false
	default:
		return true
	}
}

// Transfers returns the page's requests since it was opened, in their order.
func (p *Page) Transfers() []Transfer {
	p.t.Helper()
	if err := p.flush(); err != nil {
		p.fail("read the requests", err)
	}
	r := p.tab.record
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []Transfer
	for _, t := range r.transfers {
		all = append(all, *t)
	}
	return all
}

// WaitIdle waits until all requests that the page has sent are done. A page that follows a log never is.
func (p *Page) WaitIdle() {
	p.t.Helper()
	p.await("wait until all requests are done", func(context.Context) error {
		r := p.tab.record
		r.mu.Lock()
		defer r.mu.Unlock()
		if i := slices.IndexFunc(r.transfers, func(t *Transfer) bool { return !t.Done }); i >= 0 {
			return fmt.Errorf("%s %s is not", r.transfers[i].Type, r.transfers[i].URL)
		}
		return nil
	})
}

// TransferTable formats transfers as a table with a total, the largest first.
func TransferTable(list []Transfer) string {
	largest := func(a, b Transfer) int { return cmp.Compare(b.Bytes, a.Bytes) }
	list = slices.SortedStableFunc(slices.Values(list), largest)
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', tabwriter.AlignRight)
	total := int64(0)
	fmt.Fprintln(w, "bytes\tstatus\ttype\t  resource")
	for _, t := range list {
		total += t.Bytes
		path := t.URL
		if u, err := url.Parse(t.URL); err == nil {
			path = u.Path
		}
		fmt.Fprintf(w, "%d\t%d\t%s\t  %s\n", t.Bytes, t.Status, t.Type, path)
	}
	fmt.Fprintf(w, "%d\t\t\t  total of %d requests\n", total, len(list))
	_ = w.Flush() // a strings.Builder does not fail
	return out.String()
}
