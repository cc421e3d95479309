package apiserver

import (
	"fmt"
	"net/http"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
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
	match, err := selection(c)
	if err != nil {
		return err
	}
	query := c.URL.Query()
	if err := checkListOptions(query, false); err != nil {
		return err
	}
	limit, err := strconv.Atoi(query.Get("limit"))
	if err != nil && query.Get("limit") != "" {
		return apierrors.NewBadRequest("limit is not a number")
	}
	if token := query.Get("continue"); token != "" {
		if p, ok := s.pages.take(token); ok {
			return s.answerList(c, p, limit)
		}
		return errExpiredPage()
	}
	objects := s.registry.Store
	objects.RLock()
	version, all := objects.Version(), objects.List(c.target.kind, c.target.key.Namespace)
	objects.RUnlock()
	if err := checkVersion(query.Get("resourceVersion"), query.Get("resourceVersionMatch"), version); err != nil {
		return err
	}
	p := page{version: version, counted: query.Get("labelSelector") == "" && query.Get("fieldSelector") == ""}
	for _, o := range all {
		if match(o) {
			p.rest = append(p.rest, o)
		}
	}
	return s.answerList(c, p, limit)
}

// answerList answers with the first objects of a page, and keeps the others for the next request.
func (s *Server) answerList(c *call, p page, limit int) error {
	items, listMeta := p.rest, metav1.ListMeta{ResourceVersion: strconv.FormatUint(p.version, 10)}
	if limit > 0 && len(p.rest) > limit {
		items, p.rest = p.rest[:limit], p.rest[limit:]
		listMeta.Continue = s.pages.keep(p)
		if p.counted {
			remaining := int64(len(p.rest))
			listMeta.RemainingItemCount = &remaining
		}
	}
	list, err := newList(c.target.kind, items, listMeta)
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, list)
}

// newList returns a list of objects, which do not repeat the kind.
func newList(k *kinds.Kind, items []runtime.Object, m metav1.ListMeta) (runtime.Object, error) {
	list := k.NewList()
	if err := meta.SetList(list, items); err != nil {
		return nil, fmt.Errorf("list %s: %w", k.Plural, err)
	}
	if err := meta.EachListItem(list, func(item runtime.Object) error { // a copy of what is stored
		item.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
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

// checkVersion refuses a list of a version that the server cannot have: only the present one is there.
func checkVersion(requested, match string, version uint64) error {
	if requested == "" {
		return nil
	}
	v, err := strconv.ParseUint(requested, 10, 64)
	switch {
	case err != nil:
		return apierrors.NewInternalError(fmt.Errorf("resourceVersion: Invalid value: %q: must be a number", requested))
	case v > version:
		err := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", v, version), 1)
		err.ErrStatus.Details.Causes = []metav1.StatusCause{{
			Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version",
		}}
		return err
	case match == string(metav1.ResourceVersionMatchExact) && v != version:
		return apierrors.NewResourceExpired("The provided resource version is too old: only the present one is kept")
	}
	return nil
}

// selection returns what a list or a watch selects.
func selection(c *call) (func(runtime.Object) bool, error) {
	query := c.URL.Query()
	byLabel, err := labels.Parse(query.Get("labelSelector"))
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	byField, err := fields.ParseSelector(query.Get("fieldSelector"))
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	known := selectableFields(c.target.kind.New())
	for _, r := range byField.Requirements() {
		if !known.Has(r.Field) {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("field label not supported: %s", r.Field))
		}
	}
	key := c.target.key
	return func(o runtime.Object) bool {
		m := store.Meta(o)
		return (key.Namespace == "" || m.GetNamespace() == key.Namespace) && (key.Name == "" || m.GetName() == key.Name) &&
			byLabel.Matches(labels.Set(m.GetLabels())) && (byField.Empty() || byField.Matches(selectableFields(o)))
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
		set["involvedObject.apiVersion"], set["involvedObject.resourceVersion"] = about.APIVersion, about.ResourceVersion
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
