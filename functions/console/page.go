package console

import (
	"bytes"
	_ "embed"
	"html/template"
	"net/http"
	"net/url"
	"strings"

	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/webfile"
)

// pageTemplate names the files of the app. They are next to the page, whatever the host.
//
//go:embed page.html
var pageTemplate string

// Page is the console's page.
type Page struct {
	body []byte
	// issuer is the origin of the identity provider; empty for none.
	issuer string
}

// render writes the page.
func render(o Options, b bundle) (Page, error) {
	t, err := template.New("page.html").Parse(pageTemplate)
	if err != nil {
		return Page{}, err
	}
	var body bytes.Buffer
	err = t.Execute(&body, map[string]any{
		"Issuer": o.Issuer, "ClientID": o.ClientID, "Scopes": o.Scopes, "Regions": strings.Join(o.Regions, ","),
		"Support": o.Support,
		"Icon":    b.entries[icon], "Style": b.entries[mainStyle], "Script": b.entries[mainScript],
		"Later": b.entries[laterStyle], "Preloads": b.preloads,
	})
	return Page{body: body.Bytes(), issuer: origin(o.Issuer)}, err
}

// origin returns the origin of a URL, or "" if it has none.
func origin(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

// contentSecurityPolicy lets the app load files of this service, and call it and the identity provider. A script that
// is injected into the page does not run, and the page has no other place to send a token to.
func contentSecurityPolicy(issuer string) string {
	return strings.Join([]string{
		"default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self' data:", "font-src 'none'",
		strings.TrimSpace("connect-src 'self' " + issuer), "object-src 'none'", "base-uri 'none'",
		"form-action 'none'", "frame-ancestors 'none'", "require-trusted-types-for 'script'",
		"trusted-types 'none'",
	}, "; ")
}

// permissionsPolicy turns off what the app never asks for, so that an injected script could not ask for it either.
const permissionsPolicy = "camera=(), display-capture=(), geolocation=(), hid=(), microphone=(), midi=(), " +
	"payment=(), serial=(), usb=()"

// Reply implements function.Reply.
func (p Page) Reply(h http.Header) any {
	h.Set("Cache-Control", "no-cache")
	h.Set("Content-Security-Policy", contentSecurityPolicy(p.issuer))
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("ETag", webfile.EntityTag(p.body, ""))
	h.Set("Permissions-Policy", permissionsPolicy)
	h.Set("Referrer-Policy", "no-referrer")
	return function.Raw{ContentType: "text/html; charset=utf-8", Bytes: p.body}
}
