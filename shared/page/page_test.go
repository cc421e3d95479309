package page_test

import (
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"testing"

	"agents.example/controlplane/shared/page"
)

func TestPages(t *testing.T) {
	t.Parallel()
	self := &url.URL{Path: "/api/v1/agents", RawQuery: "limit=2&status=running"}
	p := page.Map(page.Page[int]{Items: []int{1, 2}, Next: "a b&c", Self: self}, strconv.Itoa)
	h := http.Header{}
	if body := p.Reply(h); !reflect.DeepEqual(body, []string{"1", "2"}) {
		t.Errorf("body %v", body)
	}
	if h.Get("X-Next-Cursor") != "a b&c" ||
		h.Get("Link") != `</api/v1/agents?cursor=a+b%26c&limit=2&status=running>; rel="next"` {
		t.Errorf("headers %v", h)
	}
	last := http.Header{}
	if body := (page.Page[int]{Self: self}).Reply(last); !reflect.DeepEqual(body, []int{}) || len(last) != 0 {
		t.Errorf("the last page: %v, %v", body, last)
	}
	if self.RawQuery != "limit=2&status=running" {
		t.Error("the page's own address was changed")
	}
}

func TestQuery(t *testing.T) {
	t.Parallel()
	if r := (page.Query{}).Request(); r.Limit != page.DefaultLimit {
		t.Errorf("limit %d", r.Limit)
	}
	q := page.Query{Limit: 7, Cursor: "c"}
	if r := q.Request(); r.Limit != 7 || r.Cursor != "c" || q.Values().Encode() != "limit=7" {
		t.Errorf("%+v, %s", r, q.Values().Encode())
	}
}
