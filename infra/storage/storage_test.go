package storage_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"agents.example/controlplane/infra/storage"
	"agents.example/controlplane/shared/clientrelease"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/testtier"
)

func TestMain(m *testing.M) {
	testtier.SilenceLogs()
	m.Run()
}

// open returns the clients in a bucket whose answers a test gives.
func open(t *testing.T, answer http.HandlerFunc) *storage.Clients {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	c, err := storage.Open(t.Context(), storage.Options{Bucket: "builds", EmulatorHost: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestVersions_ReadsAllPages(t *testing.T) {
	t.Parallel()
	c := open(t, func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path != "/storage/v1/b/builds/o" || req.URL.Query().Get("prefix") != "clients/releases/" {
			t.Errorf("the request is %s, want a list of the releases", req.URL)
		}
		answer := `{"items": [{"name": "clients/releases/1.20260101.1.json"}], "nextPageToken": "two"}`
		if req.URL.Query().Get("pageToken") == "two" {
			answer = `{"items": [{"name": "clients/releases/1.20260102.1.json"}, {"name": "clients/releases/x"}]}`
		}
		_, _ = w.Write([]byte(answer))
	})
	got, err := c.Versions(t.Context())
	if want := []string{"1.20260101.1", "1.20260102.1"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("Versions = %q, %v, want %q", got, err, want)
	}
}

// TestVersions_HasTheNewestOfManyReleases: the bucket lists the oldest first.
func TestVersions_HasTheNewestOfManyReleases(t *testing.T) {
	t.Parallel()
	calls := 0
	c := open(t, func(w http.ResponseWriter, _ *http.Request) {
		answer := `{"nextPageToken": "again"}`
		if calls++; calls == 30 {
			answer = `{"items": [{"name": "clients/releases/1.20460101.1.json"}]}`
		}
		_, _ = w.Write([]byte(answer))
	})
	if got, err := c.Versions(t.Context()); err != nil || !slices.Equal(got, []string{"1.20460101.1"}) {
		t.Errorf("Versions = %q, %v, want the newest one", got, err)
	}
}

func TestVersions_EndsForABucketWithoutEnd(t *testing.T) {
	t.Parallel()
	calls := 0
	c := open(t, func(w http.ResponseWriter, _ *http.Request) {
		if calls++; calls > 200 {
			_, _ = w.Write([]byte(`{}`))
			return
		}
		_, _ = w.Write([]byte(`{"nextPageToken": "again"}`))
	})
	if _, err := c.Versions(t.Context()); err != nil || calls > 100 {
		t.Errorf("%d calls, %v, want at most 100", calls, err)
	}
}

func TestOpen_StreamsAnObject(t *testing.T) {
	t.Parallel()
	c := open(t, func(w http.ResponseWriter, req *http.Request) {
		if got := req.URL.EscapedPath() + "?" + req.URL.RawQuery; got !=
			"/storage/v1/b/builds/o/clients%2Ffiles%2Fabc?alt=media" {
			t.Errorf("the request is %s, want the content of one object", got)
		}
		_, _ = w.Write([]byte("content"))
	})
	body, err := c.Open(t.Context(), clientrelease.File{Object: "clients/files/abc"})
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(body)
	if err != nil || string(got) != "content" {
		t.Errorf("the object is %q, %v, want its content", got, err)
	}
	if err := body.Close(); err != nil {
		t.Error(err)
	}
}

func TestErrors_AreThoseOfThePort(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]fault.Kind{
		404: fault.NotFound, 403: fault.Unavailable, 429: fault.Unavailable, 500: fault.Unavailable,
	} {
		c := open(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
		_, err := c.Release(t.Context(), "1.20260101.1")
		if !fault.Is(err, want) {
			t.Errorf("a release after status %d: %v, want the kind %v", status, err, want)
		}
		if _, err = c.Open(t.Context(), clientrelease.File{Object: "o"}); !fault.Is(err, want) {
			t.Errorf("an object after status %d: %v, want the kind %v", status, err, want)
		}
	}
	c := open(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) })
	if _, err := c.Release(t.Context(), "1.20260101.1"); !fault.Is(err, fault.Unavailable) {
		t.Errorf("a release that is no JSON: %v, want the kind unavailable", err)
	}
}
