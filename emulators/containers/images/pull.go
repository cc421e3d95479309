package images

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// pull returns an image of a registry. Its layers are not fetched yet.
func (s store) pull(ctx context.Context, reference string) (v1.Image, error) {
	ref, err := s.parse(reference)
	if err != nil {
		return nil, err
	}
	image, err := fetch(ctx, ref)
	if err == nil {
		_, err = image.RawConfigFile() // which is fetched now
	}
	if err != nil {
		return nil, fmt.Errorf("pull %s: %w", ref.Name(), explain(ref, err))
	}
	return image, nil
}

// parse reads a reference. go-containerregistry needs no TLS for registries of the loopback interface.
func (s store) parse(reference string) (name.Reference, error) {
	if s.insecure == "" {
		return name.ParseReference(reference)
	}
	ref, err := name.ParseReference(reference, name.WithDefaultRegistry(s.insecure))
	if err != nil || ref.Context().RegistryStr() != s.insecure {
		return ref, err
	}
	return name.ParseReference(reference, name.WithDefaultRegistry(s.insecure), name.Insecure)
}

func fetch(ctx context.Context, ref name.Reference) (v1.Image, error) {
	found, err := remote.Get(ref, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain))
	if err != nil {
		return nil, err
	}
	if !found.MediaType.IsIndex() {
		return found.Image()
	}
	index, err := found.ImageIndex()
	if err != nil {
		return nil, err
	}
	return fromIndex(index, "")
}

// explain says what to do about an error of a registry.
func explain(ref name.Reference, err error) error {
	host := ref.Context().RegistryStr()
	var refused *transport.Error
	var network net.Error
	switch {
	case errors.As(err, &refused) && refused.StatusCode == http.StatusNotFound:
		return fmt.Errorf("the registry %s has no image %s", host, ref.Name())
	case errors.As(err, &refused) && (refused.StatusCode == http.StatusUnauthorized ||
		refused.StatusCode == http.StatusForbidden):
		return fmt.Errorf("the registry %s denies access (status %d); run: docker login %s", host, refused.StatusCode,
			host)
	case errors.As(err, &refused):
		return fmt.Errorf("the registry %s answers with status %d", host, refused.StatusCode)
	case errors.As(err, &network):
		return fmt.Errorf("the registry %s or its storage cannot be reached: %w", host, err)
	default:
		return err
	}
}
