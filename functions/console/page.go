package console

import (
	_ "embed"
	"html"
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

// render fills the page. html/template would do so, too, but looks up methods by name, so that a program with it keeps
// the exported methods of everything that it links: each service was a sixth larger.
func render(o Options, b bundle) Page {
	support := ""
	if o.Support != "" {
		support = ` data-support="` + html.EscapeString(o.Support) + `"`
	}
	var preloads strings.Builder
	for _, name := range b.preloads {
		preloads.WriteString("\n    <link rel=\"modulepreload\" href=\"console/" + html.EscapeString(name) + `">`)
	}
	body := strings.NewReplacer(
		"{{issuer}}", html.EscapeString(o.Issuer), "{{client-id}}", html.EscapeString(o.ClientID),
		"{{scopes}}", html.EscapeString(o.Scopes), "{{regions}}", html.EscapeString(strings.Join(o.Regions, ",")),
		"{{support}}", support, "{{preloads}}", preloads.String(), "{{icon}}", html.EscapeString(b.entries[icon]),
		"{{style}}", html.EscapeString(b.entries[mainStyle]), "{{later}}", html.EscapeString(b.entries[laterStyle]),
		"{{script}}", html.EscapeString(b.entries[mainScript]),
	).Replace(pageTemplate)
	return Page{body: []byte(body), issuer: origin(o.Issuer)}
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
