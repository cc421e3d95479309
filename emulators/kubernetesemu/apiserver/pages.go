package apiserver

import (
	"sync"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
)

// keptPages is how many lists can be continued at a time.
const keptPages = 256

// page is what is left of a list.
type page struct {
	version uint64
	rest    []runtime.Object
	counted bool // the client learns how many objects are left
}

// pages keeps the rests of lists, so that all pages of a list are of one version.
type pages struct {
	mu      sync.Mutex
	byToken map[string]page
	tokens  []string // the oldest first
}

func newPages() *pages { return &pages{byToken: map[string]page{}} }

// keep returns the token by which a client continues a list.
func (p *pages) keep(rest page) (token string) {
	token = uuid.NewString()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.byToken[token] = rest
	if p.tokens = append(p.tokens, token); len(p.tokens) > keptPages {
		delete(p.byToken, p.tokens[0])
		p.tokens = p.tokens[1:]
	}
	return token
}

// take returns the rest of a list. A client may repeat a request, so the rest is kept.
func (p *pages) take(token string) (page, error) {
	if _, err := uuid.Parse(token); err != nil {
		return page{}, apierrors.NewBadRequest("continue key is not valid: it was not issued by this server")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if rest, ok := p.byToken[token]; ok {
		return rest, nil
	}
	return page{}, errExpiredPage()
}

// errExpiredPage tells a client to begin its list again.
func errExpiredPage() error {
	return apierrors.NewResourceExpired("The provided continue parameter is too old to display a consistent list " +
		"result. You must start a new list without the continue parameter.")
}
