package webhook_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
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

// TestSigning_ReceiversVerifyForADayAfterARotation holds it also for a client that lost the answer with a new secret.
func TestSigning_ReceiversVerifyForADayAfterARotation(t *testing.T) {
	t.Parallel()
	s, now := secretsOf(t, "k"), time.Now()
	w := webhook.Webhook{ID: "w", SecretVersion: 1}
	first := secretOf(t, s, w)
	w.RotateSecret(now)
	lost := secretOf(t, s, w)
	w.RotateSecret(now.Add(time.Hour))
	present := secretOf(t, s, w)
	for name, row := range map[string]struct {
		secret webhook.Secret
		after  time.Duration
		want   bool
	}{
		"the first one after a day":      {secret: first, after: 25*time.Hour - 1, want: true},
		"the first one later":            {secret: first, after: 25 * time.Hour},
		"the one that was lost":          {secret: lost, after: time.Hour, want: true},
		"the present one immediately":    {secret: present, after: time.Hour, want: true},
		"the present one after two days": {secret: present, after: 48 * time.Hour, want: true},
	} {
		if got := received(t, row.secret, w, s, now.Add(row.after)); got != row.want {
			t.Errorf("%s: a receiver verifies: %t, want %t", name, got, row.want)
		}
	}
	w.RotateSecret(now.Add(48 * time.Hour))
	if !received(t, present, w, s, now.Add(49*time.Hour)) || received(t, lost, w, s, now.Add(49*time.Hour)) {
		t.Error("after the next rotation, secrets that had ended sign again, or the last one does not")
	}
	for range 20 {
		w.RotateSecret(now.Add(50 * time.Hour))
	}
	if signing, err := s.Signing(w, now.Add(50*time.Hour)); err != nil || len(signing) != 5 {
		t.Errorf("after many rotations %d secrets sign (%v), want 5", len(signing), err)
	}
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
