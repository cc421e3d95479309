package function

import (
	"mime"
	"net/http"
	"strconv"
	"strings"
)

// Negotiable is implemented by bodies with formats other than JSON. A client that prefers none of them gets JSON.
type Negotiable interface {
	// Formats lists the other formats, most preferred first. It must also work on a zero value.
	Formats() []Format
}

// Format is an alternative to JSON for a body.
type Format struct {
	// ContentType is the media type with its parameters.
	ContentType string
	// Encode renders the body.
	Encode func() []byte
}

// negotiate returns the format that the client prefers. It returns nil for the standard media type, which is also the
// answer if the client states no preference or accepts none of the formats.
func negotiate(req *http.Request, standard string, formats []Format) *Format {
	accepted := parseAccept(req.Header.Values("Accept"))
	var best *Format
	most := accepted.quality(standard)
	for i := range formats {
		if q := accepted.quality(formats[i].ContentType); q > most {
			best, most = &formats[i], q
		}
	}
	return best
}

// acceptHeader maps the media ranges of an Accept header to their quality, from 0 to 1.
type acceptHeader map[string]float64

func parseAccept(headers []string) acceptHeader {
	a := acceptHeader{}
	for _, h := range headers {
		for part := range strings.SplitSeq(h, ",") {
			media, parameters, err := mime.ParseMediaType(part)
			if err != nil {
				continue
			}
			q := 1.0
			if text, ok := parameters["q"]; ok {
				if q, err = strconv.ParseFloat(text, 64); err != nil || q < 0 || q > 1 {
					continue
				}
			}
			a[media] = max(a[media], q)
		}
	}
	return a
}

// quality returns the quality of the most specific range that matches a media type. It ignores parameters such as a
// version, because the Content-Type of the response names the version.
func (a acceptHeader) quality(contentType string) float64 {
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return 0
	}
	kind, _, _ := strings.Cut(media, "/")
	for _, mediaRange := range []string{media, kind + "/*", "*/*"} {
		if q, ok := a[mediaRange]; ok {
			return q
		}
	}
	return 0
}
