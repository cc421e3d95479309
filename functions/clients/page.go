package clients

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"agents.example/controlplane/shared/clientrelease"
	"agents.example/controlplane/shared/function"
)

const htmlMedia = "text/html; charset=utf-8"

// pageTemplate says how to install each client.
//
//go:embed page.html
var pageTemplate string

// File is a file of the clients.
type File struct {
	Name   string `json:"name" jsonschema:"The name of the file below /clients/."`
	URL    string `json:"url" jsonschema:"The address of the file."`
	SHA256 string `json:"sha256,omitempty" jsonschema:"The checksum of the file, in hexadecimal digits. The local cloud makes a file when it is first asked for, and has none."`
	Size   int64  `json:"size,omitempty" jsonschema:"The size of the file in bytes; absent without a checksum."`
}

// Overview is the response with the present clients, and for browsers the page that says how to install them.
type Overview struct {
	Version string `json:"version" jsonschema:"The version of all clients that fits this control plane."`
	Files   []File `json:"files" jsonschema:"The files of this version. Their addresses stay valid, and their content stays the same."`

	baseURL string
}

// Example implements function.Exampler.
func (Overview) Example() any {
	const version, base = "1.20261127.203023", "https://api.example.com"
	return Overview{Version: version, baseURL: base, Files: []File{{
		Name: clientrelease.Tarball(version), URL: base + "/clients/" + clientrelease.Tarball(version),
		SHA256: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", Size: 51200,
	}}}
}

// contentSecurityPolicy lets the page load nothing. Its style is in it.
func contentSecurityPolicy() string {
	return strings.Join([]string{
		"default-src 'none'", "style-src 'sha256-" + styleHash() + "'", "base-uri 'none'", "form-action 'none'",
		"frame-ancestors 'none'",
	}, "; ")
}

// styleHash is the hash of the page's style, which does not vary.
var styleHash = sync.OnceValue(func() string {
	_, style, _ := strings.Cut(pageTemplate, "<style>")
	style, _, _ = strings.Cut(style, "</style>")
	sum := sha256.Sum256([]byte(style))
	return base64.StdEncoding.EncodeToString(sum[:])
})

// Reply implements function.Reply.
func (o Overview) Reply(h http.Header) any {
	h.Set("Cache-Control", briefly)
	h.Set("Content-Security-Policy", contentSecurityPolicy())
	h.Set("Referrer-Policy", "no-referrer")
	return o
}

// Formats implements function.Negotiable.
func (o Overview) Formats() []function.Format {
	return []function.Format{{ContentType: htmlMedia, Encode: o.html}}
}

func (o Overview) html() []byte {
	var files strings.Builder
	for _, f := range o.Files {
		size := ""
		if f.Size > 0 {
			size = strconv.FormatInt(f.Size, 10)
		}
		fmt.Fprintf(&files, "<tr><td><a href=\"%s\">%s</a></td><td>%s</td><td><code>%s</code></td></tr>\n",
			html.EscapeString(f.URL), html.EscapeString(f.Name), size, html.EscapeString(f.SHA256))
	}
	// Not html/template, which makes programs larger: see package console.
	return []byte(strings.NewReplacer(
		"{{base}}", html.EscapeString(o.baseURL), "{{version}}", html.EscapeString(o.Version),
		"{{tarball}}", html.EscapeString(clientrelease.Tarball(o.Version)),
		"{{wheel}}", html.EscapeString(clientrelease.Wheel(o.Version)), "{{go-module}}", clientrelease.GoModule,
		"{{typescript}}", clientrelease.TypeScript, "{{python}}", clientrelease.Python, "{{files}}", files.String(),
	).Replace(pageTemplate))
}

// overview lists the present clients.
func (s *service) overview(ctx context.Context) (Overview, error) {
	if s.baseURL == "" {
		return Overview{}, notFound("The address of this API is not configured (API_BASE_URL), so there are no " +
			"addresses of clients.")
	}
	r, err := s.catalog.current(ctx)
	if err != nil {
		return Overview{}, err
	}
	o := Overview{Version: r.Version, baseURL: s.baseURL, Files: []File{}}
	for _, f := range r.Files {
		o.Files = append(o.Files, File{
			Name: f.Name, URL: s.baseURL + "/clients/" + f.Name, SHA256: f.SHA256, Size: f.Size,
		})
	}
	return o, nil
}
