//go:build unix

package terraform_test

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/provisioning"
)

// objectRefusals are objects that agents do not have, and deletions.
func objectRefusals(own, empty string) map[string]refusal {
	meta := func(kind, name string) string {
		return "kind: " + kind + "\napiVersion: v1\nmetadata: {name: " + name + "}\n"
	}
	claim := meta("PersistentVolumeClaim", "data") +
		"spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}, "
	const quota = "spec: {hard: {pods: 2, persistentvolumeclaims: 1, services.loadbalancers: 0, " +
		"services.nodeports: 0, " +
		"requests.cpu: 1, limits.cpu: 1, requests.memory: 1Gi, limits.memory: 1Gi, requests.ephemeral-storage: 1Gi, " +
		"limits.ephemeral-storage: 1Gi, requests.storage: 1Gi}}"
	const closed = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: second}\n" +
		"spec: {podSelector: {}, policyTypes: [Ingress, Egress]}"
	namespace := func(label, want string) refusal {
		a := newAgent()
		return refusal{createObject("namespaces", "", "apiVersion: v1\nkind: Namespace\nmetadata: {name: "+
			a.Namespace()+
			", labels: {agents.example/agent-id: "+a.ID+", "+label+"}}"), want}
	}
	service := func(spec string) refusal {
		return refusal{
			createObject("services", empty, meta("Service", "agent")+"spec: {ports: [{port: 80}], "+spec+"}"),
			refusesService,
		}
	}
	return map[string]refusal{
		"a namespace without a level":   namespace("pod-security.kubernetes.io/enforce-version: v1.35", refusesLevel),
		"a namespace without a version": namespace("pod-security.kubernetes.io/enforce: restricted", refusesVersion),
		"a Deployment": {
			createObject("deployments", own, "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: agent}\nspec: "+
				"{selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, "+
				"spec: {containers: [{name: a, image: a}]}}}"),
			refusesSurroundings,
		},
		"a command in a pod": {execute(own), refusesSurroundings},
		"an account": {
			createObject("serviceaccounts", own, meta("ServiceAccount", "probe")),
			refusesSurroundings,
		},
		"a role": {
			createObject("roles", own,
				"apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: probe}"),
			refusesSurroundings,
		},
		"a second network policy": {createObject("networkpolicies", own, closed), refusesName},
		"a second quota": {
			createObject("resourcequotas", own, meta("ResourceQuota", "second")+quota),
			refusesName,
		},
		"a second Service": {
			createObject("services", own, meta("Service", "second")+
				"spec: {clusterIP: None, selector: {app.kubernetes.io/name: agent}, ports: [{port: 80}]}"),
			refusesName,
		},
		"a load balancer":           service("type: LoadBalancer, selector: {app.kubernetes.io/name: agent}"),
		"a port of all nodes":       service("type: NodePort, selector: {app.kubernetes.io/name: agent}"),
		"an address of the cluster": service("selector: {app.kubernetes.io/name: agent}"),
		"another name":              service("type: ExternalName, externalName: a.example"),
		"a quota for some pods": {createObject("resourcequotas", empty, meta("ResourceQuota", "agent")+
			"spec: {scopes: [NotTerminating], hard: {pods: 2}}"), refusesQuota},
		"a foreign ConfigMap": {patch("configmaps", own, "kube-root-ca.crt"), refusesName},
		"a token of an account": {
			createObject("secrets", own,
				"kind: Secret\napiVersion: v1\ntype: kubernetes.io/service-account-token\nmetadata: "+
					"{name: agent-env-0, annotations: {kubernetes.io/service-account.name: default}}"),
			refusesSecret,
		},
		"a claim of a volume": {
			createObject("persistentvolumeclaims", empty, claim+"volumeName: other}"),
			refusesVolume,
		},
		"a copy of a snapshot": {
			createObject("persistentvolumeclaims", empty,
				claim+"dataSource: {apiGroup: snapshot.storage.k8s.io, kind: VolumeSnapshot, name: other}}"),
			refusesVolume,
		},
		"no quota":          {remove("resourcequotas", own, "agent"), refusesSurroundings},
		"no network policy": {remove("networkpolicies", own, "agent"), refusesSurroundings},
		"no workload":       {remove("statefulsets", own, "agent"), refusesSurroundings},
		"no volume claim":   {remove("persistentvolumeclaims", own, "data"), refusesSurroundings},
		"no pod":            {remove("pods", own, "agent-0"), refusesSurroundings},
	}
}

// TestPolicies_RefuseToEndIsolation attempts what a worker that was taken over could do to agents, with all rights
// that RBAC can give it. Each attempt differs in one point from what the worker writes, which the policies admit.
func TestPolicies_RefuseToEndIsolation(t *testing.T) {
	t.Parallel()
	f, ctx := policyCell(t), t.Context()
	worker := client(t, f.kubeconfigOf(t, reconciler))
	clusters, a, bare := f.clusters(t, reconciler), newAgent(), newAgent()
	a.Env = append(a.Env, agent.EnvVar{Key: "TOKEN", SecretVersion: 1})
	if err := applyAll(ctx, clusters, a); err != nil {
		t.Fatal(err)
	}
	if err := clusters.Apply(ctx, bare, agent.StageNamespace, provisioning.RuntimeInput{}); err != nil {
		t.Fatal(err)
	}
	own, empty := a.Namespace(), bare.Namespace()
	for name, write := range map[string]attempt{
		"workload": patch("statefulsets", own, "agent"), "Service": patch("services", own, "agent"),
		"network policy": patch("networkpolicies", own, "agent"), "quota": patch("resourcequotas", own, "agent"),
		"namespace": patch("namespaces", "", own), "scale": patch("statefulsets", own, "agent", "scale"),
		"claim": createObject("persistentvolumeclaims", empty, "apiVersion: v1\nkind: PersistentVolumeClaim\n"+
			"metadata: {name: data}\nspec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}"),
		"Secret": createObject("secrets", own,
			"apiVersion: v1\nkind: Secret\nmetadata: {name: agent-env-0}\ntype: Opaque"),
	} {
		if err := write(ctx, worker); err != nil {
			t.Errorf("%s without a change: %v", name, err)
		}
	}
	for _, group := range []map[string]refusal{
		podRefusals(own), surroundingRefusals(own), rangeRefusals(own), objectRefusals(own, empty),
	} {
		for name, r := range group {
			err := r.write(ctx, worker)
			if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), r.want) {
				t.Errorf("%s: error %v, want it forbidden because of %q", name, err, r.want)
			}
		}
	}
}
