package gke

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// routing brings requests for the agent's hostname to it.
func (b blueprint) routing() []object {
	objects := []object{b.route()}
	if b.cell.Endpoint != "" {
		objects = append(objects, b.healthCheck())
	}
	return objects
}

func (b blueprint) route() object {
	gateway := b.settings.Gateway
	return &gatewayv1.HTTPRoute{
		TypeMeta: typed("gateway.networking.k8s.io/v1", "HTTPRoute"), ObjectMeta: b.named(agentName),
		Spec: gatewayv1.HTTPRouteSpec{
			CommonRouteSpec: gatewayv1.CommonRouteSpec{ParentRefs: []gatewayv1.ParentReference{{
				Namespace: new(gatewayv1.Namespace(gateway.Namespace)), Name: gatewayv1.ObjectName(gateway.Name),
			}}},
			Hostnames: []gatewayv1.Hostname{gatewayv1.Hostname(b.agent.Hostname(b.settings.Addresses))},
			Rules: []gatewayv1.HTTPRouteRule{{BackendRefs: []gatewayv1.HTTPBackendRef{{
				BackendRef: gatewayv1.BackendRef{BackendObjectReference: gatewayv1.BackendObjectReference{
					Name: agentName, Port: new(gatewayv1.PortNumber(80)),
				}},
			}}}},
		},
	}
}

// healthCheck tells GKE's load balancer how to find out whether the agent serves. It does not look at the pod's probes,
// and would ask for the dashboard, which refuses everybody who has no password: no agent would ever be sent a request.
//
// The kind is GKE's own, and other clusters do not have it.
func (b blueprint) healthCheck() object {
	meta := b.named(agentName)
	policy := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{
			"default": map[string]any{
				"checkIntervalSec": int64(5), "timeoutSec": int64(5), "healthyThreshold": int64(1),
				"unhealthyThreshold": int64(3),
				"config": map[string]any{
					"type": "HTTP",
					"httpHealthCheck": map[string]any{
						"portSpecification": "USE_SERVING_PORT",
						"requestPath":       readyPath,
					},
				},
			},
			"targetRef": map[string]any{"group": "", "kind": "Service", "name": agentName},
		},
	}}
	policy.SetAPIVersion("networking.gke.io/v1")
	policy.SetKind("HealthCheckPolicy")
	policy.SetName(meta.Name)
	policy.SetNamespace(meta.Namespace)
	policy.SetLabels(meta.Labels)
	return policy
}
