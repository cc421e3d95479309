package agent_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/image"
)

// catalog is a port that counts its calls.
type catalog struct {
	images image.Set
	err    error
	hangs  bool
	calls  int
}

// Images implements image.Catalog.
func (c *catalog) Images(ctx context.Context) (image.Set, error) {
	c.calls++
	if c.hangs {
		<-ctx.Done()
		return image.Set{}, ctx.Err()
	}
	return c.images, c.err
}

func tagOf(v agent.View) string {
	h := http.Header{}
	v.Reply(h)
	return h.Get("ETag")
}

func TestDisplay_ShowsWhichVersionIsAvailable(t *testing.T) {
	t.Parallel()
	a := runningOn(t)
	a.Version = "7"
	current := agent.Display{Images: &catalog{images: twoVersions("1")}}.Show(t.Context(), a, identity.Caller{})
	equal(t, "available version", current.Image.Available, nil)
	equal(t, "entity tag", tagOf(current), `"7"`)

	behind := agent.Display{Images: &catalog{images: twoVersions("2")}}.Show(t.Context(), a, identity.Caller{})
	equal(t, "version", behind.Image.Version, "1")
	equal(t, "policy", behind.Image.Policy, image.Auto)
	if behind.Image.Available == nil || *behind.Image.Available != "2" {
		t.Errorf("available version = %v, want 2", behind.Image.Available)
	}
	if tagOf(behind) == tagOf(current) {
		t.Errorf("both views have the entity tag %s: a client that knows the first would not get the second",
			tagOf(behind))
	}
	for _, tag := range []string{tagOf(current), tagOf(behind), a.EntityTag()} {
		equal(t, "If-Match with "+tag, a.Match(tag), nil)
	}
	equal(t, "If-Match with another record's tag matches", a.Match(`"8;2"`) == nil, false)
	equal(t, "If-Match with a weak tag matches", a.Match("W/"+tagOf(behind)) == nil, false)
}

// TestDisplay_ReadsTheCatalogOnceForAllAgents, and only if one of them has an image of the catalog.
func TestDisplay_ReadsTheCatalogOnceForAllAgents(t *testing.T) {
	t.Parallel()
	a, former := runningOn(t), agent.Agent{ID: "former"}
	c := &catalog{images: twoVersions("2")}
	show := agent.Display{Images: c}.For(t.Context(), identity.Caller{})
	show(former)
	show(customAgent(t))
	equal(t, "reads for agents that need none", c.calls, 0)
	for range 3 {
		equal(t, "has an available version", show(a).Image.Available != nil, true)
	}
	equal(t, "reads", c.calls, 1)
	equal(t, "image of an agent of a former release", show(former).Image, nil)
	equal(t, "available version of a custom image", show(customAgent(t)).Image.Available, nil)
}

// TestDisplay_NeedsNoCatalog: an agent is shown without one, and while it cannot be read.
func TestDisplay_NeedsNoCatalog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]*catalog{
			"that fails": {err: errors.New("unavailable")}, "that hangs": {hangs: true}, "that is empty": {},
		} {
			began := time.Now()
			show := agent.Display{Images: c}.For(t.Context(), identity.Caller{})
			for range 100 {
				v := show(runningOn(t))
				equal(t, "available version with a catalog "+name, v.Image.Available, nil)
				equal(t, "version with a catalog "+name, v.Image.Version, "1")
			}
			if took := time.Since(began); took > time.Second {
				t.Errorf("a catalog %s delays a list by %s, want one second at most", name, took)
			}
		}
		v := agent.Display{}.Show(t.Context(), runningOn(t), identity.Caller{})
		equal(t, "version without a catalog", v.Image.Version, "1")
	})
}
