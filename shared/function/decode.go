package function

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	infer "github.com/google/jsonschema-go/jsonschema"

	"agents.example/controlplane/shared/fault"
)

const ifMatchHeader = "If-Match"

// decode reads a request into the JSON document from which the route's input is decoded. An oversized body (413), a
// wrong media type (415) or malformed JSON ends it immediately. Otherwise the error lists every violation in path,
// query, headers and body together.
func (r *Route) decode(w http.ResponseWriter, req *http.Request) ([]byte, error) {
	schema, err := r.Handle.schema()
	if err != nil {
		return nil, err
	}
	document := map[string]any{}
	var found []Violation
	var body any
	switch parts := schema.description.Properties; {
	case parts["body"] == nil:
		body, err = r.otherBody(w, req)
	case r.Streams():
		document["body"] = map[string]any{} // the handler reads it
		err = r.openBody(w, req)
	case r.verbatim():
		err = r.decodeVerbatim(w, req, document)
	default:
		err = r.decodeBody(w, req, document)
		body = document["body"]
	}
	if err != nil {
		return nil, err
	}
	query, unread := url.ParseQuery(req.URL.RawQuery)
	if unread != nil && (r.Mutates() || schema.description.Properties["query"] != nil) {
		found = append(found, fault.ValueError([]any{"query"}, unreadQuery))
	}
	for _, part := range []struct {
		name string
		get  func(name string) (string, bool)
	}{
		{"path", func(name string) (string, bool) { return req.PathValue(name), true }},
		{"query", lastValue(query)},
		{"header", joinedLines(req.Header)},
	} {
		if s := schema.description.Properties[part.name]; s != nil {
			values := presentParameters(s, part.get)
			if part.name == "query" {
				presentLists(s, query, values)
			}
			document[part.name] = values
			found = append(found, invalidUTF8(part.name, values)...)
		}
	}
	found = append(found, r.dryRunViolations(req, body)...)
	prune(schema.description, document)
	relax(schema.description, document)
	if found = append(found, schema.violations(document)...); len(found) > 0 {
		return nil, fault.Validation(found...)
	}
	return json.Marshal(document)
}

// unreadQuery is the violation of a query with a pair that its parser drops. The pair may be dry_run, or the filter of
// a list: without it, the call would do more than the client asked for.
const unreadQuery = "the query cannot be read: write % as %25 and ; as %3B in names and values"

// prune removes the properties that the schema does not name. The API ignores them, but Go's decoder matches names
// case-insensitively and would read "Name" into name. It runs before validation: checks may decode parts of the body,
// too.
func prune(s *infer.Schema, value any) {
	switch v := value.(type) {
	case map[string]any:
		for name, e := range v {
			switch p := s.Properties[name]; {
			case p != nil:
				prune(p, e)
			case len(s.Properties) > 0: // a schema without properties accepts all names
				delete(v, name)
			case s.AdditionalProperties != nil:
				prune(s.AdditionalProperties, e)
			}
		}
	case []any:
		for _, e := range v {
			if s.Items != nil {
				prune(s.Items, e)
			}
		}
	}
}

// lastValue looks up query parameters. The last value of a repeated parameter counts.
func lastValue(query url.Values) func(name string) (string, bool) {
	return func(name string) (string, bool) {
		values := query[name]
		if len(values) == 0 {
			return "", false
		}
		return values[len(values)-1], true
	}
}

// joinedLines looks up headers. Those that may have several lines are lists (RFC 9110, section 5.3). An If-Match
// without a version, as of a client whose variable is empty, holds for none: it is not taken for an absent one.
func joinedLines(h http.Header) func(name string) (string, bool) {
	return func(name string) (string, bool) {
		lines := h.Values(name)
		value := strings.Join(lines, ", ")
		if name == ifMatchHeader && len(lines) > 0 && value == "" {
			value = ","
		}
		return value, value != ""
	}
}

// presentParameters returns the parameters in the schema that the request has.
func presentParameters(s *infer.Schema, get func(name string) (string, bool)) map[string]any {
	values := map[string]any{}
	for name := range s.Properties {
		if v, ok := get(name); ok {
			values[name] = v
		}
	}
	return values
}

// presentLists replaces the parameters that are lists by all their values.
func presentLists(s *infer.Schema, query url.Values, values map[string]any) {
	for name, p := range s.Properties {
		if !allowsType(p, "array") || !query.Has(name) {
			continue
		}
		list := make([]any, len(query[name]))
		for i, value := range query[name] {
			list[i] = value
		}
		values[name] = list
	}
}

// invalidUTF8 returns a violation for each parameter that is not valid UTF-8. No store accepts such text.
func invalidUTF8(part string, values map[string]any) []Violation {
	var found []Violation
	for name, value := range values {
		if text := fmt.Sprint(value); !utf8.ValidString(text) {
			found = append(found, Violation{
				Loc: []any{part, name}, Type: "string_unicode",
				Msg: "Input should be a valid string, unable to parse raw data as a unicode string",
			})
		}
	}
	return found
}

// decodeBody reads the body into document["body"]. An absent or null body sets no key; the schema reports it if the
// body is required.
func (r *Route) decodeBody(w http.ResponseWriter, req *http.Request, document map[string]any) error {
	body, err := r.readBody(w, req)
	if err != nil {
		return err
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return nil
	}
	if err := checkMediaType(req.Header.Get("Content-Type")); err != nil {
		return err
	}
	v, err := parseJSON(body)
	if err != nil {
		return err
	}
	if v != nil {
		document["body"] = v
	}
	return nil
}

// readBody reads the whole body. It refuses a body that is declared too large without reading it. Errors: TooLarge,
// RequestTimeout, BadRequest.
func (r *Route) readBody(w http.ResponseWriter, req *http.Request) ([]byte, error) {
	if req.ContentLength > r.bodyLimit() {
		return nil, r.tooLarge()
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, r.bodyLimit()))
	if err != nil {
		return nil, r.explainBody(err)
	}
	return body, nil
}

func checkMediaType(contentType string) error {
	media, _, err := mime.ParseMediaType(contentType)
	if contentType == "" || (err == nil && (media == "application/json" || strings.HasSuffix(media, "+json"))) {
		return nil
	}
	return fault.New(fault.UnsupportedMedia, "unsupported_media_type",
		"The request body must be JSON. Send it with Content-Type: application/json.")
}

// parseJSON parses exactly one JSON value in UTF-8. It keeps the text of numbers.
func parseJSON(body []byte) (any, error) {
	if !utf8.Valid(body) {
		return nil, malformed(0, "the body is not valid UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return nil, malformed(syntax.Offset, syntax.Error())
		}
		return nil, malformed(d.InputOffset(), "unexpected end of input")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, malformed(d.InputOffset(), "extra data after the JSON value")
	}
	if found := ambiguities(body); len(found) > 0 {
		return nil, fault.Validation(found...)
	}
	return v, nil
}

// malformed returns the error for a body that is not JSON. offset counts bytes.
func malformed(offset int64, why string) error {
	return fault.Validation(Violation{
		Loc: []any{"body", offset}, Type: "json_invalid", Msg: "JSON decode error", Ctx: map[string]any{"error": why},
	})
}
