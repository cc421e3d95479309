package apiserver

import (
	"bytes"
	"errors"
	"mime"
	"net/http"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"agents.example/controlplane/emulators/kubernetesemu/store"
)

// accept is the format that a client wants objects in.
type accept struct {
	serializer runtime.SerializerInfo
	as         string // PartialObjectMetadata, PartialObjectMetadataList, Table, APIGroupDiscoveryList or empty
}

// negotiate returns the first format of a request that the server has. Otherwise it returns JSON, and false if the
// client wants none. Only metadata and tables of custom resources travel as protobuf.
func (s *Server) negotiate(r *http.Request, custom bool) (a accept, ok bool) {
	known := s.catalog.Codecs.SupportedMediaTypes()
	for format := range strings.SplitSeq(r.Header.Get("Accept"), ",") {
		kind, parameters, err := mime.ParseMediaType(strings.TrimSpace(format))
		if err != nil {
			continue
		}
		if kind == "*/*" || kind == "application/*" {
			kind = runtime.ContentTypeJSON
		}
		if custom && kind == runtime.ContentTypeProtobuf && parameters["as"] == "" {
			continue
		}
		if info, ok := runtime.SerializerInfoForMediaType(known, kind); ok {
			return accept{serializer: info, as: parameters["as"]}, true
		}
	}
	info, _ := runtime.SerializerInfoForMediaType(known, runtime.ContentTypeJSON)
	return accept{serializer: info}, r.Header.Get("Accept") == ""
}

// errNotAcceptable is the answer to a client that wants a format which the server does not have.
func errNotAcceptable() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotAcceptable, Reason: metav1.StatusReasonNotAcceptable,
		Message: "only the following media types are accepted: " + strings.Join([]string{
			runtime.ContentTypeJSON, runtime.ContentTypeYAML, runtime.ContentTypeProtobuf,
		}, ", "),
	}}
}

// shape returns an object as the client wants it.
func (a accept) shape(o runtime.Object) runtime.Object {
	switch a.as {
	case "PartialObjectMetadata", "PartialObjectMetadataList":
		return metadataOf(o)
	case "Table":
		return tableOf(o)
	}
	return o
}

// metadataOf returns an object, or a list of objects, without anything but metadata.
func metadataOf(o runtime.Object) runtime.Object {
	if !meta.IsListType(o) {
		m, err := meta.Accessor(o)
		if err != nil {
			return o
		}
		partial := meta.AsPartialObjectMetadata(m)
		partial.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata"))
		return partial
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("PartialObjectMetadataList"))
	if l, err := meta.ListAccessor(o); err == nil {
		list.ResourceVersion, list.Continue = l.GetResourceVersion(), l.GetContinue()
		list.RemainingItemCount = l.GetRemainingItemCount()
	}
	_ = meta.EachListItem(o, func(item runtime.Object) error {
		list.Items = append(list.Items, *meta.AsPartialObjectMetadata(store.Meta(item)))
		return nil
	})
	return list
}

// write writes an object in the client's format.
func (a accept) write(w http.ResponseWriter, code int, o runtime.Object) {
	var body bytes.Buffer
	if err := a.serializer.Serializer.Encode(o, &body); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", a.serializer.MediaType)
	w.WriteHeader(code)
	_, _ = w.Write(body.Bytes())
}

// writeError writes an error as a Status.
func (a accept) writeError(w http.ResponseWriter, err error) {
	var known apierrors.APIStatus
	var status metav1.Status
	switch {
	case errors.As(err, &known):
		status = known.Status()
	case isStrict(err):
		status = apierrors.NewBadRequest(err.Error()).Status()
	default: // the real server gives no reason, either
		status = metav1.Status{Status: metav1.StatusFailure, Message: err.Error()}
	}
	status.Kind, status.APIVersion = "Status", metav1.SchemeGroupVersion.Version
	if status.Code == 0 {
		status.Code = http.StatusInternalServerError
	}
	if status.Details != nil && status.Details.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(status.Details.RetryAfterSeconds)))
	}
	a.write(w, int(status.Code), &status)
}

// answer writes an object as the client of a call wants it.
func (c *call) answer(code int, o runtime.Object) error {
	c.accept.write(c.w, code, c.accept.shape(o))
	return nil
}

// reply answers with an object unless there was an error.
func (c *call) reply(o runtime.Object, err error) error {
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, o)
}
