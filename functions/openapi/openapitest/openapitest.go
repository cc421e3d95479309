// Package openapitest holds what the service answers against what its OpenAPI document says. It knows the document
// alone: neither routes nor handlers.
package openapitest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Document is a parsed OpenAPI document. Its methods may be called from any goroutine.
type Document struct {
	root map[string]any

	mu       sync.Mutex
	compiler *jsonschema.Compiler
}

// Parse reads a document. Its schemas are compiled when they are first needed.
func Parse(description []byte) (*Document, error) {
	root, err := jsonschema.UnmarshalJSON(bytes.NewReader(description))
	if err != nil {
		return nil, fmt.Errorf("parse the OpenAPI document: %w", err)
	}
	object, ok := root.(map[string]any)
	if !ok {
		return nil, errors.New("the OpenAPI document is no JSON object")
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	c.DefaultDraft(jsonschema.Draft2020)
	if err := c.AddResource(resource, root); err != nil {
		return nil, err
	}
	return &Document{root: object, compiler: c}, nil
}

// resource is the name under which the compiler knows the document.
const resource = "openapi.json"

// Exchange is a call and its answer.
type Exchange struct {
	Method string
	// Path is the path of the call, or its template as the document has it.
	Path   string
	Status int
	Header http.Header
	Body   []byte
}

// Check tells in what an answer differs from the document: the status, a header that should be there, the media type or
// the body. Paths and methods that the document doesn't have are answered with a problem and 404 or 405.
func (d *Document) Check(x Exchange) error {
	at := append(d.operation(x), "responses", strconv.Itoa(x.Status))
	if len(at) == 2 {
		return d.unknown(x)
	}
	if err := d.answer(at, x); err != nil {
		return fmt.Errorf("%s %s answers %d other than it is described: %w", x.Method, x.Path, x.Status, err)
	}
	return nil
}

func (d *Document) unknown(x Exchange) error {
	if x.Status != http.StatusNotFound && x.Status != http.StatusMethodNotAllowed {
		return fmt.Errorf("%s %s answers %d, but the document doesn't have it", x.Method, x.Path, x.Status)
	}
	if err := d.valid(pointer{"components", "schemas", "Problem"}, x.Body); err != nil {
		return fmt.Errorf("%s %s answers %d with another body than a problem: %w", x.Method, x.Path, x.Status, err)
	}
	return nil
}

// answer checks everything about an answer against the response at a place.
func (d *Document) answer(at pointer, x Exchange) error {
	at, response := d.resolve(at)
	if response == nil {
		return errors.New("the status is not among its responses")
	}
	var errs []error
	headers, _ := response["headers"].(map[string]any)
	for name := range headers {
		errs = append(errs, d.header(at.to("headers", name), name, x.Header))
	}
	content, _ := response["content"].(map[string]any)
	return errors.Join(append(errs, d.body(at.to("content"), content, x))...)
}

func (d *Document) header(at pointer, name string, h http.Header) error {
	at, described := d.resolve(at)
	value := h.Get(name)
	switch {
	case value == "" && described["required"] == true:
		return fmt.Errorf("the header %s is missing", name)
	case value == "":
		return nil
	}
	raw := []byte(value)
	if schema, _ := described["schema"].(map[string]any); schema["type"] == "string" {
		raw, _ = json.Marshal(value) // a string always encodes
	}
	if err := d.valid(at.to("schema"), raw); err != nil {
		return fmt.Errorf("the header %s: %w", name, err)
	}
	return nil
}

func (d *Document) body(at pointer, content map[string]any, x Exchange) error {
	if len(content) == 0 || x.Method == http.MethodHead {
		if len(x.Body) > 0 {
			return fmt.Errorf("there is a body of %d bytes where none is described", len(x.Body))
		}
		return nil
	}
	media, _, err := mime.ParseMediaType(x.Header.Get("Content-Type"))
	if err != nil {
		return fmt.Errorf("the media type %q: %w", x.Header.Get("Content-Type"), err)
	}
	if _, any := content["*/*"]; any {
		return nil
	}
	described, ok := content[media].(map[string]any)
	if !ok {
		return fmt.Errorf("the media type %s is not described", media)
	}
	if described["schema"] == nil || media != "application/json" {
		return nil
	}
	return d.valid(at.to(media, "schema"), x.Body)
}

// valid validates JSON against the schema at a place. The error tells places and keywords, never values: an answer may
// hold a secret.
func (d *Document) valid(at pointer, raw []byte) error {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return errors.New("the value is no JSON")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	schema, err := d.compiler.Compile(resource + at.String())
	if err != nil {
		return fmt.Errorf("compile the schema at %s: %w", at, err)
	}
	var failed *jsonschema.ValidationError
	if err := schema.Validate(value); errors.As(err, &failed) {
		return errors.Join(leaves(failed)...)
	}
	return nil
}

func leaves(e *jsonschema.ValidationError) []error {
	if len(e.Causes) == 0 {
		return []error{fmt.Errorf("/%s breaks %s", strings.Join(e.InstanceLocation, "/"),
			strings.Join(e.ErrorKind.KeywordPath(), "/"))}
	}
	var all []error
	for _, c := range e.Causes {
		all = append(all, leaves(c)...)
	}
	return all
}
