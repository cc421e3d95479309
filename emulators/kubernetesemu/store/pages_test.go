package store

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func TestPages_ExpireInOrder(t *testing.T) {
	t.Parallel()
	p := NewPages()
	first := p.Keep(Page{Version: 1})
	second := p.Keep(Page{Version: 2})
	for range keptPages - 1 {
		p.Keep(Page{})
	}
	if _, err := p.Take(first); !apierrors.IsResourceExpired(err) {
		t.Errorf("oldest page: error = %v, want Expired", err)
	}
	for range 2 { // a client may repeat its request
		if kept, err := p.Take(second); err != nil || kept.Version != 2 {
			t.Errorf("page = %+v, %v, want that of version 2", kept, err)
		}
	}
	if _, err := p.Take("none"); !apierrors.IsBadRequest(err) {
		t.Errorf("malformed token: error = %v, want BadRequest", err)
	}
}
