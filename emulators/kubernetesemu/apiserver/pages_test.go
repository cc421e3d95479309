package apiserver

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func TestPages_ExpireInOrder(t *testing.T) {
	t.Parallel()
	p := newPages()
	first := p.keep(page{version: 1})
	second := p.keep(page{version: 2})
	for range keptPages - 1 {
		p.keep(page{})
	}
	if _, err := p.take(first); !apierrors.IsResourceExpired(err) {
		t.Errorf("oldest page: error = %v, want Expired", err)
	}
	for range 2 { // a client may repeat its request
		if kept, err := p.take(second); err != nil || kept.version != 2 {
			t.Errorf("page = %+v, %v, want that of version 2", kept, err)
		}
	}
	if _, err := p.take("none"); !apierrors.IsBadRequest(err) {
		t.Errorf("malformed token: error = %v, want BadRequest", err)
	}
}
