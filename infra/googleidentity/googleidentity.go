// Package googleidentity finds out whose Google credentials the process uses. It does not verify the tokens of others;
// package oidc does.
package googleidentity

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/api/oauth2/v2"
	"google.golang.org/api/option"
)

// timeout bounds the call.
const timeout = 10 * time.Second

// Email returns the verified email address of the user or service account whose Application Default Credentials the
// process uses. It fails if Google does not name one: the caller must not fall back to a name that a person typed.
func Email(ctx context.Context, options ...option.ClientOption) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	options = append([]option.ClientOption{option.WithScopes(oauth2.UserinfoEmailScope)}, options...)
	service, err := oauth2.NewService(ctx, options...)
	if err != nil {
		return "", fmt.Errorf("open Google's user info: %w", err)
	}
	user, err := service.Userinfo.Get().Context(ctx).Do()
	switch {
	case err != nil:
		return "", fmt.Errorf("read Google's user info: %w", err)
	case user.Email == "", user.VerifiedEmail != nil && !*user.VerifiedEmail:
		return "", errors.New("the Google credentials have no verified email address")
	}
	return user.Email, nil
}
