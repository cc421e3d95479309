package function

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
)

// Endpoint is a handler with its input and output types. The OpenAPI description is generated from these types, so it
// always matches the handler.
type Endpoint struct {
	// Input is a struct whose fields "path", "query", "header" and "body" (by JSON name) are the parts of the request.
	Input reflect.Type
	// Output is the type of a success: rendered as JSON, except for None, Raw, Formats and Negotiable bodies.
	Output reflect.Type

	schema func() (*inputSchema, error)
	call   func(ctx context.Context, document []byte) (any, error)
}

// Empty is the input of a route that takes no parameters and no body.
type Empty struct{}

// None is the output of a route that answers without a body.
type None struct{}

// Reply is implemented by outputs that set response headers or render a body other than themselves.
type Reply interface {
	// Reply sets the headers of a success and returns the body to render.
	Reply(h http.Header) (body any)
}

// Exampler is implemented by inputs and outputs that provide an example for the OpenAPI description. The example of an
// output goes through Reply like any other value, so the description also shows its headers.
type Exampler interface {
	// Example returns a value of the implementing type. A type that embeds another must define its own Example.
	Example() any
}

// Handle makes an endpoint from a typed function. f only receives valid input: input that matches the schema of In and
// passes the checks, which are rules for the body that a JSON Schema cannot express.
func Handle[In, Out any](f func(ctx context.Context, in In) (Out, error), checks ...Check) Endpoint {
	input := reflect.TypeFor[In]()
	return Endpoint{
		Input: input, Output: reflect.TypeFor[Out](), schema: schemaOf(input, checks),
		call: func(ctx context.Context, document []byte) (any, error) {
			var in In
			d := json.NewDecoder(bytes.NewReader(document))
			d.UseNumber() // free-form numbers keep their exact text, however large
			if err := d.Decode(&in); err != nil {
				return nil, fmt.Errorf("decode a validated request into %s: %w", input, err)
			}
			return f(ctx, in)
		},
	}
}
