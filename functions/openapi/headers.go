package openapi

import (
	"fmt"
	"net/http"

	"github.com/google/jsonschema-go/jsonschema"

	"agents.example/controlplane/shared/idempotency"
)

func text() *jsonschema.Schema { return &jsonschema.Schema{Type: "string"} }

// headers describes the response headers. A header is required if every response that can set it does.
func headers() map[string]header {
	seconds := &jsonschema.Schema{Type: "integer", Minimum: new(float64)}
	return map[string]header{
		"X-Request-Id": {"The id of the call, as the log and the audit log have it. A sane id that the client sends " +
			"is kept.", true, text()},

		"Location":                 {"The path of what was created.", true, text()},
		"ETag":                     {"The version of what is shown, for `If-None-Match`.", true, text()},
		"Cache-Control":            {"Who may keep the answer, and for how long.", true, text()},
		"Link":                     {"Related addresses: `rel=\"next\"` is the next page of a list.", false, text()},
		"X-Next-Cursor":            {"The cursor of the next page. It is absent on the last one.", false, text()},
		idempotency.ReplayedHeader: {"`true` on an answer that was given before.", false, text()},

		"Vary": {"The request headers that the answer depends on.", true, text()},

		"WWW-Authenticate": {"How to authenticate.", true, text()},
		"Retry-After":      {"How many seconds to wait before the next attempt.", true, seconds},
		"RateLimit": {
			"What is left of the bucket that is closest to empty, and the seconds until it is full.",
			false, text(),
		},
		"RateLimit-Policy": {"The size of that bucket, and the seconds in which it fills.", false, text()},

		"Deprecation": {"Since when the operation is deprecated (RFC 9745), as `@` and Unix seconds.", true, text()},
		"Sunset":      {"When the operation may stop working (RFC 8594).", true, text()},

		"Content-Security-Policy": {"What the page may load: nothing from elsewhere.", true, text()},
		"Referrer-Policy":         {"The page sends no Referer header.", true, text()},
		"X-Content-Type-Options":  {"The media type is as declared.", true, text()},
	}
}

// spelling returns the usual spelling of a header if Go's canonical form differs.
func spelling(name string) string {
	for usual := range headers() {
		if http.CanonicalHeaderKey(usual) == http.CanonicalHeaderKey(name) {
			return usual
		}
	}
	return name
}

// ifNoneMatch is the parameter with the version that the client has.
const ifNoneMatch = "If-None-Match"

// parameters describes the parameters that are not in a route's input, because middleware handles them.
func parameters() map[string]parameter {
	least, most := 1, 255
	return map[string]parameter{
		ifNoneMatch: {
			Name: ifNoneMatch, In: "header", Schema: text(),
			Description: "The `ETag` of the version that the client has. When it is still the present one, the " +
				"answer is 304 without a body.",
		},
		idempotency.Header: {
			Name: idempotency.Header, In: "header",
			Schema: &jsonschema.Schema{Type: "string", MinLength: &least, MaxLength: &most, Pattern: "^[!-~]+$"},
			Description: fmt.Sprintf("Makes the call safe to repeat: for %d hours a repeat with the same key gets "+
				"the same answer, and another "+
				"request with that key is refused with 422.", int(idempotency.Retention.Hours())),
		},
	}
}
