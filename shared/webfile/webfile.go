// Package webfile serves the files of the web pages that are built into the binaries: compressed where the client
// accepts it, and with the headers that browsers cache by. It reads no file itself.
package webfile

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"agents.example/controlplane/shared/function"
)

// Input is the input of a route that serves files by name.
type Input struct {
	Path struct {
		Asset string `json:"asset" jsonschema:"The name of the file."`
	} `json:"path"`
	Header AcceptHeader `json:"header"`
}

// AcceptHeader is the part of a request's header that decides the form of a file.
type AcceptHeader struct {
	AcceptEncoding string `json:"Accept-Encoding,omitempty" jsonschema:"The encodings that the client accepts. The service supports gzip."`
}

// File is a file in both of its forms. It makes the form that it was not given on first use, and keeps it.
type File struct {
	contentType, caching string
	plain, compressed    func() (form, error)
}

// form is a file in one encoding, with its ETag.
type form struct {
	body          []byte
	encoding, tag string // the encoding is empty for plain bytes
}

// once returns a function that makes a form on first use and keeps it: hashing a large file for each request would
// make requests of strangers expensive.
func once(encoding string, body func() ([]byte, error)) func() (form, error) {
	return sync.OnceValues(func() (form, error) {
		b, err := body()
		return form{body: b, encoding: encoding, tag: EntityTag(b, encoding)}, err
	})
}

// New returns a file. contentType and caching are the values of the headers Content-Type and Cache-Control.
func New(contentType, caching string, body []byte) *File {
	return &File{
		contentType: contentType, caching: caching,
		plain:      once("", func() ([]byte, error) { return body, nil }),
		compressed: once("gzip", func() ([]byte, error) { return compress(body) }),
	}
}

// FromGzip returns a file that is stored compressed.
func FromGzip(contentType, caching string, body []byte) *File {
	return &File{
		contentType: contentType, caching: caching,
		plain:      once("", func() ([]byte, error) { return decompress(body) }),
		compressed: once("gzip", func() ([]byte, error) { return body, nil }),
	}
}

func compress(body []byte) ([]byte, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err = z.Write(body); err != nil {
		return nil, err
	}
	err = z.Close()
	return b.Bytes(), err
}

func decompress(body []byte) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}

// Answer returns the file in a form that an Accept-Encoding header allows.
func (f *File) Answer(acceptEncoding string) (Response, error) {
	r := Response{contentType: f.contentType, caching: f.caching}
	var err error
	if acceptsGzip(acceptEncoding) {
		r.form, err = f.compressed()
	} else {
		r.form, err = f.plain()
	}
	return r, err
}

// Response is a file in one of its forms.
type Response struct {
	contentType, caching string
	form                 form
}

// Reply implements function.Reply.
func (r Response) Reply(h http.Header) any {
	h.Set("Cache-Control", r.caching)
	h.Set("ETag", r.form.tag)
	h.Set("Vary", "Accept-Encoding")
	if r.form.encoding != "" {
		h.Set("Content-Encoding", r.form.encoding)
	}
	return function.Raw{ContentType: r.contentType, Bytes: r.form.body}
}

// EntityTag returns the ETag of a body in an encoding.
func EntityTag(body []byte, encoding string) string {
	sum := sha256.Sum256(body)
	return `"` + hex.EncodeToString(sum[:8]) + encoding + `"`
}

// acceptsGzip reports whether an Accept-Encoding header allows gzip. A weight of 0 refuses an encoding.
func acceptsGzip(header string) bool {
	for item := range strings.SplitSeq(header, ",") {
		encoding, parameters, _ := strings.Cut(item, ";")
		_, weight, weighted := strings.Cut(parameters, "=")
		if encoding = strings.TrimSpace(encoding); !strings.EqualFold(encoding, "gzip") && encoding != "*" {
			continue
		}
		q, err := strconv.ParseFloat(strings.TrimSpace(weight), 64)
		return !weighted || err == nil && q > 0
	}
	return false
}
