package gke

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"agents.example/controlplane/shared/plan"
)

// podSecurityVersion is the release whose definition of "restricted" applies: the one that the tests run against. With
// "latest", an upgrade of a cluster may refuse the next restart of an agent.
const podSecurityVersion = "v1.35"

// namespace is the agent's own. Its labels make the API server refuse every pod in it that is not restricted by Pod
// Security's measure, whoever makes it, and add its volume to the cell's daily backup.
func (b blueprint) namespace() object {
	n := &corev1.Namespace{
		TypeMeta:   typed("v1", "Namespace"),
		ObjectMeta: metav1.ObjectMeta{Name: b.agent.Namespace(), Labels: b.labels(), Annotations: map[string]string{}},
	}
	n.Labels[labelDatabase] = b.settings.Database
	for _, mode := range []string{"enforce", "audit", "warn"} {
		n.Labels["pod-security.kubernetes.io/"+mode] = "restricted"
		n.Labels["pod-security.kubernetes.io/"+mode+"-version"] = podSecurityVersion
	}
	if b.plan.Has(plan.DailyBackups) {
		n.Labels[labelBackup] = "daily"
	}
	// Ids of organizations come from the identity provider, which may write what no label can hold.
	if len(validation.IsValidLabelValue(b.agent.OrganizationID)) == 0 {
		n.Labels[labelOrganization] = b.agent.OrganizationID
	} else {
		n.Annotations[labelOrganization] = b.agent.OrganizationID
	}
	return n
}
