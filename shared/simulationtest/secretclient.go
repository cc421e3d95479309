package simulationtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apicall "agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/credential"
	"agents.example/controlplane/shared/secret"
)

// EnsureCredentials implements credential.SecretStore: the first credentials are version 1, and a version that a
// concurrent call added after it is destroyed.
func (c SecretClient) EnsureCredentials(ctx context.Context, id, username string) (credential.Credentials, int64,
	error,
) {
	var first secretVersion
	found := false
	err := c.look(ctx, "access credentials 1", func() error {
		first, found = c.Store.access(id, secret.CredentialsKey, 1)
		return nil
	})
	if err != nil {
		return credential.Credentials{}, 0, err
	}
	if !found || c.Store.Rules.NewCredentials {
		var number int64
		if err := c.call(ctx, "add first credentials", func() error {
			number = c.Store.add(id, secret.CredentialsKey, secretVersion{credentials: c.Store.generate(username)})
			c.Store.surplus[id] = c.Store.surplus[id] || number > 1 && !c.Store.Rules.NewCredentials
			first, _ = c.Store.access(id, secret.CredentialsKey, 1)
			return nil
		}); err != nil {
			return credential.Credentials{}, 0, err
		}
		if number > 1 && !c.Store.Rules.NewCredentials {
			if err := c.call(ctx, "destroy surplus credentials", func() error {
				delete(c.Store.surplus, id)
				c.Store.destroy(id, secret.CredentialsKey, number, number+1)
				return nil
			}); err != nil {
				return credential.Credentials{}, 0, err
			}
		}
	}
	if first.destroyed {
		return credential.Credentials{}, 0, noVersion()
	}
	return first.credentials, 1, nil
}

// GetCredentials implements credential.Reader.
func (c SecretClient) GetCredentials(ctx context.Context, id string, number int64) (found credential.Credentials,
	err error,
) {
	err = c.look(ctx, "access credentials", func() error {
		v, ok := c.Store.access(id, secret.CredentialsKey, number)
		if !ok || v.destroyed {
			return noVersion()
		}
		found = v.credentials
		return nil
	})
	return found, err
}

// Read implements credential.SecretStore.
func (c SecretClient) Read(ctx context.Context, id, key string, number int64) (value []byte, err error) {
	if c.Store.Accessed != nil {
		c.Store.Accessed(id, key)
	}
	err = c.look(ctx, "access "+key, func() error {
		v, ok := c.Store.access(id, key, number)
		if !ok || v.destroyed {
			return noVersion()
		}
		value = []byte(v.value)
		return nil
	})
	return value, err
}

// DestroyVersions implements credential.SecretStore.
func (c SecretClient) DestroyVersions(ctx context.Context, id, key string, from, before int64) error {
	return c.call(ctx, "destroy "+key, func() error {
		if c.Store.Rules.TrustLists {
			before = min(before, int64(len(c.Store.list(id, key)))+1)
		}
		if c.Store.latest(id, key) < before-1 && c.Store.exists(id, key) {
			return storeUnavailable()
		}
		c.Store.destroy(id, key, from, before)
		return nil
	})
}

// Destroy implements credential.SecretStore: it removes the secrets with the given keys and all that the store lists.
func (c SecretClient) Destroy(ctx context.Context, id string, keys []string) error {
	var all []string
	if err := c.look(ctx, "list secrets", func() error {
		all = c.Store.listed(id)
		return nil
	}); err != nil {
		return err
	}
	if !c.Store.Rules.TrustLists {
		all = append(append(all, keys...), secret.CredentialsKey)
	}
	slices.Sort(all)
	for _, key := range slices.Compact(all) {
		if err := c.call(ctx, "delete secret "+key, func() error {
			c.Store.remove(secret.Ref(id, key))
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// Put implements credential.SecretWriter.
func (c SecretClient) Put(ctx context.Context, id, key string, value []byte) (int64, error) {
	return c.put(ctx, id, key, func() secretVersion { return secretVersion{value: string(value)} })
}

// PutFirst implements credential.SecretWriter.
func (c SecretClient) PutFirst(ctx context.Context, id, key string, value []byte) (int64, error) {
	return c.Put(ctx, id, key, value)
}

// AddCredentials implements credential.SecretWriter.
func (c SecretClient) AddCredentials(ctx context.Context, id, username string) (int64, error) {
	return c.put(ctx, id, secret.CredentialsKey, func() secretVersion {
		made := c.Store.generate(username)
		return secretVersion{credentials: made, value: apicall.From(ctx).Request.RequestID}
	})
}

func (c SecretClient) put(ctx context.Context, id, key string, v func() secretVersion) (int64, error) {
	for again := false; ; again = true {
		var number int64
		err := c.Process.Step(ctx, SecretService, "add version of "+key, func() error {
			number = c.Store.add(id, key, v())
			return nil
		})
		if err == nil {
			return number, nil
		}
		if c.Store.Rules.GuessVersion {
			return c.Store.latest(id, key), nil
		}
		if !c.Store.Rules.RepeatAdds || again {
			return 0, c.addError(err)
		}
	}
}

// LatestVersion implements credential.SecretWriter.
func (c SecretClient) LatestVersion(ctx context.Context, id, key string) (number int64, err error) {
	err = c.look(ctx, "list versions of "+key, func() error {
		number = int64(len(c.Store.list(id, key)))
		return nil
	})
	return number, err
}

// VersionCreated implements credential.SecretWriter.
func (c SecretClient) VersionCreated(ctx context.Context, id, key string, number int64) (created time.Time, found bool,
	err error,
) {
	err = c.look(ctx, "get version of "+key, func() error {
		v, ok := c.Store.access(id, key, number)
		found = ok
		if ok && !v.destroyed {
			created = v.createdAt
			if c.Store.Rules.NoCreationTime {
				created = c.Store.now().Add(time.Hour)
			}
		}
		return nil
	})
	return created, found, err
}

// addError is the error of adding a version: it says whether the version was certainly not added.
func (c SecretClient) addError(err error) error {
	var failed *Error
	if errors.As(err, &failed) && (failed.unsent() || c.Store.Rules.ForgetUnknown) {
		return fmt.Errorf("%w: %w", storeUnavailable(), credential.ErrRefused)
	}
	return portError(err, storeUnavailable)
}
