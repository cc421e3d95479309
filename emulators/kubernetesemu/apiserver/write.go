package apiserver

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kubejson "k8s.io/apimachinery/pkg/util/json"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"agents.example/controlplane/emulators/kubernetesemu/registry"
	"agents.example/controlplane/emulators/kubernetesemu/store"
)

// maxBody is the longest body of a request.
const maxBody = 3 << 20

func (s *Server) create(c *call) error {
	if c.target.key.Name != "" {
		return apierrors.NewMethodNotSupported(c.target.resource, c.verb)
	}
	q, o, err := s.readObject(c, c.target.kind.New())
	if err != nil {
		return err
	}
	if o, err = s.registry.Create(q, o); err != nil {
		return err
	}
	return c.answer(http.StatusCreated, o)
}

func (s *Server) update(c *call) error {
	if c.target.subresource == "scale" {
		return s.updateScale(c)
	}
	q, o, err := s.readObject(c, c.target.kind.New())
	if err != nil {
		return err
	}
	o, err = s.registry.Update(q, func(live runtime.Object) (runtime.Object, error) {
		wanted, has := store.Meta(o).GetUID(), store.Meta(live).GetUID()
		if wanted != "" && wanted != has {
			//nolint:staticcheck // Kubernetes' text
			return nil, apierrors.NewConflict(c.target.resource, c.target.key.Name, fmt.Errorf(
				"Precondition failed: UID in precondition: %v, UID in object meta: %v", wanted, has))
		}
		return o, nil
	})
	return c.reply(o, err)
}

func (s *Server) patch(c *call) error {
	kind, err := patchType(c.Request, c.target.kind.Custom)
	if err != nil {
		return err
	}
	q, body, err := c.writeRequestOf(kind)
	if err != nil {
		return err
	}
	if kind == types.ApplyPatchType {
		return s.apply(c, q, body)
	}
	if c.target.subresource == "scale" {
		return s.patchScale(c, q, kind, body)
	}
	o, err := s.registry.Update(q, func(live runtime.Object) (runtime.Object, error) {
		text, err := registry.Patched(kind, live, body)
		if err != nil {
			return nil, err
		}
		o, err := s.decode(c, c.target.kind.New(), text)
		if isStrict(err) {
			return nil, apierrors.NewInvalid(schema.GroupKind{}, "",
				field.ErrorList{field.Invalid(field.NewPath("patch"), string(body), err.Error())})
		}
		return o, err
	})
	return c.reply(o, err)
}

func patchType(r *http.Request, custom bool) (types.PatchType, error) {
	known := []string{string(types.JSONPatchType), string(types.MergePatchType)}
	if !custom {
		known = append(known, string(types.StrategicMergePatchType))
	}
	known = append(known, string(types.ApplyPatchType))
	media, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	if slices.Contains(known, media) {
		return types.PatchType(media), nil
	}
	return "", errMediaType(known)
}

func (s *Server) apply(c *call, q registry.Request, body []byte) error {
	text, err := yaml.YAMLToJSON(body)
	if err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("error decoding YAML: %v", err))
	}
	var fields map[string]any
	if err := kubejson.Unmarshal(text, &fields); err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("error decoding YAML: %v", err))
	}
	if c.target.subresource == "scale" {
		if fields, err = scaledFields(c.target.kind, fields); err != nil {
			return err
		}
	}
	o, created, err := s.registry.Apply(q, fields)
	switch {
	case err != nil:
		return err
	case c.target.subresource == "scale":
		return c.answer(http.StatusOK, scaleOf(o))
	case created:
		return c.answer(http.StatusCreated, o)
	}
	return c.answer(http.StatusOK, o)
}

func (s *Server) delete(c *call) error {
	q, body, err := c.writeRequest()
	if err != nil {
		return err
	}
	options, err := s.deleteOptions(c, body)
	if err != nil {
		return err
	}
	q.DryRun = q.DryRun || len(options.DryRun) > 0
	last, gone, err := s.registry.Delete(q, *options)
	if err != nil {
		return err
	}
	if !gone || c.accept.as != "" || c.target.kind == s.catalog.Core("Pod") {
		return c.answer(http.StatusOK, last)
	}
	return c.answer(http.StatusOK, deletedStatus(c, last))
}

