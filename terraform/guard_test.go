//go:build unix

package terraform_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
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
