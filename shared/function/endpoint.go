package function

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
)

// Endpoint is a handler with its input and output types, so that the description of a route is made from what serves
// it.
type Endpoint struct {
	// Input is a struct whose fields "path", "query", "header" and "body" (by JSON name) are the parts of the request.
	Input reflect.Type
	// Output is what a success renders: JSON, or nothing for None.
	Output reflect.Type

	schema func() (*inputSchema, error)
	call   func(ctx context.Context, document []byte) (any, error)
}

// None is the output of a route that answers without a body.
type None struct{}

// Reply is implemented by outputs that carry more than a body: headers, or a body of another shape.
type Reply interface {
	// Reply sets the headers of a success and returns the body to render.
	Reply(h http.Header) (body any)
}

// Exampler is implemented by inputs and outputs that show one of their own kind, for the description of the interface.
// An output's example is rendered as any other value: what its Reply does to the headers is described, too.
type Exampler interface {
	// Example returns a value of the implementing type. A type that embeds another has to have an example of its own.
	Example() any
}

// Handle makes an endpoint from a typed function and the rules its body must keep beside its schema. The function is
// called with an input that has been validated.
func Handle[In, Out any](f func(ctx context.Context, in In) (Out, error), checks ...Check) Endpoint {
	input := reflect.TypeFor[In]()
	return Endpoint{
		Input: input, Output: reflect.TypeFor[Out](), schema: schemaOf(input, checks),
		call: func(ctx context.Context, document []byte) (any, error) {
			var in In
			d := json.NewDecoder(bytes.NewReader(document))
			d.UseNumber() // a client's own numbers come back as they were sent, however large
			if err := d.Decode(&in); err != nil {
				return nil, fmt.Errorf("a validated request does not decode into %s: %w", input, err)
			}
			return f(ctx, in)
		},
	}
}

// Empty is the input of a route that takes nothing.
type Empty struct{}
