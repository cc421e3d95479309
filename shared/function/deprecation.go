package function

import (
	"net/http"
	"strconv"
	"time"
)

// Deprecation announces the removal of a route in the headers of every response and in the OpenAPI description.
type Deprecation struct {
	// Since is when clients should start to migrate.
	Since time.Time
	// Sunset is when the route may stop working, at least twelve months after Since.
	Sunset time.Time
	// Link is the URL of the page that explains the change.
	Link string
	// Successor is the path of the replacement; empty for none.
	Successor string
}

// setHeaders sets Deprecation (RFC 9745) and Sunset (RFC 8594), and adds links to the explanation and the successor. It
// does nothing on nil.
func (d *Deprecation) setHeaders(h http.Header) {
	if d == nil {
		return
	}
	h.Set("Deprecation", "@"+strconv.FormatInt(d.Since.Unix(), 10))
	h.Set("Sunset", d.Sunset.UTC().Format(http.TimeFormat))
	h.Add("Link", "<"+d.Link+`>; rel="deprecation"; type="text/html"`)
	if d.Successor != "" {
		h.Add("Link", "<"+d.Successor+`>; rel="successor-version"`)
	}
}
