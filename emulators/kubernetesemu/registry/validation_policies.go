package registry

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validateQuota(o *corev1.ResourceQuota) field.ErrorList {
	var errs field.ErrorList
	for name, quantity := range o.Spec.Hard {
		if quantity.Sign() < 0 {
			errs = append(errs, field.Invalid(field.NewPath("spec", "hard").Key(string(name)), quantity.String(),
				apivalidation.IsNegativeErrorMsg))
		}
	}
	return errs
}

func validateNetworkPolicy(o *networkingv1.NetworkPolicy) field.ErrorList {
	spec := field.NewPath("spec")
	var errs field.ErrorList
	for i := range o.Spec.Ingress {
		errs = append(errs, validatePeers(o.Spec.Ingress[i].From, spec.Child("ingress").Index(i).Child("from"))...)
	}
	for i := range o.Spec.Egress {
		errs = append(errs, validatePeers(o.Spec.Egress[i].To, spec.Child("egress").Index(i).Child("to"))...)
	}
	return errs
}

func validatePeers(peers []networkingv1.NetworkPolicyPeer, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range peers {
		block := peers[i].IPBlock
		if block == nil {
			continue
		}
		at := at.Index(i).Child("ipBlock")
		all, err := netip.ParsePrefix(block.CIDR)
		if err != nil {
			errs = append(errs, field.Invalid(at.Child("cidr"), block.CIDR,
				"must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"))
			continue
		}
		for j, text := range block.Except {
			part, err := netip.ParsePrefix(text)
			if err != nil || !all.Contains(part.Addr()) || part.Bits() <= all.Bits() {
				errs = append(errs, field.Invalid(at.Child("except").Index(j), text, "must be a strict subset of `cidr`"))
			}
		}
	}
	return errs
}

// validateRole checks the role of a binding, which never changes.
func validateRole(ref rbacv1.RoleRef, old *rbacv1.RoleRef, kinds ...string) field.ErrorList {
	at := field.NewPath("roleRef")
	var errs field.ErrorList
	if !slices.Contains(kinds, ref.Kind) {
		errs = append(errs, field.NotSupported(at.Child("kind"), ref.Kind, kinds))
	}
	if ref.Name == "" {
		errs = append(errs, field.Required(at.Child("name"), ""))
	}
	if old != nil && *old != ref {
		errs = append(errs, field.Invalid(at, ref, "cannot change roleRef"))
	}
	return errs
}
