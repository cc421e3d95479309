//go:build unix

package terraform_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestGuard_FailsClosed holds that the API server refuses what it cannot check, and that the guard sees every write of
// every kind. A real API server refuses the writes in TestCell_GivesEveryCallerExactlyTheRightsItNeeds.
func TestGuard_FailsClosed(t *testing.T) {
	t.Parallel()
	guard := object[admissionv1.ValidatingAdmissionPolicy](t, "ValidatingAdmissionPolicy", "agent-control-plane")
	binding := object[admissionv1.ValidatingAdmissionPolicyBinding](t, "ValidatingAdmissionPolicyBinding",
		"agent-control-plane")
	if guard.Spec.FailurePolicy == nil || *guard.Spec.FailurePolicy != admissionv1.Fail {
		t.Errorf("failurePolicy = %v, want Fail", guard.Spec.FailurePolicy)
	}
	writes := []admissionv1.OperationType{"CREATE", "UPDATE", "DELETE", "CONNECT"}
	want := []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
		Operations: writes,
		Rule: admissionv1.Rule{
			APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*/*"},
		},
	}}}
	if diff := cmp.Diff(want, guard.Spec.MatchConstraints.ResourceRules); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
	if exempt := guard.Spec.MatchConstraints.ExcludeResourceRules; exempt != nil {
		t.Errorf("the guard leaves out %v", exempt)
	}
	if n := len(guard.Spec.MatchConditions); n != 1 {
		t.Errorf("%d match conditions, want only the one on the caller", n)
	}
	if binding.Spec.PolicyName != guard.Name || binding.Spec.MatchResources != nil ||
		!cmp.Equal(binding.Spec.ValidationActions, []admissionv1.ValidationAction{admissionv1.Deny}) {
		t.Errorf("binding = %+v, want it to deny in every namespace", binding.Spec)
	}
}

// TestPolicies_FailClosed holds that each admission policy of the cell is bound, denies in every namespace, and denies
// what it cannot check. All but the fence are about functions, and about all of them.
func TestPolicies_FailClosed(t *testing.T) {
	t.Parallel()
	condition := object[admissionv1.ValidatingAdmissionPolicy](t, "ValidatingAdmissionPolicy",
		"agent-control-plane").Spec.MatchConditions
	found := 0
	for _, o := range cellObjects(t) {
		if o.GetKind() != "ValidatingAdmissionPolicy" {
			continue
		}
		found++
		policy := object[admissionv1.ValidatingAdmissionPolicy](t, o.GetKind(), o.GetName())
		binding := object[admissionv1.ValidatingAdmissionPolicyBinding](t, o.GetKind()+"Binding", o.GetName())
		if policy.Spec.FailurePolicy == nil || *policy.Spec.FailurePolicy != admissionv1.Fail {
			t.Errorf("%s: failurePolicy = %v, want Fail", o.GetName(), policy.Spec.FailurePolicy)
		}
		if !cmp.Equal(policy.Spec.MatchConditions, condition) && o.GetName() != "agent-generation" {
			t.Errorf("%s is about %v, want all functions", o.GetName(), policy.Spec.MatchConditions)
		}
		if binding.Spec.PolicyName != o.GetName() || binding.Spec.MatchResources != nil ||
			!cmp.Equal(binding.Spec.ValidationActions, []admissionv1.ValidationAction{admissionv1.Deny}) {
			t.Errorf("binding = %+v, want it to deny in every namespace", binding.Spec)
		}
		if params := binding.Spec.ParamRef; params != nil && (params.ParameterNotFoundAction == nil ||
			*params.ParameterNotFoundAction != admissionv1.DenyAction) {
			t.Errorf("%s admits without its parameters", o.GetName())
		}
		for _, v := range policy.Spec.Validations {
			// Workers give up on any other reason.
			if v.Reason == nil || *v.Reason != metav1.StatusReasonForbidden {
				t.Errorf("%s: the reason of %s is %v, want Forbidden", o.GetName(), v.Expression, v.Reason)
			}
		}
	}
	if found != 10 {
		t.Errorf("%d policies, want 10", found)
	}
}
