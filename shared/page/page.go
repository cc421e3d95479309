// Package page defines cursor pagination: requests, pages, and the headers that link to the next page. It does not
// interpret cursors; each store makes and reads its own.
package page

import (
	"net/http"
	"net/url"
)

// Limits of a page's size.
const (
	DefaultLimit = 50
	MaxLimit     = 100
)

// Request asks for one page.
type Request struct {
	// Limit is the maximum number of items, 1 to MaxLimit.
	Limit int
	// Cursor is the opaque position after which the page begins; empty for the first page.
	Cursor string
}

// Page is one page of a list. It renders as a JSON array; headers link to the next page.
type Page[T any] struct {
	Items []T
	// Next is the cursor of the next page; empty on the last page.
	Next string
	// Self is the path and query of the request, from which the link to the next page is made.
	Self *url.URL
}

// Reply implements function.Reply. It sets the headers Link and X-Next-Cursor.
func (p Page[T]) Reply(h http.Header) any {
	if p.Next != "" {
		h.Set("X-Next-Cursor", p.Next)
		if p.Self != nil {
			next := *p.Self
			q := next.Query()
			q.Set("cursor", p.Next)
			next.RawQuery = q.Encode()
			h.Add("Link", "<"+next.RequestURI()+`>; rel="next"`)
		}
	}
	if p.Items == nil {
		return []T{}
	}
	return p.Items
}

// Example implements function.Exampler with a page that is not the last one. Its item is T's example if T has one.
func (p Page[T]) Example() any {
	var item T
	if e, ok := any(item).(interface{ Example() any }); ok {
		item, _ = e.Example().(T)
	}
	return Page[T]{Items: []T{item}, Next: "eyJ0IjoiMjAyNi0wMyJ9", Self: &url.URL{}}
}

// Map converts the items of a page.
func Map[T, U any](p Page[T], f func(T) U) Page[U] {
	items := make([]U, len(p.Items))
	for i, t := range p.Items {
		items[i] = f(t)
	}
	return Page[U]{Items: items, Next: p.Next, Self: p.Self}
}
