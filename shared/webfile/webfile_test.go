package webfile_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"testing"

	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/webfile"
)

func body() []byte { return []byte(strings.Repeat("body { color: black }\n", 50)) }

func zipped(t *testing.T, body []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(body); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// answer returns the headers of an answer and its body, decompressed.
func answer(t *testing.T, f *webfile.File, accept string) (http.Header, []byte) {
	t.Helper()
	res, err := f.Answer(accept)
	if err != nil {
		t.Fatal(err)
	}
	h := http.Header{}
	raw, ok := res.Reply(h).(function.Raw)
	if !ok || raw.ContentType != "text/css" {
		t.Errorf("the reply is %+v, want raw bytes of text/css", raw)
	}
	if h.Get("Content-Encoding") == "" {
		return h, raw.Bytes
	}
	z, err := gzip.NewReader(bytes.NewReader(raw.Bytes))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return h, plain
}

// TestReply_HashesAFileOnce changes the bytes of a file to see whether an answer reads them again: large files would
// make requests of strangers expensive.
func TestReply_HashesAFileOnce(t *testing.T) {
	t.Parallel()
	const css, caching = "text/css", "no-cache"
	plain, compressed := body(), zipped(t, body())
	for name, row := range map[string]struct {
		file   *webfile.File
		stored []byte
		accept string
	}{
		"stored plain":      {file: webfile.New(css, caching, plain), stored: plain},
		"stored compressed": {file: webfile.FromGzip(css, caching, compressed), stored: compressed, accept: "gzip"},
	} {
		var tags []string
		for range 2 {
			res, err := row.file.Answer(row.accept)
			if err != nil {
				t.Fatal(err)
			}
			h := http.Header{}
			res.Reply(h)
			tags = append(tags, h.Get("ETag"))
			row.stored[0]++
		}
		if tags[0] != tags[1] {
			t.Errorf("%s: the ETags are %v, want the one of the first answer", name, tags)
		}
	}
}

func TestAnswer_NegotiatesGzip(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]*webfile.File{
		"stored plain":      webfile.New("text/css", "no-cache", body()),
		"stored compressed": webfile.FromGzip("text/css", "no-cache", zipped(t, body())),
	} {
		tags := map[string]string{}
		for accept, want := range map[string]string{
			"gzip": "gzip", "br, gzip;q=0.5": "gzip", "*": "gzip", "GZIP": "gzip", "": "", "br": "", "gzip;q=0": "",
			"gzip; q=0.0, br": "",
		} {
			h, got := answer(t, f, accept)
			if encoding := h.Get("Content-Encoding"); encoding != want {
				t.Errorf("%s, Accept-Encoding %q: encoding %q, want %q", name, accept, encoding, want)
			}
			if !bytes.Equal(got, body()) {
				t.Errorf("%s, Accept-Encoding %q: a body of %d bytes, want the file", name, accept, len(got))
			}
			if h.Get("Vary") != "Accept-Encoding" || h.Get("Cache-Control") != "no-cache" {
				t.Errorf("%s, Accept-Encoding %q: headers %v", name, accept, h)
			}
			tags[want] = h.Get("ETag")
		}
		if tags["gzip"] == tags[""] {
			t.Errorf("%s: both forms have the ETag %s", name, tags[""])
		}
	}
}

func TestAnswer_FailsForABrokenFile(t *testing.T) {
	t.Parallel()
	if _, err := webfile.FromGzip("text/css", "no-cache", []byte("not gzip")).Answer(""); err == nil {
		t.Error("got no error for a file that is not gzip")
	}
}
