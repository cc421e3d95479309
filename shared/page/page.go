// Package page knows cursor pagination: requests, pages and the headers that lead to the next one. It does not know
// what a cursor means to a store.
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
	// Limit is the most items a page has, 1 to MaxLimit.
	Limit int
	// Cursor is the opaque place to go on from; empty for the first page.
	Cursor string
}

// Page is one page of a list. It is shown as a bare JSON array; the way to the next page is in the headers.
type Page[T any] struct {
	Items []T
	// Next is the cursor of the next page, or empty on the last one.
	Next string
	// Self is the path and query the page was asked with, from which the next page's link is made.
	Self *url.URL
}

// Reply implements the contract of package function for outputs with headers: Link and X-Next-Cursor.
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

// Example implements the contract of package function for outputs with an example, where the items have one: a page
// that another follows.
func (p Page[T]) Example() any {
	var item T
	if e, ok := any(item).(interface{ Example() any }); ok {
		item, _ = e.Example().(T)
	}
	return Page[T]{Items: []T{item}, Next: "eyJ0IjoiMjAyNi0wMyJ9", Self: &url.URL{}}
}

// Map turns a page of one type into a page of another.
func Map[T, U any](p Page[T], f func(T) U) Page[U] {
	items := make([]U, len(p.Items))
	for i, t := range p.Items {
		items[i] = f(t)
	}
	return Page[U]{Items: items, Next: p.Next, Self: p.Self}
}
