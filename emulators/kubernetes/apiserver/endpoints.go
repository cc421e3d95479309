package apiserver

import (
	"context"
	"net/netip"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/discovery"
	"k8s.io/kubernetes/pkg/controlplane"
	controlplaneapiserver "k8s.io/kubernetes/pkg/controlplane/apiserver"
	endpointslicestorage "k8s.io/kubernetes/pkg/registry/discovery/endpointslice/storage"
)

// allowLoopbackEndpoints makes the API servers of this process accept EndpointSlices with loopback addresses, which
// pods that run as processes have. The flag withoutEndpointSlices must remove the original resource.
func allowLoopbackEndpoints() {
	controlplane.AdditionalStorageProvidersForTests = func(
		*kubernetes.Clientset,
	) []controlplaneapiserver.RESTStorageProvider {
		return []controlplaneapiserver.RESTStorageProvider{loopbackEndpoints{}}
	}
}

const withoutEndpointSlices = "--runtime-config=discovery.k8s.io/v1=false"

// loopbackEndpoints provides the API group discovery.k8s.io.
type loopbackEndpoints struct{}

// GroupName returns the group's name.
func (loopbackEndpoints) GroupName() string { return discovery.GroupName }

// NewRESTStorage returns the original storage with another validation.
func (loopbackEndpoints) NewRESTStorage(_ serverstorage.APIResourceConfigSource, options generic.RESTOptionsGetter,
) (genericapiserver.APIGroupInfo, error) {
	storage, err := endpointslicestorage.NewREST(options)
	if err != nil {
		return genericapiserver.APIGroupInfo{}, err
	}
	storage.CreateStrategy = createStrategy{storage.CreateStrategy}
	storage.UpdateStrategy = updateStrategy{storage.UpdateStrategy}
	info := genericapiserver.NewDefaultAPIGroupInfo(discovery.GroupName, legacyscheme.Scheme,
		legacyscheme.ParameterCodec, legacyscheme.Codecs)
	info.VersionedResourcesStorageMap[discoveryv1.SchemeGroupVersion.Version] = map[string]rest.Storage{
		"endpointslices": storage,
	}
	return info, nil
}

type createStrategy struct{ rest.RESTCreateStrategy }

// Validate validates all of a new EndpointSlice, except that its addresses may be loopback addresses.
func (s createStrategy) Validate(ctx context.Context, object runtime.Object) field.ErrorList {
	return s.RESTCreateStrategy.Validate(ctx, withoutLoopback(object))
}

type updateStrategy struct{ rest.RESTUpdateStrategy }

// ValidateUpdate validates all of a changed EndpointSlice, except that its addresses may be loopback addresses.
func (s updateStrategy) ValidateUpdate(ctx context.Context, object, old runtime.Object) field.ErrorList {
	return s.RESTUpdateStrategy.ValidateUpdate(ctx, withoutLoopback(object), withoutLoopback(old))
}

// withoutLoopback returns a copy of an EndpointSlice with other addresses in place of loopback addresses.
func withoutLoopback(object runtime.Object) runtime.Object {
	slice, ok := object.(*discovery.EndpointSlice)
	if !ok {
		return object
	}
	slice = slice.DeepCopy()
	for i := range slice.Endpoints {
		for j, text := range slice.Endpoints[i].Addresses {
			if address, err := netip.ParseAddr(text); err == nil && address.Is4() && address.IsLoopback() {
				other := address.As4()
				other[0] = 10
				slice.Endpoints[i].Addresses[j] = netip.AddrFrom4(other).String()
			}
		}
	}
	return slice
}
