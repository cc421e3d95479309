package webhook

import "time"

const (
	// MaxFormerLifetime is how long deliveries are signed with a former secret, too, after another one replaced it.
	MaxFormerLifetime = 24 * time.Hour
	// maxFormerSecrets bounds the signatures of a delivery. It is more than one, because a client that loses the
	// answer with the new secret has to rotate again, and its receiver still has the first one.
	maxFormerSecrets = 3
)

// SecretEnd says until when a former secret signs deliveries.
type SecretEnd struct {
	// Version is the SecretVersion of the webhook that had the secret.
	Version int64
	Until   time.Time
}

// RotateSecret gives the webhook a new secret. Its present one signs deliveries for as long as keep says, and no former
// one signs for longer than before: a secret that has leaked ends, however often the webhook is rotated.
func (w *Webhook) RotateSecret(now time.Time, keep time.Duration) {
	until := now.Add(keep)
	ends := []SecretEnd{{Version: w.SecretVersion, Until: until}}
	for _, e := range w.formerSecrets(now) {
		if len(ends) < maxFormerSecrets {
			ends = append(ends, SecretEnd{Version: e.Version, Until: earlier(e.Until, until)})
		}
	}
	w.FormerSecrets, w.FormerSecretsUntil, w.FormerSecretEnds = int64(len(ends)), until, ends
	w.SecretVersion++
	w.SecretSince, w.UpdatedAt = now, now
}

// formerSecrets returns the former secrets that sign deliveries at a time, from the latest to the first.
func (w Webhook) formerSecrets(now time.Time) []SecretEnd {
	var signing []SecretEnd
	for former := range w.FormerSecrets {
		end := SecretEnd{Version: w.SecretVersion - 1 - former, Until: w.FormerSecretsUntil}
		for _, e := range w.FormerSecretEnds {
			if e.Version == end.Version {
				end.Until = earlier(e.Until, end.Until)
			}
		}
		if now.Before(end.Until) {
			signing = append(signing, end)
		}
	}
	return signing
}

// PresentSecretSince returns when the present secret was made.
func (w Webhook) PresentSecretSince() time.Time {
	since := w.CreatedAt
	if w.SecretSince.After(since) {
		since = w.SecretSince
	}
	// A former release keeps each secret for a day, and knows of no other time.
	if made := w.FormerSecretsUntil.Add(-MaxFormerLifetime); made.After(since) {
		since = made
	}
	return since
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
