package apiserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"agents.example/controlplane/emulators/kubernetesemu/store"
)

const (
	// watchTimeout is how long a watch lasts whose client names no time.
	watchTimeout = 30 * time.Minute
	// bookmarkInterval is how often a client that wants bookmarks learns the present version.
	bookmarkInterval = time.Minute
)

// watcher sends the changes of a kind to one client.
type watcher struct {
	*call
	server    *Server
	match     func(runtime.Object) bool
	frames    io.Writer
	flush     *http.ResponseController
	version   uint64 // of the last change that the client knows
	bookmarks bool
	described bool // the client knows the columns of its table
}

// watch sends changes until the client goes, its time is over, or the server stops.
func (s *Server) watch(c *call) error {
	options, err := listOptions(c.URL.Query())
	if err != nil {
		return err
	}
	match, err := selection(c.target, options)
	if err != nil {
		return err
	}
	timeout := watchTimeout
	if options.TimeoutSeconds != nil && *options.TimeoutSeconds > 0 {
		timeout = time.Duration(*options.TimeoutSeconds) * time.Second
	}
	ctx, cancel := context.WithTimeout(c.Context(), timeout)
	defer cancel()
	defer context.AfterFunc(s.stopping, cancel)()
	w := &watcher{
		call: c, server: s, match: match, flush: http.NewResponseController(c.w),
		bookmarks: options.AllowWatchBookmarks,
	}
	sendInitial := options.SendInitialEvents != nil && *options.SendInitialEvents
	initial, err := w.begin(options)
	if err != nil {
		return err
	}
	media := c.accept.serializer.MediaType
	if media == runtime.ContentTypeProtobuf {
		media += ";stream=watch"
	}
	c.w.Header().Set("Content-Type", media)
	w.frames = c.accept.serializer.StreamSerializer.NewFrameWriter(c.w)
	for _, o := range initial {
		if w.send(watch.Added, o) != nil {
			return nil
		}
	}
	if sendInitial && w.bookmark(true) != nil {
		return nil
	}
	_ = w.flush.Flush()
	w.run(ctx)
	return nil
}

// begin finds out from which version the client wants changes, and returns the objects that it wants before.
func (w *watcher) begin(o *internalversion.ListOptions) (initial []runtime.Object, err error) {
	objects := w.server.registry.Store
	objects.RLock()
	defer objects.RUnlock()
	if w.version, err = parseVersion(o.ResourceVersion, objects.Version()); err != nil {
		if apierrors.IsBadRequest(err) {
			err = errors.New(err.Error()) // the real server does not say whose fault it is, either
		}
		return nil, err
	}
	fromNow := w.version == 0
	if o.SendInitialEvents != nil && *o.SendInitialEvents || fromNow && o.SendInitialEvents == nil {
		for _, o := range objects.List(w.target.kind, w.target.key.Namespace) {
			if w.match(o) {
				initial = append(initial, o)
			}
		}
		fromNow = true
	}
	if fromNow {
		w.version = objects.Version()
	}
	return initial, nil
}

// run sends changes until ctx ends.
func (w *watcher) run(ctx context.Context) {
	var tick <-chan time.Time
	if w.bookmarks {
		ticker := time.NewTicker(bookmarkInterval)
		defer ticker.Stop()
		tick = ticker.C
	}
	objects := w.server.registry.Store
	for {
		objects.RLock()
		changes, changed, complete := objects.Since(w.target.kind, w.version)
		version := objects.Version()
		objects.RUnlock()
		if !complete {
			w.expire()
			return
		}
		for i := range changes {
			if w.sendChange(&changes[i]) != nil {
				return
			}
		}
		w.version = version
		if len(changes) > 0 && w.flush.Flush() != nil {
			return
		}
		select {
		case <-ctx.Done():
			if w.bookmarks && w.bookmark(false) == nil {
				_ = w.flush.Flush()
			}
			return
		case <-tick:
			if w.bookmark(false) != nil || w.flush.Flush() != nil {
				return
			}
		case <-changed:
		}
	}
}

// sendChange sends a change as the client sees it, which knows only the objects that match.
func (w *watcher) sendChange(c *store.Change) error {
	was, is := c.Before != nil && w.match(c.Before), c.After != nil && w.match(c.After)
	switch {
	case was && is:
		return w.send(watch.Modified, c.Last)
	case is:
		return w.send(watch.Added, c.Last)
	case was && c.After == nil:
		return w.send(watch.Deleted, c.Last)
	case was:
		// The client learns the last state that it may see, with the version of the change.
		last := c.Before.DeepCopyObject()
		store.Meta(last).SetResourceVersion(store.Meta(c.After).GetResourceVersion())
		return w.send(watch.Deleted, last)
	}
	return nil
}

func (w *watcher) send(kind watch.EventType, o runtime.Object) error {
	var object, event bytes.Buffer
	shaped := w.accept.shape(o)
	if table, ok := shaped.(*metav1.Table); ok {
		if w.described {
			table.ColumnDefinitions = nil
		}
		w.described = true
	}
	if err := w.accept.serializer.Serializer.Encode(shaped, &object); err != nil {
		return err
	}
	e := &metav1.WatchEvent{Type: string(kind), Object: runtime.RawExtension{Raw: bytes.TrimRight(object.Bytes(), "\n")}}
	if w.accept.serializer.MediaType == runtime.ContentTypeProtobuf {
		e.Object.Raw = object.Bytes()
	}
	if err := w.accept.serializer.StreamSerializer.Encode(e, &event); err != nil {
		return err
	}
	_, err := w.frames.Write(event.Bytes())
	return err
}

// bookmark tells the client the version up to which it knows all changes. The bookmark after the initial objects is
// marked.
func (w *watcher) bookmark(initial bool) error {
	if !w.bookmarks {
		return nil
	}
	o := w.target.kind.New()
	m := store.Meta(o)
	m.SetResourceVersion(strconv.FormatUint(w.version, 10))
	if initial {
		m.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	}
	return w.send(watch.Bookmark, o)
}

// expire tells the client that changes which it does not know are no longer kept.
func (w *watcher) expire() {
	status := apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", w.version,
		w.version)).ErrStatus
	status.Kind, status.APIVersion = "Status", metav1.SchemeGroupVersion.Version
	w.accept.as = ""
	if w.send(watch.Error, &status) == nil {
		_ = w.flush.Flush()
	}
}
