package function

import (
	"net/http"
	"strconv"
	"time"
)

// Deprecation announces that a route goes away, in the headers of every answer and in the description of the interface.
type Deprecation struct {
	// Since is when clients should begin to leave the route.
	Since time.Time
	// Sunset is when the route may stop working, at least twelve months after Since.
	Sunset time.Time
	// Link is the URL of what explains the change to a person.
	Link string
	// Successor is the path that takes the route's place; empty when nothing does.
	Successor string
}

// announce sets Deprecation (RFC 9745), Sunset (RFC 8594) and the links to read on. It adds to other links and does
// nothing on nil.
func (d *Deprecation) announce(h http.Header) {
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
