package login

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/oauth2"

	"agents.example/controlplane/functions/agentctl/profile"
)

// Device signs the user in with a browser on any device, which needs no connection to this machine (RFC 8628). It
// returns ErrNoSignIn if the API accepts API keys only.
func (f Flow) Device(ctx context.Context, baseURL string) (profile.Profile, error) {
	f, ctx, cancel := f.prepare(ctx)
	defer cancel()
	p, err := f.discover(ctx, baseURL)
	if err != nil {
		return profile.Profile{}, err
	}
	if p.DeviceEndpoint == "" {
		return profile.Profile{}, fmt.Errorf("the identity provider %s does not sign devices in. "+
			"Run: agentctl login --no-browser", p.Issuer)
	}
	config := p.config("")
	asked, err := config.DeviceAuth(ctx)
	if err != nil {
		return profile.Profile{}, clarify(ctx, err)
	}
	if asked.UserCode == "" || asked.DeviceCode == "" {
		return profile.Profile{}, errors.New("the identity provider's answer has no code for your device")
	}
	if err := checkSecure("the identity provider's page for devices", asked.VerificationURI); err != nil {
		return profile.Profile{}, err
	}
	_, _ = fmt.Fprintf(f.Out, "Open this address in a browser, on this machine or another:\n\n  %s\n\n"+
		"and enter the code %s\n", oneLine(asked.VerificationURI), oneLine(asked.UserCode))
	granted, err := awaitUser(ctx, config, asked)
	if err != nil {
		expired := !asked.Expiry.IsZero() && !f.Now().Before(asked.Expiry)
		if expired && errors.Is(err, context.DeadlineExceeded) {
			return profile.Profile{}, errTimeout
		}
		return profile.Profile{}, clarify(ctx, err)
	}
	return f.newProfile(p, granted, "")
}

// awaitUser asks for the tokens until the user has decided. A question that got no answer is repeated, less often each
// time (RFC 8628, section 3.5): the user may be about to type the code.
func awaitUser(
	ctx context.Context, config *oauth2.Config, asked *oauth2.DeviceAuthResponse,
) (*oauth2.Token, error) {
	const usualInterval = 5 // seconds, if the identity provider names none
	for {
		granted, err := config.DeviceAccessToken(ctx, asked)
		expired := !asked.Expiry.IsZero() && time.Until(asked.Expiry) <= 0
		if err == nil || ctx.Err() != nil || expired || !isTemporary(err) {
			return granted, err
		}
		asked.Interval = 2 * cmp.Or(asked.Interval, usualInterval)
	}
}
