package firestore

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/page"
)

// TestKeys_NoDescendantSurvivesARevocationInBetween runs a creation with a key and the revocation of that key with its
// descendants, one between the reads and the commit of the other.
func TestKeys_NoDescendantSurvivesARevocationInBetween(t *testing.T) {
	t.Parallel()
	type operation func(ctx context.Context, keys *Keys, x tenantFixture) error
	create := func(ctx context.Context, keys *Keys, x tenantFixture) error {
		caller := call.From(ctx).Caller
		caller.Type, caller.ID = identity.APIKey, x.key.ID
		_, err := keys.Create(call.As(ctx, caller), newKey())
		return err
	}
	revoke := func(ctx context.Context, keys *Keys, x tenantFixture) error { return keys.Revoke(ctx, x.key.ID) }
	revokeAll := func(ctx context.Context, keys *Keys, x tenantFixture) error {
		return keys.RevokeWithDescendants(ctx, x.key.ID)
	}
	for name, c := range map[string]struct {
		slow, inBetween operation
		refused         bool
	}{
		"creation in a revocation with descendants": {slow: revokeAll, inBetween: create},
		"revocation with descendants in a creation": {slow: create, inBetween: revokeAll, refused: true},
		"revocation in a creation":                  {slow: create, inBetween: revoke, refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plain := open(t, "", Options{})
			x := newTenantFixture(t, plain)
			commits := 0
			slow := open(t, plain.project(), Options{DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(func(
				ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker,
				opts ...grpc.CallOption,
			) error {
				if strings.HasSuffix(method, "/Commit") {
					if commits++; commits == 1 {
						must(t, c.inBetween(x.org.Ctx, plain.Keys(), x))
					}
				}
				return invoke(ctx, method, req, reply, cc, opts...)
			})}})
			err := c.slow(x.org.Ctx, slow.Keys(), x)
			if refused := fault.Is(err, fault.Unauthenticated); refused != c.refused || err != nil && !refused {
				t.Errorf("error = %v, want Unauthenticated: %t", err, c.refused)
			}
			left, err := plain.Keys().List(x.org.Ctx, page.Request{})
			must(t, err)
			if len(left.Items) != 0 {
				t.Errorf("%d keys are left, want 0", len(left.Items))
			}
			o, err := plain.Directory().Organization(x.org.Ctx, x.org.ID)
			must(t, err)
			if o.Usage.APIKeys != 0 {
				t.Errorf("the organization counts %d keys, want 0", o.Usage.APIKeys)
			}
		})
	}
}
