package function

import (
	"encoding/base64"
	"net/http"
	"reflect"

	infer "github.com/google/jsonschema-go/jsonschema"
)

// Verbatim is a request body byte for byte, for a route whose caller signs the body, or whose handler parses it. It
// must be declared as JSON, if it is declared; the handler validates it.
type Verbatim []byte

// JSONSchema implements Schemer. It does not restrict the body.
func (Verbatim) JSONSchema() *infer.Schema {
	return &infer.Schema{Description: "The raw body, read byte for byte."}
}

// verbatim reports whether the route's body is Verbatim.
func (r *Route) verbatim() bool {
	f, ok := r.Handle.Input.FieldByName("Body")
	return ok && f.Type == reflect.TypeFor[Verbatim]()
}

// decodeVerbatim reads the body into document["body"] as base64, from which encoding/json decodes the same bytes.
func (r *Route) decodeVerbatim(w http.ResponseWriter, req *http.Request, document map[string]any) error {
	body, err := r.readBody(w, req)
	if err == nil {
		document["body"] = base64.StdEncoding.EncodeToString(body)
		err = checkMediaType(req.Header.Get("Content-Type"))
	}
	return err
}

// MarshalJSON implements json.Marshaler, so that the OpenAPI example shows the body as it is sent.
func (v Verbatim) MarshalJSON() ([]byte, error) { return v, nil }
