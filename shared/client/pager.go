package client

import (
	"context"
	"iter"
	"net/http"
)

// Pager reads a list in pages. It sends nothing before All or Page is called.
type Pager[T any] struct {
	client  *Client
	call    call
	options []CallOption
}

// Page is a part of a list.
type Page[T any] struct {
	Items []T
	// Next is the cursor of the next page; empty on the last one.
	Next string
}

// Page returns the page that the parameters ask for.
func (p Pager[T]) Page(ctx context.Context) (*Page[T], error) {
	var header http.Header
	items, err := sendForList[T](ctx, p.client, p.call, append(p.options[:len(p.options):len(p.options)],
		ResponseHeader(&header)))
	if err != nil {
		return nil, err
	}
	return &Page[T]{Items: items, Next: header.Get("X-Next-Cursor")}, nil
}

// All returns the items of this page and all following ones. It reads a page when its first item is needed. After an
// error, the iteration ends.
func (p Pager[T]) All(ctx context.Context) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		next := p
		for {
			page, err := next.Page(ctx)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, item := range page.Items {
				if !yield(item, nil) {
					return
				}
			}
			if page.Next == "" {
				return
			}
			next.call.query = cloneWith(next.call.query, "cursor", page.Next)
		}
	}
}
