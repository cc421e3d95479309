package issuer

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"strings"
)

// pageFiles are the templates of the pages, and the files that they load.
//
//go:embed page/*.html page/assets
var pageFiles embed.FS

func readPages() (*template.Template, error) {
	pages, err := template.ParseFS(pageFiles, "page/*.html")
	if err != nil {
		return nil, fmt.Errorf("read the sign-in pages: %w", err)
	}
	return pages, nil
}

// assets serves the files that the pages load.
func assets() http.Handler {
	files, err := fs.Sub(pageFiles, "page/assets")
	if err != nil {
		return http.NotFoundHandler() // fails only for an invalid path
	}
	serve := http.FileServerFS(files)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-cache")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		serve.ServeHTTP(w, r)
	})
}

// show answers with a page. Its forms may lead to the redirect URI, which may be empty: browsers apply the directive
// form-action to redirects after a form, too.
func (i *Issuer) show(w http.ResponseWriter, status int, name string, data any, redirectURI string) {
	var body bytes.Buffer
	if err := i.pages.ExecuteTemplate(&body, name, data); err != nil {
		http.Error(w, "The page could not be made: "+err.Error(), http.StatusInternalServerError)
		return
	}
	targets := []string{"'self'"}
	if target := origin(redirectURI); target != "" {
		targets = append(targets, target)
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; "+
		"frame-ancestors 'none'; form-action "+strings.Join(targets, " "))
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "same-origin") // not no-referrer, which hides the origin of forms
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(body.Bytes()) // fails only if the client is gone
}

// message is the data of message.html.
type message struct {
	Heading, Text string
	Command       string // to run in a terminal; may be empty
}

// showMessage shows a page without a form.
func (i *Issuer) showMessage(w http.ResponseWriter, status int, heading, text string) {
	i.show(w, status, "message.html", message{Heading: heading, Text: text}, "")
}

// readForm reads the form of a page. It answers one that cannot be read, and is false then.
func (i *Issuer) readForm(w http.ResponseWriter, r *http.Request) bool {
	r.Body = http.MaxBytesReader(w, r.Body, maxTokenRequest)
	if err := r.ParseForm(); err != nil {
		i.showMessage(w, http.StatusBadRequest, "The form could not be read", "Go back and try again.")
		return false
	}
	return true
}

// denyForm answers a form that a page of another origin sent.
func (i *Issuer) denyForm(w http.ResponseWriter, _ *http.Request) {
	i.showMessage(w, http.StatusForbidden, "Another website sent this form",
		"For your safety, it has no effect. Start the sign-in again from the application.")
}
