package function

import (
	"mime"
	"net/http"
	"strconv"
	"strings"
)

// Negotiable is implemented by bodies that can be had in other formats than JSON. JSON is what a client gets that
// prefers none of them.
type Negotiable interface {
	// Formats lists the other formats, the one that is to be preferred first. It must answer for a zero value, too.
	Formats() []Format
}

// Format is one more format of a body.
type Format struct {
	// ContentType names the format, with its parameters.
	ContentType string
	// Encode renders the body.
	Encode func() []byte
}

// negotiate picks the format that the client prefers, or nil for JSON: also where it prefers none, or one that there is
// not.
func negotiate(req *http.Request, formats []Format) *Format {
	accepted := accepts(req.Header.Values("Accept"))
	var best *Format
	most := accepted.quality("application/json")
	for i := range formats {
		if q := accepted.quality(formats[i].ContentType); q > most {
			best, most = &formats[i], q
		}
	}
	return best
}

// acceptance is what an Accept header says of media ranges: how much each is wanted, from 0 to 1.
type acceptance map[string]float64

func accepts(headers []string) acceptance {
	a := acceptance{}
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

// quality is how much a media type is wanted: what is said of it, else of its kind, else of everything. Parameters such
// as a version do not count: a reader knows from the answer which one it got.
func (a acceptance) quality(contentType string) float64 {
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return 0
	}
	kind, _, _ := strings.Cut(media, "/")
	for _, of := range []string{media, kind + "/*", "*/*"} {
		if q, ok := a[of]; ok {
			return q
		}
	}
	return 0
}
