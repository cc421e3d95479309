package store

import (
	"sync"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
)

// keptPages is how many lists can be continued at a time.
const keptPages = 256

// Page is what is left of a list.
type Page struct {
	Version uint64
	Rest    []runtime.Object
	Counted bool // the client learns how many objects are left
}

// Pages keeps the rests of lists, so that all pages of a list are of one version.
type Pages struct {
	mu      sync.Mutex
	byToken map[string]Page
	tokens  []string // the oldest first
}

// NewPages returns an empty store of pages.
func NewPages() *Pages { return &Pages{byToken: map[string]Page{}} }

// Keep returns the token by which a client continues a list.
func (p *Pages) Keep(rest Page) (token string) {
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

// Take returns the rest of a list. A client may repeat a request, so the rest is kept.
func (p *Pages) Take(token string) (Page, error) {
	if _, err := uuid.Parse(token); err != nil {
		return Page{}, apierrors.NewBadRequest("continue key is not valid: it was not issued by this server")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if rest, ok := p.byToken[token]; ok {
		return rest, nil
	}
	return Page{}, apierrors.NewResourceExpired("The provided continue parameter is too old to display a consistent " +
		"list result. You must start a new list without the continue parameter.")
}
