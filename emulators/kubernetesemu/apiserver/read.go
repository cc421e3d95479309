package apiserver

import (
	"fmt"
	"net/http"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"agents.example/controlplane/emulators/kubernetesemu/kinds"
	"agents.example/controlplane/emulators/kubernetesemu/store"
)

// get answers with one object.
func (s *Server) get(c *call) error {
	o, err := s.registry.Get(c.target.kind, c.target.key)
	if err != nil {
		return err
	}
	if c.target.subresource == "scale" {
		o = scaleOf(o)
	}
	return c.answer(http.StatusOK, o)
}

// list answers with the objects that a client selects, or with a page of them.
func (s *Server) list(c *call) error {
	options, err := listOptions(c.URL.Query())
	if err != nil {
		return err
	}
	match, err := selection(c.target, options)
	if err != nil {
		return err
	}
	if options.Continue != "" {
		p, err := s.pages.Take(options.Continue)
		if err != nil {
			return err
		}
		return s.answerList(c, p, int(options.Limit))
	}
	version, all, err := s.objectsAt(c.target, options)
	if err != nil {
		return err
	}
	p := store.Page{Version: version, Counted: options.LabelSelector.Empty() && options.FieldSelector.Empty()}
	for _, o := range all {
		if match(o) {
			p.Rest = append(p.Rest, o)
		}
	}
	return s.answerList(c, p, int(options.Limit))
}

// objectsAt returns the objects that a list is about, of the version that it asks for, or of the present one.
func (s *Server) objectsAt(t target, o *internalversion.ListOptions) (version uint64, all []runtime.Object, err error) {
	objects := s.registry.Store
	objects.RLock()
	defer objects.RUnlock()
	requested, err := parseVersion(o.ResourceVersion, objects.Version())
	if err != nil {
		return 0, nil, err
	}
	if o.ResourceVersionMatch != metav1.ResourceVersionMatchExact {
		return objects.Version(), objects.List(t.kind, t.key.Namespace), nil
	}
	all, ok := objects.ListAt(t.kind, t.key.Namespace, requested)
	if !ok {
		return 0, nil, apierrors.NewResourceExpired("The provided resource version is too old.")
	}
	return requested, all, nil
}

// answerList answers with the first objects of a page, and keeps the others for the next request.
func (s *Server) answerList(c *call, p store.Page, limit int) error {
	items, listMeta := p.Rest, metav1.ListMeta{ResourceVersion: strconv.FormatUint(p.Version, 10)}
	if limit > 0 && len(p.Rest) > limit {
		items, p.Rest = p.Rest[:limit], p.Rest[limit:]
		listMeta.Continue = s.pages.Keep(p)
		if p.Counted {
			remaining := int64(len(p.Rest))
			listMeta.RemainingItemCount = &remaining
		}
	}
	list, err := newList(c.target.kind, items, listMeta)
	return c.reply(list, err)
}

// newList returns a list of objects, which do not repeat the kind unless they are custom resources.
func newList(k *kinds.Kind, items []runtime.Object, m metav1.ListMeta) (runtime.Object, error) {
	list := k.NewList()
	if err := meta.SetList(list, items); err != nil {
		return nil, fmt.Errorf("list %s: %w", k.Plural, err)
	}
	if err := meta.EachListItem(list, func(item runtime.Object) error { // a copy of what is stored
		if !k.Custom {
			item.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
		}
		return nil
	}); err != nil {
		return nil, err
	}
	accessor, err := meta.ListAccessor(list)
	if err != nil {
		return nil, err
	}
	accessor.SetResourceVersion(m.ResourceVersion)
	accessor.SetContinue(m.Continue)
	accessor.SetRemainingItemCount(m.RemainingItemCount)
	return list, nil
}

// parseVersion parses the version that a client asks for. It refuses versions that do not exist yet.
func parseVersion(requested string, present uint64) (uint64, error) {
	if requested == "" {
		return 0, nil
	}
	v, err := strconv.ParseUint(requested, 10, 64)
	switch {
	case err != nil:
		return 0, apierrors.NewBadRequest(fmt.Sprintf("resourceVersion: Invalid value: %q: must be a number",
			requested))
	case v > present:
		err := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", v, present), 1)
		err.ErrStatus.Details.Causes = []metav1.StatusCause{{
			Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version",
		}}
		return 0, err
	}
	return v, nil
}

// selection returns what a list or a watch selects.
func selection(t target, o *internalversion.ListOptions) (func(runtime.Object) bool, error) {
	if o.LabelSelector == nil {
		o.LabelSelector = labels.Everything()
	}
	if o.FieldSelector == nil {
		o.FieldSelector = fields.Everything()
	}
	known := selectableFields(t.kind.New())
	for _, r := range o.FieldSelector.Requirements() {
		if !known.Has(r.Field) {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("field label not supported: %s", r.Field))
		}
	}
	return func(object runtime.Object) bool {
		m := store.Meta(object)
		return (t.key.Namespace == "" || m.GetNamespace() == t.key.Namespace) &&
			(t.key.Name == "" || m.GetName() == t.key.Name) && o.LabelSelector.Matches(labels.Set(m.GetLabels())) &&
			(o.FieldSelector.Empty() || o.FieldSelector.Matches(selectableFields(object)))
	}, nil
}

// selectableFields returns the fields that clients may select objects by.
func selectableFields(o runtime.Object) fields.Set {
	m := store.Meta(o)
	set := fields.Set{"metadata.name": m.GetName(), "metadata.namespace": m.GetNamespace()}
	switch o := o.(type) {
	case *corev1.Pod:
		set["spec.nodeName"], set["status.phase"] = o.Spec.NodeName, string(o.Status.Phase)
		set["spec.serviceAccountName"], set["status.podIP"] = o.Spec.ServiceAccountName, o.Status.PodIP
		set["spec.restartPolicy"], set["spec.schedulerName"] = string(o.Spec.RestartPolicy), o.Spec.SchedulerName
	case *corev1.Event:
		set["type"], set["reason"], set["source"] = o.Type, o.Reason, o.Source.Component
		set["reportingComponent"] = o.ReportingController
		about := &o.InvolvedObject
		set["involvedObject.kind"], set["involvedObject.namespace"] = about.Kind, about.Namespace
		set["involvedObject.name"], set["involvedObject.uid"] = about.Name, string(about.UID)
		set["involvedObject.apiVersion"] = about.APIVersion
		set["involvedObject.resourceVersion"] = about.ResourceVersion
		set["involvedObject.fieldPath"] = about.FieldPath
	case *corev1.Namespace:
		set["status.phase"] = string(o.Status.Phase)
	case *corev1.Secret:
		set["type"] = string(o.Type)
	case *corev1.Node:
		set["spec.unschedulable"] = strconv.FormatBool(o.Spec.Unschedulable)
	}
	return set
}