func deletedStatus(c *call, last runtime.Object) *metav1.Status {
	status := &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: metav1.SchemeGroupVersion.Version},
		Status:   metav1.StatusSuccess,
		Details: &metav1.StatusDetails{
			Name: c.target.key.Name, Group: c.target.kind.Group, Kind: c.target.kind.Plural,
		},
	}
	if m, ok := last.(metav1.Object); ok {
		status.Details.UID = m.GetUID()
	}
	return status
}

func (s *Server) deleteCollection(c *call) error {
	if c.target.kind == s.catalog.Core("Namespace") {
		return apierrors.NewMethodNotSupported(c.target.resource, c.verb)
	}
	selected, err := listOptions(c.URL.Query())
	if err != nil {
		return err
	}
	match, err := selection(c.target, selected)
	if err != nil {
		return err
	}
	q, body, err := c.writeRequest()
	if err != nil {
		return err
	}
	options, err := s.deleteOptions(c, body)
	if err != nil {
		return err
	}
	q.DryRun = q.DryRun || len(options.DryRun) > 0
	deleted, err := s.registry.DeleteCollection(q, *options, match)
	if err != nil {
		return err
	}
	list, err := newList(c.target.kind, deleted, metav1.ListMeta{})
	return c.reply(list, err)
}

// deleteOptions returns the options of a deletion, from the body or the query.
func (s *Server) deleteOptions(c *call, body []byte) (*metav1.DeleteOptions, error) {
	options := &metav1.DeleteOptions{}
	if len(body) > 0 {
		// The kind belongs to each group, but its fields are the same in all.
		if err := json.Unmarshal(body, options); err != nil {
			gvk := metav1.SchemeGroupVersion.WithKind("DeleteOptions")
			if _, _, err := s.catalog.Codecs.UniversalDeserializer().Decode(body, &gvk, options); err != nil {
				return nil, apierrors.NewBadRequest(err.Error())
			}
		}
	} else {
		query := c.URL.Query()
		if err := metav1.Convert_url_Values_To_v1_DeleteOptions(&query, options, nil); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	}
	return options, optionsError("DeleteOptions", nil, validation.ValidateDeleteOptions(options))
}

// readObject reads a request that changes something, and decodes its body.
func (s *Server) readObject(c *call, into runtime.Object) (q registry.Request, o runtime.Object, err error) {
	q, body, err := c.writeRequest()
	if err != nil {
		return q, nil, err
	}
	o, err = s.decode(c, into, body)
	return q, o, err
}

// writeRequest reads the options and the body of a request that changes something.
func (c *call) writeRequest() (q registry.Request, body []byte, err error) {
	return c.writeRequestOf("")
}

// writeRequestOf does what writeRequest does, for a type of patch.
func (c *call) writeRequestOf(patch types.PatchType) (q registry.Request, body []byte, err error) {
	query := c.URL.Query()
	if err := checkWriteOptions(c, patch); err != nil {
		return q, nil, err
	}
	q = registry.Request{
		User: c.user, Kind: c.target.kind, Key: c.target.key, Subresource: c.target.subresource,
		Manager: query.Get("fieldManager"), Force: isTrue(query.Get("force")), Warn: c.warn, Check: c.check,
	}
	if q.Manager == "" {
		q.Manager, _, _ = strings.Cut(c.UserAgent(), "/")
	}
	q.DryRun = len(query["dryRun"]) > 0
	body, err = io.ReadAll(http.MaxBytesReader(c.w, c.Body, maxBody))
	if err != nil {
		return q, nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", maxBody))
	}
	return q, body, nil
}

// warn adds a warning to the answer of a call.
func (c *call) warn(text string) {
	if header, err := utilnet.NewWarningHeader(299, "-", text); err == nil {
		c.w.Header().Add("Warning", header)
	}
}
