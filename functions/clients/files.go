package clients

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/clientip"
	"agents.example/controlplane/shared/clientrelease"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/webfile"
)

// How long answers may be cached: a file of a version never changes.
const (
	forever    = "public, max-age=31536000, immutable"
	revalidate = "no-cache"
	briefly    = "public, max-age=60"
)

// bytesMedia is the media type of files. Package managers know them by their names.
const bytesMedia = "application/octet-stream"

// Download is a file, or the address of one.
type Download struct {
	contentType, caching string
	// tag is the ETag of the content; empty if it is not known.
	tag string
	// body is the content if send is nil, and size its size; zero if it is not known.
	body []byte
	size int64
	send func(w io.Writer) error
	// location redirects to another file; empty for none.
	location string
}

// Example implements function.Exampler. A file without a checksum has no ETag.
func (Download) Example() any { return Download{caching: forever, tag: `"0"`} }

// Reply implements function.Reply.
func (d Download) Reply(h http.Header) any {
	h.Set("Cache-Control", d.caching)
	if d.tag != "" {
		h.Set("ETag", d.tag)
	}
	body := function.Raw{
		ContentType: cmp.Or(d.contentType, bytesMedia), Others: []string{htmlMedia}, Bytes: d.body,
	}
	switch {
	case d.location != "":
		h.Set("Location", d.location)
		body.Status = http.StatusFound
	case d.send != nil:
		if d.size > 0 {
			h.Set("Content-Length", strconv.FormatInt(d.size, 10))
		}
		body.Stream = func(w io.Writer) error {
			err := d.send(w)
			if err != nil { // the answer may still become an error
				h.Del("Content-Length")
				h.Del("ETag")
			}
			return err
		}
	}
	return body
}

func content(contentType string, body []byte) Download {
	return Download{contentType: contentType, caching: briefly, tag: webfile.EntityTag(body, ""), body: body}
}

// file returns the file with a name. Only names of published files reach the bucket.
func (s *service) file(ctx context.Context, name string) (Download, error) {
	switch name {
	case "":
		return Download{caching: briefly, location: "../clients"}, nil
	case "python/":
		return content(htmlMedia, pythonIndex()), nil
	case "python/" + clientrelease.Python + "/":
		return s.pythonVersions(ctx)
	case "typescript.tgz":
		r, err := s.catalog.current(ctx)
		return Download{caching: revalidate, location: clientrelease.Tarball(r.Version)}, err
	}
	if file, ok := strings.CutPrefix(name, clientrelease.GoFiles); ok {
		if d, served, err := s.goFile(ctx, file); served || err != nil {
			return d, err
		}
	}
	if version, ok := clientrelease.VersionIn(name); ok {
		r, err := s.catalog.release(ctx, version)
		if err != nil {
			return Download{}, err
		}
		return s.download(ctx, r, name, forever)
	}
	for _, p := range clientrelease.Platforms() {
		if name == clientrelease.LatestTool(p) {
			r, err := s.catalog.current(ctx)
			if err != nil {
				return Download{}, err
			}
			return s.download(ctx, r, clientrelease.Tool(r.Version, p), revalidate)
		}
	}
	return Download{}, unknownFile()
}

func unknownFile() error {
	return notFound("No client has a file with this name. GET /clients lists the files.")
}

// goFile answers what Go's module proxies answer from what they know. served is false for the module's files.
func (s *service) goFile(ctx context.Context, file string) (d Download, served bool, err error) {
	version, isInfo := strings.CutSuffix(strings.TrimPrefix(file, "@v/v"), ".info")
	switch {
	case file == "@v/list":
		versions, err := s.catalog.list(ctx)
		if err != nil {
			return d, true, err
		}
		var list strings.Builder
		for _, v := range versions {
			list.WriteString("v" + v + "\n")
		}
		return content(bytesMedia, []byte(list.String())), true, nil
	case file == "@latest":
		r, err := s.catalog.current(ctx)
		if err != nil {
			return d, true, err
		}
		d, err = info(r.Version)
		return d, true, err
	case isInfo:
		r, err := s.catalog.release(ctx, version)
		if err != nil {
			return d, true, err
		}
		d, err = info(r.Version)
		return d, true, err
	}
	return d, false, nil
}

// info describes a version of the module.
func info(version string) (Download, error) {
	at, _ := clientrelease.Time(version)
	body, err := json.Marshal(struct {
		Version string
		Time    time.Time
	}{"v" + version, at})
	return content(bytesMedia, body), err
}

// download sends a file of a release.
func (s *service) download(ctx context.Context, r clientrelease.Release, name, caching string) (Download, error) {
	f, ok := r.File(name)
	if !ok {
		return Download{}, unknownFile()
	}
	d := Download{caching: caching, size: f.Size}
	if f.SHA256 != "" {
		d.tag = `"` + f.SHA256 + `"`
	}
	d.send = func(w io.Writer) error { return s.send(ctx, f, w) }
	return d, nil
}

// send copies a file from the bucket, within the bounds of an instance. Clients that have the file already, and those
// that only ask about it, do not get here.
func (s *service) send(ctx context.Context, f clientrelease.File, w io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, maxDownload)
	defer cancel()
	address := clientip.Bucket(call.From(ctx).Request.IP)
	release, ok := s.slots.Acquire(address, address)
	if !ok || s.budget.Tokens() < float64(min(f.Size, burstBytes)) {
		if ok {
			release()
		}
		refusal := fault.New(fault.RateLimited, "too_many_downloads", "Too many clients are being downloaded. Retry.")
		refusal.RetryAfter = 10 * time.Second
		return refusal
	}
	defer release()
	body, err := s.catalog.store.Open(ctx, f)
	if err != nil {
		return err
	}
	_, err = io.Copy(charged{w, s.budget}, body)
	return errors.Join(err, body.Close())
}

// charged charges for what is sent. A client that ends its download early spends no more than that. Downloads that
// began with enough budget end, however little is left for others.
type charged struct {
	io.Writer
	budget *rate.Limiter
}

// Write implements io.Writer.
func (c charged) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	c.budget.ReserveN(time.Now(), n)
	return n, err
}
