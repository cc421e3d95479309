package function

import (
	"encoding/base64"
	"net/http"
	"reflect"

	infer "github.com/google/jsonschema-go/jsonschema"
)

// Verbatim is the body of a request as it was sent, byte for byte: for a route whose caller signed it. Whatever was
// sent is taken, also nothing; what it is worth is the handler's to find out.
type Verbatim []byte

// JSONSchema implements Schemer. The sender decides what the body is.
func (Verbatim) JSONSchema() *infer.Schema {
	return &infer.Schema{Description: "Taken byte for byte as it is sent."}
}

// verbatim reports whether a route takes its body as it was sent.
func (r Route) verbatim() bool {
	f, ok := r.Handle.Input.FieldByName("Body")
	return ok && f.Type == reflect.TypeFor[Verbatim]()
}

// decodeVerbatim reads the body into document["body"] in the form from which it decodes unchanged.
func (r Route) decodeVerbatim(w http.ResponseWriter, req *http.Request, document map[string]any) error {
	body, err := readBody(w, req, r.bodyLimit())
	if err == nil {
		document["body"] = base64.StdEncoding.EncodeToString(body)
	}
	return err
}

// MarshalJSON implements json.Marshaler: an example is shown as it is sent.
func (v Verbatim) MarshalJSON() ([]byte, error) { return v, nil }
