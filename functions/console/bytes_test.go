package console_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// firstViewLimit is the largest transfer of the first view: the page and the files that it loads, compressed.
const firstViewLimit = 120_000

func gzipSize(t *testing.T, body []byte) int {
	t.Helper()
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := z.Write(body); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Len()
}

func TestFirstView_StaysSmall(t *testing.T) {
	t.Parallel()
	h := serve(options())
	page := get(h, "/console")
	total := page.Body.Len() // the page is sent as it is
	t.Logf("%-28s %8d bytes, %8d sent", "console", page.Body.Len(), page.Body.Len())
	for _, address := range addresses(page.Body.String()) {
		body := get(h, address).Body.Bytes()
		sent := get(h, address, "Accept-Encoding", "gzip").Body.Len()
		if want := gzipSize(t, body); sent > want {
			t.Errorf("%s: %d bytes are sent, want at most %d", address, sent, want)
		}
		t.Logf("%-28s %8d bytes, %8d sent", strings.TrimPrefix(address, "/console/"), len(body), sent)
		total += sent
	}
	t.Logf("%-28s %8s        %8d sent, at most %d", "first view", "", total, firstViewLimit)
	logOthers(t, h, page.Body.String())
	if total > firstViewLimit {
		t.Errorf("the first view transfers %d bytes, want at most %d: load what it does not show with import()", total,
			firstViewLimit)
	}
}

// logOthers prints the files that pages load when they are first opened.
func logOthers(t *testing.T, h http.Handler, page string) {
	t.Helper()
	entries, err := os.ReadDir("static")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() == "meta.json" || strings.Contains(page, e.Name()) {
			continue
		}
		plain := get(h, "/console/"+e.Name())
		if plain.Code != http.StatusOK {
			t.Errorf("%s: status = %d, want 200", e.Name(), plain.Code)
		}
		sent := get(h, "/console/"+e.Name(), "Accept-Encoding", "gzip").Body.Len()
		t.Logf("%-28s %8d bytes, %8d sent later", e.Name(), plain.Body.Len(), sent)
	}
}

// TestBundle_FollowsTheSources compares the names and sizes of the sources with those in the bundler's report. CI runs
// the bundler again and compares the files.
func TestBundle_FollowsTheSources(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("static/meta.json")
	if err != nil {
		t.Fatal(err)
	}
	var report struct {
		Inputs  map[string]struct{ Bytes int64 }
		Outputs map[string]any
	}
	if err := json.Unmarshal(b, &report); err != nil {
		t.Fatal(err)
	}
	if report.Inputs["app/main.tsx"].Bytes == 0 {
		t.Error("the bundler's report names no sources: run go generate ./functions/console")
	}
	for name, input := range report.Inputs {
		info, err := os.Stat(name)
		if err != nil {
			t.Errorf("the bundle has %s, which does not exist: run go generate ./functions/console", name)
		} else if info.Size() != input.Bytes {
			t.Errorf("%s has %d bytes, and had %d in the bundle: run go generate ./functions/console", name,
				info.Size(), input.Bytes)
		}
	}
	err = filepath.WalkDir("static", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && filepath.Base(name) != "meta.json" && report.Outputs[name] == nil {
			t.Errorf("%s is not in the bundler's report: run go generate ./functions/console", name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
