package admission

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"agents.example/controlplane/emulators/kubernetesemu/kinds"
	"agents.example/controlplane/emulators/kubernetesemu/store"
)

// checkPolicies evaluates the validating admission policies that are bound to requests like this one.
func (a *Admission) checkPolicies(r *Attributes) error {
	policyKind := a.catalog.Kind(admissionregistrationv1.SchemeGroupVersion.WithKind("ValidatingAdmissionPolicy"))
	bindingKind := a.catalog.Kind(admissionregistrationv1.SchemeGroupVersion.WithKind("ValidatingAdmissionPolicyBinding"))
	if r.Kind == policyKind || r.Kind == bindingKind {
		return nil // a policy cannot lock out those who would repair it
	}
	var input map[string]any
	for _, o := range a.store.List(bindingKind, "") {
		binding := o.(*admissionregistrationv1.ValidatingAdmissionPolicyBinding)
		p, ok := a.store.Get(policyKind, store.Key{Name: binding.Spec.PolicyName}).(*admissionregistrationv1.ValidatingAdmissionPolicy)
		if !ok || !a.matches(p.Spec.MatchConstraints, r) || !a.matches(binding.Spec.MatchResources, r) {
			continue
		}
		if input == nil {
			input = a.input(r)
		}
		if err := a.enforce(r, p, binding, input); err != nil {
			return err
		}
	}
	return nil
}

// enforce evaluates one policy with the parameters of one binding.
func (a *Admission) enforce(r *Attributes, p *admissionregistrationv1.ValidatingAdmissionPolicy,
	binding *admissionregistrationv1.ValidatingAdmissionPolicyBinding, input map[string]any,
) error {
	denied := func(v violation) error {
		if slices.Contains(binding.Spec.ValidationActions, admissionregistrationv1.Warn) {
			r.Warn(fmt.Sprintf("Validation failed for ValidatingAdmissionPolicy '%s' with binding '%s': %s", p.Name,
				binding.Name, v.message))
		}
		if !slices.Contains(binding.Spec.ValidationActions, admissionregistrationv1.Deny) {
			return nil
		}
		return denial(r, v, fmt.Sprintf("ValidatingAdmissionPolicy '%s' with binding '%s' denied request: %s", p.Name,
			binding.Name, v.message))
	}
	parameters, err := a.parameters(r, p.Spec.ParamKind, binding.Spec.ParamRef)
	if err != nil {
		return denied(violation{message: "failed to configure binding: " + err.Error()})
	}
	compiled := a.policies[p.Name]
	if compiled == nil || compiled.uid != p.UID || compiled.generation != p.Generation {
		compiled = compile(p)
		a.policies[p.Name] = compiled
	}
	for _, parameter := range parameters {
		input["params"] = parameter
		for _, v := range compiled.evaluate(input) {
			if err := denied(v); err != nil {
				return err
			}
		}
	}
	return nil
}

// denial returns the error of a request that a policy denies.
func denial(r *Attributes, v violation, message string) error {
	err := r.forbidden("%s", message)
	switch v.reason {
	case metav1.StatusReasonForbidden:
	case metav1.StatusReasonUnauthorized:
		err.ErrStatus.Reason, err.ErrStatus.Code = v.reason, http.StatusUnauthorized
	case metav1.StatusReasonRequestEntityTooLarge:
		err.ErrStatus.Reason, err.ErrStatus.Code = v.reason, http.StatusRequestEntityTooLarge
	default:
		err.ErrStatus.Reason, err.ErrStatus.Code = metav1.StatusReasonInvalid, http.StatusUnprocessableEntity
	}
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Message: message})
	return err
}

// parameters returns the objects that a policy is evaluated with, one after the other: nil where it needs none.
func (a *Admission) parameters(r *Attributes, kind *admissionregistrationv1.ParamKind,
	ref *admissionregistrationv1.ParamRef,
) ([]any, error) {
	if kind == nil || ref == nil {
		return []any{nil}, nil
	}
	var found []any
	if k := a.catalog.Kind(schema.FromAPIVersionAndKind(kind.APIVersion, kind.Kind)); k != nil {
		namespace := ref.Namespace
		if namespace == "" && k.Namespaced {
			namespace = r.Key.Namespace
		}
		selector, err := metav1.LabelSelectorAsSelector(ref.Selector)
		if err != nil {
			return nil, err
		}
		for _, o := range a.store.List(k, namespace) {
			m := store.Meta(o)
			if ref.Name == m.GetName() || ref.Name == "" && selector.Matches(labels.Set(m.GetLabels())) {
				found = append(found, fieldsOf(o))
			}
		}
	}
	allowed := ref.ParameterNotFoundAction != nil && *ref.ParameterNotFoundAction == admissionregistrationv1.AllowAction
	if len(found) == 0 && !allowed {
		return nil, errors.New("no params found for policy binding with `Deny` parameterNotFoundAction")
	}
	return found, nil
}

