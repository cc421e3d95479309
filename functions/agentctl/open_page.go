package agentctl

import (
	"context"
	"errors"
	"fmt"
	"html"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// errNoBrowser is the error of an environment without a browser.
var errNoBrowser = errors.New("there is no browser")

// open opens a link that signs its reader in, and calls opened.
func (t *tool) open(ctx context.Context, link string, direct bool, opened func()) error {
	if !direct {
		return t.openPrivately(ctx, link, opened)
	}
	if t.app.Open == nil {
		return errNoBrowser
	}
	if err := t.app.Open(link); err != nil {
		return err
	}
	opened()
	return nil
}

// openPrivately opens a link from a file. Other users of the machine can read the
// arguments of a browser, so the browser gets a file that only the user can read and that leads to the link.
func (t *tool) openPrivately(ctx context.Context, link string, opened func()) error {
	if t.app.Open == nil {
		return errNoBrowser
	}
	u, err := url.Parse(link)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" {
		return errors.New("the API's link is no web address")
	}
	dir, err := os.MkdirTemp("", "agentctl-") // with the mode 0700
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // the link works once, and not for long
	page := filepath.Join(dir, "open.html")
	if err := os.WriteFile(page, []byte(redirectTo(link)), 0o600); err != nil {
		return err
	}
	if err := t.app.Open(fileURL(page)); err != nil {
		return err
	}
	opened()
	// The opener may end before the browser has read the file. Ctrl-C ends the wait, too.
	_ = pause(ctx, t.app.OpenTime)
	return nil
}

// redirectTo returns a page that leads to a link.
func redirectTo(link string) string {
	link = html.EscapeString(link)
	return fmt.Sprintf(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url=%s">
<title>Opening</title>
</head>
<body><a href="%s">Continue</a></body>
</html>
`, link, link)
}

// fileURL returns the URL of a file.
func fileURL(path string) string {
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // begins with a drive
	}
	return (&url.URL{Scheme: "file", Path: path}).String()
}
