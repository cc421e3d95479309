package page_test

import (
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"testing"

	"agents.example/controlplane/shared/page"
)

const selfQuery = "limit=2&status=running"

func selfURL() *url.URL { return &url.URL{Path: "/api/v1/agents", RawQuery: selfQuery} }

func TestReply_LinksToTheNextPage(t *testing.T) {
	t.Parallel()
	self, h := selfURL(), http.Header{}
	p := page.Map(page.Page[int]{Items: []int{1, 2}, Next: "a b&c", Self: self}, strconv.Itoa)
	if body, want := p.Reply(h), []string{"1", "2"}; !reflect.DeepEqual(body, want) {
		t.Errorf("body = %v, want %v", body, want)
	}
	if got, want := h.Get("X-Next-Cursor"), "a b&c"; got != want {
		t.Errorf("X-Next-Cursor = %q, want %q", got, want)
	}
	wantLink := `</api/v1/agents?cursor=a+b%26c&limit=2&status=running>; rel="next"`
	if got := h.Get("Link"); got != wantLink {
		t.Errorf("Link = %s, want %s", got, wantLink)
	}
	if self.RawQuery != selfQuery {
		t.Errorf("Reply changed Self to %s", self)
	}
}

func TestReply_LastPageHasNoHeaders(t *testing.T) {
	t.Parallel()
	h := http.Header{}
	if body := (page.Page[int]{Self: selfURL()}).Reply(h); !reflect.DeepEqual(body, []int{}) {
		t.Errorf("body = %#v, want an empty list", body)
	}
	if len(h) != 0 {
		t.Errorf("headers = %v, want none", h)
	}
}

func TestQuery_MakesARequest(t *testing.T) {
	t.Parallel()
	if got := (page.Query{}).Request().Limit; got != page.DefaultLimit {
		t.Errorf("Limit of an empty query = %d, want %d", got, page.DefaultLimit)
	}
	q := page.Query{Limit: 7, Cursor: "c"}
	if got, want := q.Request(), (page.Request{Limit: 7, Cursor: "c"}); got != want {
		t.Errorf("Request = %+v, want %+v", got, want)
	}
	if got := q.Values().Encode(); got != "limit=7" {
		t.Errorf("Values = %s, want limit=7 without the cursor", got)
	}
}
