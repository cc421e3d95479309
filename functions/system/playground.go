package system

import (
	"bytes"
	"compress/gzip"
	"embed"
	"io"
	"net/http"
	"strconv"
	"strings"

	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
)

// playground holds the page and what it loads. Large files are kept compressed; README.md there says where they are
// from.
//
//go:embed playground/index.html playground/start.js playground/favicon.png playground/*.gz
var playground embed.FS

type assetInput struct {
	Path struct {
		Asset string `json:"asset" jsonschema:"Name of the file."`
	} `json:"path"`
	Header struct {
		AcceptEncoding string `json:"Accept-Encoding,omitempty" jsonschema:"Encodings that the client decodes; gzip is one that is used."`
	} `json:"header"`
}

// Asset is a file that the playground loads.
type Asset struct {
	contentType string
	encoding    string // the Content-Encoding of body; empty for none
	body        []byte
}

// assetCaching lets browsers keep a file for an hour: a new version of the page works with a file that is a little
// older.
const assetCaching = "public, max-age=3600"

// Reply implements function.Reply.
func (a Asset) Reply(h http.Header) any {
	h.Set("Cache-Control", assetCaching)
	h.Set("ETag", entityTag(a.body, a.encoding))
	h.Set("Vary", "Accept-Encoding")
	h.Set("X-Content-Type-Options", "nosniff")
	if a.encoding != "" {
		h.Set("Content-Encoding", a.encoding)
	}
	return function.Raw{ContentType: a.contentType, Bytes: a.body}
}

// readAsset finds a file by the name the page knows it by, compressed where it is kept so and the client takes it. The
// error is NotFound.
func readAsset(name string, compressed bool) (Asset, error) {
	contentType, known := map[string]string{
		"start.js":             "text/javascript; charset=utf-8",
		"swagger-ui-bundle.js": "text/javascript; charset=utf-8",
		"swagger-ui.css":       "text/css; charset=utf-8",
		"favicon.png":          "image/png",
	}[name]
	if !known {
		return Asset{}, fault.New(fault.NotFound, "not_found", "The playground has no such file.")
	}
	if body, err := playground.ReadFile("playground/" + name); err == nil {
		return Asset{contentType: contentType, body: body}, nil
	}
	body, err := playground.ReadFile("playground/" + name + ".gz")
	if err != nil || compressed {
		return Asset{contentType: contentType, encoding: "gzip", body: body}, err
	}
	z, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return Asset{}, err
	}
	body, err = io.ReadAll(z)
	return Asset{contentType: contentType, body: body}, err
}

// acceptsGzip reads an Accept-Encoding header. A weight of 0 refuses an encoding.
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
