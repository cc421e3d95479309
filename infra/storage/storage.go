// Package storage reads the published clients from a bucket of Cloud Storage. It writes nothing: a release does.
//
// It calls the JSON API itself. Google's library would link 139 packages into the binary of the API for two calls.
package storage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"

	"agents.example/controlplane/shared/clientrelease"
	"agents.example/controlplane/shared/fault"
)

const (
	// timeout bounds the wait for the header of an answer. The emulator makes a file when it is first read.
	timeout         = 10 * time.Second
	emulatorTimeout = 10 * time.Minute
	// maxPages bounds a list, of 1,000 names a page: the newest releases come last, and years of them must fit.
	// maxAnswer bounds the answers that are held in memory.
	maxPages  = 100
	maxAnswer = 1 << 20

	googleAPI = "https://storage.googleapis.com"
	readScope = "https://www.googleapis.com/auth/devstorage.read_only"
)

// Options configure Open.
type Options struct {
	Bucket string
	// EmulatorHost is the address of an emulator, as in STORAGE_EMULATOR_HOST; empty for Google's.
	EmulatorHost string
}

// Clients are the clients in a bucket. It is safe for concurrent use.
type Clients struct {
	http *http.Client
	base string // of the bucket's objects
}

var _ clientrelease.Store = (*Clients)(nil)

// Open returns the clients in a bucket. It calls nothing yet.
func Open(ctx context.Context, o Options) (*Clients, error) {
	transport, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return nil, errors.New("the default transport is another one")
	}
	transport = transport.Clone()
	transport.ResponseHeaderTimeout = timeout
	address := googleAPI
	c := &Clients{http: &http.Client{Transport: transport}}
	if o.EmulatorHost != "" {
		transport.ResponseHeaderTimeout = emulatorTimeout
		if address = o.EmulatorHost; !strings.Contains(address, "://") {
			address = "http://" + address
		}
	} else {
		// Tokens are fetched at the first call.
		tokens := &lazyTokens{ctx: context.WithoutCancel(ctx)}
		c.http.Transport = &oauth2.Transport{Source: oauth2.ReuseTokenSource(nil, tokens), Base: transport}
	}
	c.base = strings.TrimSuffix(address, "/") + "/storage/v1/b/" + url.PathEscape(o.Bucket) + "/o"
	return c, nil
}

// lazyTokens finds the default credentials when a token is needed.
type lazyTokens struct{ ctx context.Context } //nolint:containedctx // of the process

// Token implements oauth2.TokenSource.
func (t *lazyTokens) Token() (*oauth2.Token, error) {
	source, err := google.DefaultTokenSource(t.ctx, readScope)
	if err != nil {
		return nil, err
	}
	return source.Token()
}

// Versions implements clientrelease.Store.
func (c *Clients) Versions(ctx context.Context) ([]string, error) {
	var versions []string
	page := ""
	for range maxPages {
		query := url.Values{
			"prefix": {clientrelease.ReleasesPrefix}, "fields": {"items(name),nextPageToken"}, "maxResults": {"1000"},
		}
		if page != "" {
			query.Set("pageToken", page)
		}
		var list struct {
			Items         []struct{ Name string }
			NextPageToken string
		}
		if err := c.decode(ctx, c.base+"?"+query.Encode(), &list); err != nil {
			return nil, err
		}
		for _, item := range list.Items {
			version, ok := strings.CutSuffix(strings.TrimPrefix(item.Name, clientrelease.ReleasesPrefix), ".json")
			if ok {
				versions = append(versions, version)
			}
		}
		if page = list.NextPageToken; page == "" {
			break
		}
	}
	return versions, nil
}

// Release implements clientrelease.Store.
func (c *Clients) Release(ctx context.Context, version string) (clientrelease.Release, error) {
	var r clientrelease.Release
	err := c.decode(ctx, c.media(clientrelease.ReleaseObject(version)), &r)
	return r, err
}

// Open implements clientrelease.Store.
func (c *Clients) Open(ctx context.Context, f clientrelease.File) (io.ReadCloser, error) {
	res, err := c.get(ctx, c.media(f.Object))
	if err != nil {
		return nil, err
	}
	return res.Body, nil
}

// media is the address of an object's content.
func (c *Clients) media(object string) string {
	return c.base + "/" + url.PathEscape(object) + "?alt=media"
}

func (c *Clients) decode(ctx context.Context, address string, into any) error {
	res, err := c.get(ctx, address)
	if err != nil {
		return err
	}
	b, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err = errors.Join(err, res.Body.Close()); err == nil {
		err = json.Unmarshal(b, into)
	}
	if err != nil {
		return unavailable(fmt.Errorf("read the answer of the bucket: %w", err))
	}
	return nil
}

// get returns a successful answer. Errors: NotFound, Unavailable.
func (c *Clients) get(ctx context.Context, address string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, unavailable(err)
	}
	if res.StatusCode == http.StatusOK {
		return res, nil
	}
	text, _ := io.ReadAll(io.LimitReader(res.Body, 1<<10))
	_ = res.Body.Close()
	err = errors.New("the bucket answered " + strconv.Itoa(res.StatusCode) + ": " + string(text))
	if res.StatusCode == http.StatusNotFound {
		return nil, fault.New(fault.NotFound, "not_found", "The bucket of clients lacks this file.").WithCause(err)
	}
	return nil, unavailable(err)
}

func unavailable(cause error) error {
	return fault.New(fault.Unavailable, "clients_unavailable", "The clients are temporarily unavailable. Retry.").
		WithCause(cause)
}