// matches reports whether a request is one of those that match m; nil matches all.
func (a *Admission) matches(m *admissionregistrationv1.MatchResources, r *Attributes) bool {
	if m == nil {
		return true
	}
	if !a.selects(m, r) {
		return false
	}
	matchesRule := func(rule admissionregistrationv1.NamedRuleWithOperations) bool { return matchesRule(&rule, r) }
	if slices.ContainsFunc(m.ExcludeResourceRules, matchesRule) {
		return false
	}
	return len(m.ResourceRules) == 0 || slices.ContainsFunc(m.ResourceRules, matchesRule)
}

// selects reports whether the selectors of m match the labels of the object and of its namespace.
func (a *Admission) selects(m *admissionregistrationv1.MatchResources, r *Attributes) bool {
	match := func(selector *metav1.LabelSelector, o runtime.Object) bool {
		if selector == nil || o == nil {
			return selector == nil
		}
		s, err := metav1.LabelSelectorAsSelector(selector)
		return err == nil && s.Matches(labels.Set(store.Meta(o).GetLabels()))
	}
	if m.ObjectSelector != nil && !match(m.ObjectSelector, r.Object) && !match(m.ObjectSelector, r.Old) {
		return false
	}
	if m.NamespaceSelector == nil ||
		len(m.NamespaceSelector.MatchLabels)+len(m.NamespaceSelector.MatchExpressions) == 0 {
		return true
	}
	switch {
	case r.Kind == a.catalog.Core("Namespace") && r.Object != nil:
		return match(m.NamespaceSelector, r.Object)
	case r.Kind == a.catalog.Core("Namespace"):
		return match(m.NamespaceSelector, r.Old)
	case !r.Kind.Namespaced:
		return true
	}
	return match(m.NamespaceSelector, a.store.Get(a.catalog.Core("Namespace"), store.Key{Name: r.Key.Namespace}))
}

func matchesRule(rule *admissionregistrationv1.NamedRuleWithOperations, r *Attributes) bool {
	has := func(values []string, value string) bool {
		return slices.Contains(values, "*") || slices.Contains(values, value)
	}
	if len(rule.ResourceNames) > 0 && !slices.Contains(rule.ResourceNames, r.Key.Name) ||
		!has(rule.APIGroups, r.Kind.Group) || !has(rule.APIVersions, r.Kind.Version) {
		return false
	}
	if !slices.ContainsFunc(rule.Operations, func(o admissionregistrationv1.OperationType) bool {
		return o == admissionregistrationv1.OperationAll || string(o) == string(r.Operation)
	}) {
		return false
	}
	return slices.ContainsFunc(rule.Resources, func(resource string) bool {
		name, subresource, _ := strings.Cut(resource, "/")
		return (name == "*" || name == r.Kind.Plural) && (subresource == "*" || subresource == r.Subresource)
	})
}

// input returns the variables of expressions about a request.
func (a *Admission) input(r *Attributes) map[string]any {
	namespace := a.store.Get(a.catalog.Core("Namespace"), store.Key{Name: r.Key.Namespace})
	return map[string]any{
		"object": fieldsOf(r.Object), "oldObject": fieldsOf(r.Old), "request": requestOf(r, a.catalog),
		"namespaceObject": fieldsOf(namespace),
	}
}

func requestOf(r *Attributes, catalog *kinds.Catalog) map[string]any {
	gvk := map[string]any{"group": r.Kind.Group, "version": r.Kind.Version, "kind": r.Kind.Kind}
	resource := map[string]any{"group": r.Kind.Group, "version": r.Kind.Version, "resource": r.Kind.Plural}
	groups := make([]any, 0, len(r.User.Groups))
	for _, group := range r.User.Groups {
		groups = append(groups, group)
	}
	request := map[string]any{
		"operation": string(r.Operation), "dryRun": r.DryRun, "kind": gvk, "requestKind": gvk, "resource": resource,
		"requestResource": resource,
		"userInfo":        map[string]any{"username": r.User.Username, "uid": r.User.UID, "groups": groups},
	}
	if r.Key.Name != "" {
		request["name"] = r.Key.Name
	}
	switch {
	case r.Key.Namespace != "":
		request["namespace"] = r.Key.Namespace
	case r.Kind == catalog.Core("Namespace"):
		request["namespace"] = r.Key.Name
	}
	if r.Subresource != "" {
		request["subResource"] = r.Subresource
	}
	return request
}

// fieldsOf returns an object as expressions see it, or nil.
func fieldsOf(o runtime.Object) any {
	if o == nil {
		return nil
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil
	}
	return fields
}
