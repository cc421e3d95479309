package client

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
)

// lines sends a call whose answer is one JSON object a line, and returns the objects as they arrive. After an error,
// the iteration ends.
func lines[T any](ctx context.Context, c *Client, r call, options []CallOption) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		q, err := c.prepare(r, "application/x-ndjson", options)
		if err != nil {
			yield(none, err)
			return
		}
		res, err := retry(ctx, c.retry, func() (*http.Response, error) { return c.once(ctx, q) })
		if err != nil {
			yield(none, err)
			return
		}
		defer res.Body.Close() //nolint:errcheck // nothing is written
		scanner := bufio.NewScanner(res.Body)
		scanner.Buffer(nil, 1<<20)
		for scanner.Scan() {
			if len(scanner.Bytes()) == 0 {
				continue
			}
			var item T
			if err := json.Unmarshal(scanner.Bytes(), &item); err != nil {
				// A lost connection leaves a part of a line.
				yield(none, fmt.Errorf("a line of the answer cannot be read: %w", cmp.Or(scanner.Err(), err)))
				return
			}
			if q.line != nil {
				*q.line = bytes.Clone(scanner.Bytes())
			}
			if !yield(item, nil) {
				return
			}
		}
		if err := scanner.Err(); err != nil {
			yield(none, err)
		}
	}
}
