// Package openapitest checks responses of the service against its OpenAPI document. It only reads the document and does
// not depend on routes or handlers.
package openapitest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Document is a parsed OpenAPI document. Its methods are safe for concurrent use.
type Document struct {
	root map[string]any

	mu       sync.Mutex
	compiler *jsonschema.Compiler
	schemas  map[string]*jsonschema.Schema // by pointer
}

// Parse parses a document. Its schemas are compiled on first use.
func Parse(description []byte) (*Document, error) {
	root, err := jsonschema.UnmarshalJSON(bytes.NewReader(description))
	if err != nil {
		return nil, fmt.Errorf("parse the OpenAPI document: %w", err)
	}
	object, ok := root.(map[string]any)
	if !ok {
		return nil, errors.New("the OpenAPI document is not a JSON object")
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	c.DefaultDraft(jsonschema.Draft2020)
	if err := c.AddResource(resource, root); err != nil {
		return nil, err
	}
	return &Document{root: object, compiler: c, schemas: map[string]*jsonschema.Schema{}}, nil
}

// resource is the document's name in the compiler.
const resource = "openapi.json"

// Exchange is a request and its response.
type Exchange struct {
	Method string
	// Path is the path of the request, or its template in the document.
	Path   string
	Status int
	Header http.Header
	Body   []byte
}

// Check returns how a response differs from the document: the status, a missing header, the media type or the body. A
// path or method that is not in the document must be answered with a problem and 404 or 405.
func (d *Document) Check(x Exchange) error {
	at := append(d.operation(x), "responses", strconv.Itoa(x.Status))
	if len(at) == 2 {
		return d.checkUnknown(x)
	}
	if err := d.checkResponse(at, x); err != nil {
		return fmt.Errorf("%s %s: response %d differs from the document: %w", x.Method, x.Path, x.Status, err)
	}
	return nil
}

func (d *Document) checkUnknown(x Exchange) error {
	if x.Status != http.StatusNotFound && x.Status != http.StatusMethodNotAllowed {
		return fmt.Errorf("%s %s: response %d, but the document does not have the operation", x.Method, x.Path,
			x.Status)
	}
	if err := d.validate(pointer{"components", "schemas", "Problem"}, x.Body); err != nil {
		return fmt.Errorf("%s %s: body of response %d is not a problem: %w", x.Method, x.Path, x.Status, err)
	}
	return nil
}

// checkResponse checks a response against the response object at a pointer.
func (d *Document) checkResponse(at pointer, x Exchange) error {
	at, response := d.resolve(at)
	if response == nil {
		return errors.New("the operation has no such status")
	}
	var errs []error
	headers, _ := response["headers"].(map[string]any)
	names := map[string]bool{}
	for name := range headers {
		names[http.CanonicalHeaderKey(name)] = true
		errs = append(errs, d.checkHeader(at.to("headers", name), name, x.Header))
	}
	for name := range x.Header {
		if !names[name] && !slices.Contains(ofHTTP, name) {
			errs = append(errs, fmt.Errorf("header %s is not described", name))
		}
	}
	content, _ := response["content"].(map[string]any)
	return errors.Join(append(errs, d.checkBody(at.to("content"), content, x))...)
}

// ofHTTP are the headers of the body and the connection, which HTTP describes.
var ofHTTP = []string{ //nolint:gochecknoglobals // a constant
	"Content-Type", "Content-Length", "Content-Encoding", "Connection", "Date", "Transfer-Encoding",
}

func (d *Document) checkHeader(at pointer, name string, h http.Header) error {
	at, described := d.resolve(at)
	value := h.Get(name)
	switch {
	case value == "" && described["required"] == true:
		return fmt.Errorf("header %s is missing", name)
	case value == "":
		return nil
	}
	raw := []byte(value)
	if schema, _ := described["schema"].(map[string]any); schema["type"] == "string" {
		raw, _ = json.Marshal(value) // a string always encodes
	}
	if err := d.validate(at.to("schema"), raw); err != nil {
		return fmt.Errorf("header %s: %w", name, err)
	}
	return nil
}

func (d *Document) checkBody(at pointer, content map[string]any, x Exchange) error {
	if len(content) == 0 || x.Method == http.MethodHead {
		if len(x.Body) > 0 {
			return fmt.Errorf("body has %d bytes, but the document describes none", len(x.Body))
		}
		return nil
	}
	media, _, err := mime.ParseMediaType(x.Header.Get("Content-Type"))
	if err != nil {
		return fmt.Errorf("media type %q: %w", x.Header.Get("Content-Type"), err)
	}
	if _, any := content["*/*"]; any {
		return nil
	}
	described, ok := content[media].(map[string]any)
	if !ok {
		return fmt.Errorf("media type %s is not described", media)
	}
	if schema, _ := described["schema"].(map[string]any); schema["contentSchema"] != nil {
		return d.checkItems(at.to(media, "schema", "contentSchema", "items"), media, x.Body)
	}
	if described["schema"] == nil || media != "application/json" {
		return nil
	}
	return d.validate(at.to(media, "schema"), x.Body)
}

// checkItems checks each line of JSON, or the data of each event.
func (d *Document) checkItems(at pointer, media string, body []byte) error {
	number := 0
	for line := range bytes.Lines(body) {
		number++
		if media == "text/event-stream" {
			data, ok := bytes.CutPrefix(line, []byte("data: "))
			if !ok {
				continue
			}
			line = data
		}
		if err := d.validate(at, line); err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
	}
	return nil
}

// validate validates JSON against the schema at a pointer. The error contains locations and keywords but never values,
// which may be secret.
func (d *Document) validate(at pointer, raw []byte) error {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return errors.New("the value is not JSON")
	}
	schema, err := d.schema(at)
	if err != nil {
		return fmt.Errorf("compile the schema at %s: %w", at, err)
	}
	var failed *jsonschema.ValidationError
	if err := schema.Validate(value); errors.As(err, &failed) {
		return errors.Join(leaves(failed)...)
	}
	return nil
}

// schema returns the compiled schema at a pointer. The compiler itself takes longer than most validations to find one
// that it has compiled before.
func (d *Document) schema(at pointer) (*jsonschema.Schema, error) {
	key := at.String()
	d.mu.Lock()
	defer d.mu.Unlock()
	if known := d.schemas[key]; known != nil {
		return known, nil
	}
	compiled, err := d.compiler.Compile(resource + key)
	if err == nil {
		d.schemas[key] = compiled
	}
	return compiled, err
}

func leaves(e *jsonschema.ValidationError) []error {
	if len(e.Causes) == 0 {
		return []error{fmt.Errorf("/%s violates %s", strings.Join(e.InstanceLocation, "/"),
			strings.Join(e.ErrorKind.KeywordPath(), "/"))}
	}
	var all []error
	for _, c := range e.Causes {
		all = append(all, leaves(c)...)
	}
	return all
}
