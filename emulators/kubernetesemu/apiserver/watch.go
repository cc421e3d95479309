package apiserver

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
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
}

// watch sends changes until the client goes, its time is over, or the server stops.
func (s *Server) watch(c *call) error {
	match, err := selection(c)
	if err != nil {
		return err
	}
	query := c.URL.Query()
	timeout := watchTimeout
	if seconds, _ := strconv.Atoi(query.Get("timeoutSeconds")); seconds > 0 {
		timeout = time.Duration(seconds) * time.Second
	}
	ctx, cancel := context.WithTimeout(c.Context(), timeout)
	defer cancel()
	defer context.AfterFunc(s.stopping, cancel)()
	w := &watcher{
		call: c, server: s, match: match, flush: http.NewResponseController(c.w),
		bookmarks: isTrue(query.Get("allowWatchBookmarks")),
	}
	initial, err := w.begin()
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
	if isTrue(query.Get("sendInitialEvents")) && w.bookmark(true) != nil {
		return nil
	}
	_ = w.flush.Flush()
	w.run(ctx)
	return nil
}

// begin finds out from which version the client wants changes, and returns the objects that it wants before.
func (w *watcher) begin() (initial []runtime.Object, err error) {
	query := w.URL.Query()
	requested, sendInitial := query.Get("resourceVersion"), query.Get("sendInitialEvents")
	if err := checkListOptions(query, true); err != nil {
		return nil, err
	}
	objects := w.server.registry.Store
	objects.RLock()
	defer objects.RUnlock()
	if err := checkVersion(requested, "", objects.Version()); err != nil {
		return nil, err
	}
	fromNow := requested == "" || requested == "0"
	if w.version, err = strconv.ParseUint("0"+requested, 10, 64); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if isTrue(sendInitial) || fromNow && sendInitial == "" {
		for _, o := range objects.List(w.target.kind, w.target.key.Namespace) {
			if w.match(o) {
				initial = append(initial, o)
			}
		}
		w.version = objects.Version()
	} else if fromNow {
		w.version = objects.Version()
	}
	return initial, nil
}

// checkListOptions refuses combinations of options that a client could misunderstand.
func checkListOptions(query url.Values, watches bool) error {
	match, initial := query.Get("resourceVersionMatch"), query.Get("sendInitialEvents")
	var err *field.Error
	switch {
	case initial != "" && !watches:
		err = field.Forbidden(field.NewPath("sendInitialEvents"), "sendInitialEvents is forbidden for list")
	case match != "" && initial == "" && watches:
		err = field.Forbidden(field.NewPath("resourceVersionMatch"),
			"resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided")
	case initial != "" && match != string(metav1.ResourceVersionMatchNotOlderThan):
		err = field.Forbidden(field.NewPath("resourceVersionMatch"),
			"sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")
	case match != "" && query.Get("resourceVersion") == "" && !watches:
		err = field.Forbidden(field.NewPath("resourceVersionMatch"),
			"resourceVersionMatch is forbidden unless resourceVersion is provided")
	default:
		return nil
	}
	return apierrors.NewInvalid(metav1.SchemeGroupVersion.WithKind("ListOptions").GroupKind(), "", field.ErrorList{err})
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
	if err := w.accept.serializer.Serializer.Encode(w.accept.shape(o), &object); err != nil {
		return err
	}
	e := &metav1.WatchEvent{Type: string(kind), Object: runtime.RawExtension{Raw: bytes.TrimRight(object.Bytes(), "\n")}}
	if w.accept.serializer.MediaType == runtime.ContentTypeProtobuf {
		e.Object.Raw = object.Bytes()
	}
	if err := w.accept.serializer.StreamSerializer.Serializer.Encode(e, &event); err != nil {
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
