package system

import (
	"context"
	"net/http"
	"strings"

	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/webfile"
)

// Docs serves the description of the API, and a page to read it and try it out. Both are public: they contain no
// secrets, and calls from the page need a token like any other call.
func Docs(description []byte) []function.Route {
	return []function.Route{
		{
			Name: "GetOpenAPI", Method: http.MethodGet, Path: "/openapi.json", Access: function.Public,
			Status: http.StatusOK, Summary: "Get the OpenAPI document",
			Handle: openAPI(webfile.New(jsonMedia, "no-cache", description)),
		},
		{
			Name: "GetPlayground", Method: http.MethodGet, Path: "/docs", Access: function.Public,
			Status: http.StatusOK, Summary: "Open the API playground",
			Handle: function.Handle(func(context.Context, function.Empty) (Page, error) {
				body, err := playground.ReadFile("playground/index.html")
				return Page{body: body}, err
			}),
		},
		{
			Name: "GetPlaygroundAsset", Method: http.MethodGet, Path: "/docs/{asset}", Access: function.Public,
			Status: http.StatusOK, Summary: "Get a file of the playground",
			Handle: playgroundAsset(),
		},
	}
}

// jsonMedia is the media type of the document.
const jsonMedia = "application/json"

// Description is the OpenAPI document.
type Description struct{ webfile.Response }

// Reply implements function.Reply. Also the zero value has the document's type.
func (d Description) Reply(h http.Header) any {
	raw, _ := d.Response.Reply(h).(function.Raw)
	raw.ContentType = jsonMedia
	return raw
}

// openAPI returns the handler of the document. Clients revalidate it on every use, and most of them get it compressed.
func openAPI(file *webfile.File) function.Endpoint {
	type input struct {
		Header webfile.AcceptHeader `json:"header"`
	}
	return function.Handle(func(_ context.Context, in input) (Description, error) {
		answer, err := file.Answer(in.Header.AcceptEncoding)
		return Description{answer}, err
	})
}

// Page is the playground's page.
type Page struct{ body []byte }

// contentSecurityPolicy restricts the playground to files of this service, because users type tokens into it.
func contentSecurityPolicy() string {
	return strings.Join([]string{
		"default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self' data:", "connect-src 'self'",
		"base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'",
	}, "; ")
}

// Reply implements function.Reply.
func (p Page) Reply(h http.Header) any {
	h.Set("Cache-Control", "no-cache")
	h.Set("Content-Security-Policy", contentSecurityPolicy())
	h.Set("ETag", webfile.EntityTag(p.body, ""))
	h.Set("Referrer-Policy", "no-referrer")
	return function.Raw{ContentType: "text/html; charset=utf-8", Bytes: p.body}
}
