package webhook_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"agents.example/controlplane/shared/webhook"
)

func secretsOf(t *testing.T, key string) webhook.Secrets {
	t.Helper()
	s, err := webhook.NewSecrets(bytes.Repeat([]byte(key), webhook.MinKeyBytes))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func secretOf(t *testing.T, s webhook.Secrets, w webhook.Webhook) webhook.Secret {
	t.Helper()
	secret, err := s.Of(w)
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

// TestSecret_SignsAsTheStandardSays verifies with the library of Standard Webhooks, as receivers do.
func TestSecret_SignsAsTheStandardSays(t *testing.T) {
	t.Parallel()
	secret := secretOf(t, secretsOf(t, "k"), webhook.Webhook{ID: "w", SecretVersion: 1})
	receiver, err := standardwebhooks.NewWebhook(secret.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	now, body := time.Now(), []byte(`{"type":"agent.running"}`)
	headers := http.Header{}
	headers.Set("webhook-id", "event-1")
	headers.Set("webhook-timestamp", strconv.FormatInt(now.Unix(), 10))
	headers.Set("webhook-signature", secret.Sign("event-1", now, body))
	if err := receiver.Verify(body, headers); err != nil {
		t.Errorf("a receiver refuses the signature: %v", err)
	}
	if receiver.Verify(append(body, ' '), headers) == nil {
		t.Error("a receiver accepts the signature of another body")
	}
	headers.Set("webhook-id", "event-2")
	if receiver.Verify(body, headers) == nil {
		t.Error("a receiver accepts the signature of another event")
	}
}

func TestSecrets_DifferByWebhookVersionAndKey(t *testing.T) {
	t.Parallel()
	one := webhook.Webhook{ID: "one", SecretVersion: 1}
	seen := map[string]string{}
	for name, secret := range map[string]webhook.Secret{
		"one":           secretOf(t, secretsOf(t, "k"), one),
		"other webhook": secretOf(t, secretsOf(t, "k"), webhook.Webhook{ID: "other", SecretVersion: 1}),
		"next version":  secretOf(t, secretsOf(t, "k"), webhook.Webhook{ID: "one", SecretVersion: 2}),
		"other key":     secretOf(t, secretsOf(t, "l"), one),
	} {
		text := secret.Reveal()
		if other, ok := seen[text]; ok {
			t.Errorf("%s and %s have the same secret", name, other)
		}
		seen[text] = name
		encoded, ok := strings.CutPrefix(text, "whsec_")
		if raw, err := base64.StdEncoding.DecodeString(encoded); !ok || err != nil || len(raw) != 32 {
			t.Errorf("%s: the secret is not whsec_ and 32 bytes in base64", name)
		}
	}
	if again := secretOf(t, secretsOf(t, "k"), one).Reveal(); seen[again] != "one" {
		t.Error("the same webhook has another secret when it is derived again")
	}
}

// received reports whether a receiver with a secret verifies a delivery, as the library of Standard Webhooks does.
func received(t *testing.T, secret webhook.Secret, w webhook.Webhook, s webhook.Secrets, at time.Time) bool {
	t.Helper()
	receiver, err := standardwebhooks.NewWebhook(secret.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	signing, err := s.Signing(w, at)
	if err != nil {
		t.Fatal(err)
	}
	m := webhook.Message{ID: "event-1", At: time.Now(), Body: []byte(`{}`), Secrets: signing}
	headers := http.Header{}
	headers.Set("webhook-id", m.ID)
	headers.Set("webhook-timestamp", strconv.FormatInt(m.At.Unix(), 10))
	headers.Set("webhook-signature", m.Signature())
	return receiver.Verify(m.Body, headers) == nil
}

// TestSigning_ReceiversVerifyDuringAChangeOfTheKey runs the steps of a change. At each of them, workers and routes of
// the step before may still run: the secrets that these show must be signed with, too.
func TestSigning_ReceiversVerifyDuringAChangeOfTheKey(t *testing.T) {
	t.Parallel()
	one, two := secretsOf(t, "k"), secretsOf(t, "l")
	w, now := webhook.Webhook{ID: "w", SecretVersion: 1}, time.Now()
	steps := []webhook.Secrets{one, one.AlsoSigning(two), two.AlsoSigning(webhook.Secrets{}, one), two}
	for i, signs := range steps {
		for j := max(i-1, 0); j <= min(i+1, len(steps)-1); j++ {
			if !received(t, secretOf(t, steps[j], w), w, signs, now) {
				t.Errorf("a worker of step %d does not sign with the secret that step %d shows", i, j)
			}
		}
		if last := i == len(steps)-1; !last && !received(t, secretOf(t, one, w), w, signs, now) {
			t.Errorf("step %d cuts off receivers that did not take the new secret", i)
		}
	}
	if received(t, secretOf(t, one, w), w, two, now) {
		t.Error("after the change, the former key still signs")
	}
	if _, err := (webhook.Secrets{}).AlsoSigning(one).Of(w); err == nil {
		t.Error("without a present key, a secret derives from another one")
	}
}

// rotations are a webhook and the secrets that it has had.
type rotations struct {
	w       webhook.Webhook
	secrets webhook.Secrets
	had     []webhook.Secret
}

func rotating(t *testing.T) *rotations {
	t.Helper()
	r := &rotations{w: webhook.Webhook{ID: "w", SecretVersion: 1}, secrets: secretsOf(t, "k")}
	r.had = []webhook.Secret{secretOf(t, r.secrets, r.w)}
	return r
}

func (r *rotations) rotate(t *testing.T, at time.Time, keep time.Duration) {
	t.Helper()
	r.w.RotateSecret(at, keep)
	r.had = append(r.had, secretOf(t, r.secrets, r.w))
}

// want compares the numbers of the secrets that receivers verify with, the first of which is 0.
func (r *rotations) want(t *testing.T, at time.Time, signing ...int) {
	t.Helper()
	var got []int
	for i, secret := range r.had {
		if received(t, secret, r.w, r.secrets, at) {
			got = append(got, i)
		}
	}
	if !slices.Equal(got, signing) {
		t.Errorf("receivers verify with the secrets %v, want %v", got, signing)
	}
}

// TestSigning_ReceiversVerifyForADayAfterARotation holds it also for a client that lost the answer with a new secret.
// No rotation makes a former secret sign for longer: one that has leaked ends, also if its owner rotates every hour.
func TestSigning_ReceiversVerifyForADayAfterARotation(t *testing.T) {
	t.Parallel()
	const day = webhook.MaxFormerLifetime
	start := time.Now()
	after := func(d time.Duration) time.Time { return start.Add(d) }
	r := rotating(t)
	r.rotate(t, start, day)
	r.want(t, after(0), 0, 1)
	r.rotate(t, after(time.Hour), day) // the answer with secret 1 was lost
	r.want(t, after(day-1), 0, 1, 2)
	r.want(t, after(day), 1, 2)
	r.want(t, after(day+time.Hour), 2)
	r.rotate(t, after(day), day)
	r.want(t, after(day+time.Hour-1), 1, 2, 3)
	r.want(t, after(day+time.Hour), 2, 3)
	r.want(t, after(2*day), 3)
	for range 20 {
		r.rotate(t, after(3*day), day)
	}
	r.want(t, after(3*day), 20, 21, 22, 23)
}

func TestRotateSecret_EndsFormerSecretsWhenItShould(t *testing.T) {
	t.Parallel()
	const day = webhook.MaxFormerLifetime
	start := time.Now()
	r := rotating(t)
	r.rotate(t, start, day)
	r.rotate(t, start.Add(time.Minute), time.Hour)
	r.want(t, start.Add(time.Hour), 0, 1, 2)
	r.want(t, start.Add(time.Hour+time.Minute), 2)
	r.rotate(t, start.Add(2*time.Hour), day)
	r.rotate(t, start.Add(3*time.Hour), 0)
	r.want(t, start.Add(3*time.Hour), 4)
	if since := r.w.PresentSecretSince(); !since.Equal(start.Add(3 * time.Hour)) {
		t.Errorf("the present secret is from %s, want %s", since, start.Add(3*time.Hour))
	}
}

// TestRotateSecret_ReadsFormerReleases: a former release counts the secrets that sign, and has one end for all of them.
func TestRotateSecret_ReadsFormerReleases(t *testing.T) {
	t.Parallel()
	const day = webhook.MaxFormerLifetime
	start := time.Now()
	r := rotating(t)
	r.rotate(t, start, day)
	// The former release rotates, and leaves what it does not know as it is.
	r.w.SecretVersion++
	r.w.FormerSecrets, r.w.FormerSecretsUntil = 2, start.Add(time.Hour+day)
	r.had = append(r.had, secretOf(t, r.secrets, r.w))
	r.want(t, start.Add(day-1), 0, 1, 2)
	r.want(t, start.Add(day), 1, 2)
	if since := r.w.PresentSecretSince(); !since.Equal(start.Add(time.Hour)) {
		t.Errorf("the present secret is from %s, want %s", since, start.Add(time.Hour))
	}
	r.rotate(t, start.Add(2*time.Hour), day)
	r.want(t, start.Add(day-1), 0, 1, 2, 3)
	r.want(t, start.Add(day), 1, 2, 3)
	r.want(t, start.Add(day+time.Hour), 2, 3)
}

func TestSecrets_RefuseAShortKey(t *testing.T) {
	t.Parallel()
	const short = "Y2FuYXJ5LWNhbmFyeQ==" // canary-canary
	for _, value := range []string{short, "canary!"} {
		var s webhook.Secrets
		if err := s.EnvDecode(value); err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("EnvDecode(%q) = %v, want an error without the value", value, err)
		}
		if _, err := s.Of(webhook.Webhook{ID: "w"}); err == nil {
			t.Error("a secret was derived without a key")
		}
	}
	var s webhook.Secrets
	if err := s.EnvDecode(base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("k"), 32))); err != nil {
		t.Fatal(err)
	}
	if got, want := secretOf(t, s, webhook.Webhook{ID: "w"}).Reveal(),
		secretOf(t, secretsOf(t, "k"), webhook.Webhook{ID: "w"}).Reveal(); got != want {
		t.Error("the configured key derives another secret than the same bytes")
	}
}

func TestSecret_IsNeverPrinted(t *testing.T) {
	t.Parallel()
	s := secretsOf(t, "k")
	secret := secretOf(t, s, webhook.Webhook{ID: "w"})
	raw, encoded := string(secret), strings.TrimPrefix(secret.Reveal(), "whsec_")
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		text := fmt.Sprintf(verb+verb, s, secret)
		if strings.Contains(text, raw) || strings.Contains(text, encoded) || strings.Contains(text, "kkkk") {
			t.Errorf("%s prints a secret", verb)
		}
	}
	printed, err := json.Marshal(struct{ S webhook.Secrets }{s})
	if err != nil || strings.Contains(string(printed), "kkkk") {
		t.Errorf("JSON of the secrets = %s, %v", printed, err)
	}
}
