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

// playground holds the page and the files it loads, large ones compressed. Its README.md names their sources.
//
//go:embed playground/index.html playground/start.js playground/favicon.png playground/*.gz
var playground embed.FS

type assetInput struct {
	Path struct {
		Asset string `json:"asset" jsonschema:"The name of the file."`
	} `json:"path"`
	Header struct {
		AcceptEncoding string `json:"Accept-Encoding,omitempty" jsonschema:"The encodings that the client accepts. The service supports gzip."`
	} `json:"header"`
}

// Asset is a file that the playground loads.
type Asset struct {
	contentType string
	encoding    string // the Content-Encoding of body, if any
	body        []byte
}

// assetCaching lets browsers cache a file for an hour: a new version of the page works with slightly older files.
const assetCaching = "public, max-age=3600"

// Reply implements function.Reply.
func (a Asset) Reply(h http.Header) any {
	h.Set("Cache-Control", assetCaching)
	h.Set("ETag", entityTag(a.body, a.encoding))
	h.Set("Vary", "Accept-Encoding")
	if a.encoding != "" {
		h.Set("Content-Encoding", a.encoding)
	}
	return function.Raw{ContentType: a.contentType, Bytes: a.body}
}

// readAsset returns a file by the name in the page. It stays compressed if it is stored so and the client accepts gzip.
// Errors: NotFound.
func readAsset(name string, compressed bool) (Asset, error) {
	contentType, known := map[string]string{
		"start.js":             "text/javascript; charset=utf-8",
		"swagger-ui-bundle.js": "text/javascript; charset=utf-8",
		"swagger-ui.css":       "text/css; charset=utf-8",
		"favicon.png":          "image/png",
	}[name]
	if !known {
		return Asset{}, fault.New(fault.NotFound, "not_found", "The playground has no file with this name.")
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
