package openapi

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/google/jsonschema-go/jsonschema"

	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/idempotency"
)

func text() *jsonschema.Schema { return &jsonschema.Schema{Type: "string"} }

// headers describes the response headers. A header is required if every response that can set it does.
func headers() map[string]header {
	seconds := &jsonschema.Schema{Type: "integer", Minimum: new(float64)}
	return map[string]header{
		"X-Request-Id": {
			"The id of the request in logs and in the audit log. A valid id from the client is kept.", true, text(),
		},

		"Location":                 {"The path of a new object, of a deletion's receipt, or of a file.", true, text()},
		"ETag":                     {"The version of the returned content, for `If-None-Match`.", true, text()},
		"Cache-Control":            {"Who may cache the response, and for how long.", true, text()},
		"Link":                     {"Related URLs. `rel=\"next\"` is the next page of a list.", false, text()},
		"X-Event-Cursor":           {"The cursor after the returned events, for the next poll.", true, text()},
		"X-Next-Cursor":            {"The cursor of the next page; absent on the last page.", false, text()},
		idempotency.ReplayedHeader: {"`true` if the response replays an earlier one.", false, text()},

		"Vary": {"The request headers that the response depends on.", true, text()},

		"WWW-Authenticate": {"How to authenticate.", true, text()},
		"Retry-After":      {"Seconds to wait before the next attempt.", true, seconds},
		"RateLimit": {
			"The calls left under the rate limit that is closest to exhausted, and the seconds until it is full again.",
			false, text(),
		},
		"RateLimit-Policy": {"The quota of that rate limit, and its window in seconds.", false, text()},

		"Deprecation": {"When the operation was deprecated (RFC 9745): `@` and Unix seconds.", true, text()},
		"Sunset":      {"When the operation may stop working (RFC 8594).", true, text()},

		"Content-Security-Policy": {
			"What the page may load, and where it may connect: only this service, and for the console the identity " +
				"provider.", true, text(),
		},
		"Cross-Origin-Opener-Policy": {"Pages of other origins cannot reach the page's window.", true, text()},
		"Permissions-Policy":         {"The features of the browser that the page does not use.", true, text()},
		"Referrer-Policy":            {"The page sends no Referer header.", true, text()},
		"Strict-Transport-Security":  {"Browsers must use HTTPS. Present if the request came by HTTPS.", false, text()},
		"X-Content-Type-Options":     {"The declared media type applies. Clients must not guess.", true, text()},
	}
}

// commonHeaders returns the headers of every response; the value reports whether a header is always present.
func commonHeaders() map[string]bool {
	return map[string]bool{"X-Request-Id": true, "X-Content-Type-Options": true, "Strict-Transport-Security": false}
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
			Description: "The `ETag` of the version that the client has. " +
				"If it is still current, the response is 304 without a body.",
		},
		function.DryRun: {
			Name: function.DryRun, In: "query",
			Schema: &jsonschema.Schema{Type: "boolean", Default: json.RawMessage("false")},
			Description: "Rehearses the call: all checks run, and nothing is changed. The answer is 200 with what " +
				"the call would do, or the error that the call would get. An `Idempotency-Key` is not used up.",
		},
		idempotency.Header: {
			Name: idempotency.Header, In: "header",
			Schema: &jsonschema.Schema{Type: "string", MinLength: &least, MaxLength: &most, Pattern: "^[!-~]+$"},
			Description: fmt.Sprintf("Makes the call safe to repeat. For %d hours, a repeat with the same key gets "+
				"the same response, and a different request with the key is refused with 422.",
				int(idempotency.Retention.Hours())),
		},
	}
}
