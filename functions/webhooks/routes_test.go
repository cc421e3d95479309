package webhooks_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/functions/backendtest"
	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/functions/webhooks"
	"agents.example/controlplane/functions/workers"
	"agents.example/controlplane/shared/event"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/webhook"
)

const unknownID = "00000000-0000-4000-8000-000000000000"

// service is what the catalogue gives the routes.
func service(b *backendtest.Backend) webhooks.Service {
	return webhooks.Service{
		Store: b.Webhooks, Nudger: b.WebhookNudger, Secrets: b.WebhookSecrets, Policy: b.WebhookURLs,
	}
}

func create(t *testing.T, b *backendtest.Backend, options ...functiontest.Option) functiontest.Response {
	t.Helper()
	body := map[string]any{"url": "https://hooks.example.com/x", "description": " Incidents "}
	options = append([]functiontest.Option{functiontest.AsAdmin("org-1"), functiontest.Body(body)}, options...)
	return b.Call(t, webhooks.Create(service(b)), options...)
}

// call calls a route of one webhook.
func call(t *testing.T, b *backendtest.Backend, r function.Route, id string, options ...functiontest.Option,
) functiontest.Response {
	t.Helper()
	options = append([]functiontest.Option{
		functiontest.AsAdmin("org-1"), functiontest.Path("webhook_id", id),
	}, options...)
	return b.Call(t, r, options...)
}

// deliver runs the worker on a webhook.
func deliver(t *testing.T, b *backendtest.Backend, id string) {
	t.Helper()
	w := workers.Deliver(&webhook.Deliverer{
		Store: b.WebhookWorkerStore, Events: b.WebhookEvents, Sender: b.WebhookSender, Secrets: b.WebhookSecrets,
		Nudger: b.WebhookNudger, Now: time.Now, Random: rand.Float64,
	})
	if err := w.Handle(t.Context(), function.Message{Data: []byte(`{"webhook_id": "` + id + `"}`)}); err != nil {
		t.Fatal(err)
	}
}

func TestRoutes_AreForAdmins(t *testing.T) {
	t.Parallel()
	var s webhooks.Service
	for _, r := range []function.Route{
		webhooks.List(s), webhooks.Create(s), webhooks.Get(s), webhooks.Update(s), webhooks.Delete(s),
		webhooks.RotateSecret(s), webhooks.Test(s), webhooks.Deliveries(s), webhooks.Redeliver(s),
	} {
		functiontest.CheckRefusals(t, r, function.Admin, functiontest.Path("webhook_id", unknownID),
			functiontest.Path("delivery_id", unknownID))
	}
}

func TestCreate_ShowsTheSecretOnce(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	key := functiontest.Header("Idempotency-Key", "once")
	res := create(t, b, key).Want(t, http.StatusCreated, "")
	secret := res.Text("secret")
	if !strings.HasPrefix(secret, "whsec_") || len(secret) != len("whsec_")+44 {
		t.Errorf("the secret has the wrong form (%d characters)", len(secret))
	}
	if res.Text("description") != "Incidents" || res.Text("status") != "enabled" {
		t.Errorf("the answer is %s", res.Body)
	}
	again := create(t, b, key).Want(t, http.StatusCreated, "")
	if again.JSON["secret"] != nil || again.Text("id") != res.Text("id") {
		t.Errorf("the repeated request answers %s, want the same webhook without its secret", again.Body)
	}
	shown := call(t, b, webhooks.Get(service(b)), res.Text("id")).Want(t, http.StatusOK, "")
	listed := b.Call(t, webhooks.List(service(b)), functiontest.AsAdmin("org-1"))
	if strings.Contains(string(shown.Body)+string(listed.Body), secret) {
		t.Error("a later answer shows the secret")
	}
}

func TestRotateSecret_ShowsTheNewSecretOnce(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	created := create(t, b)
	id, key := created.Text("id"), functiontest.Header("Idempotency-Key", "rotate")
	res := call(t, b, webhooks.RotateSecret(service(b)), id, key).Want(t, http.StatusOK, "")
	secret := res.Text("secret")
	if !strings.HasPrefix(secret, "whsec_") || secret == created.Text("secret") || res.Text("id") != id {
		t.Errorf("the answer has another id, or no new secret: %s of %s", res.Text("id"), id)
	}
	until, err := time.Parse(time.RFC3339, res.Text("former_secrets_until"))
	if left := time.Until(until); err != nil || left < 23*time.Hour || left > 24*time.Hour {
		t.Errorf("the former secret signs until %s, want for 24 hours", res.Text("former_secrets_until"))
	}
	again := call(t, b, webhooks.RotateSecret(service(b)), id, key).Want(t, http.StatusOK, "")
	if again.JSON["secret"] != nil || again.Text("former_secrets_until") != res.Text("former_secrets_until") {
		t.Errorf("the repeated request answers %s, want the same without the secret", again.Body)
	}
	next := call(t, b, webhooks.RotateSecret(service(b)), id).Want(t, http.StatusOK, "").Text("secret")
	if next == "" || next == secret {
		t.Error("another request shows no new secret")
	}
	call(t, b, webhooks.RotateSecret(service(b)), unknownID).Want(t, http.StatusNotFound, "webhook_not_found")
}

func TestRotateSecret_KeepsTheFormerOneForAsLongAsTheBodySays(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	id := create(t, b).Text("id")
	rotate := func(body any) functiontest.Response {
		return call(t, b, webhooks.RotateSecret(service(b)), id, functiontest.Body(body))
	}
	for _, row := range []struct {
		body any
		want time.Duration
	}{
		{body: map[string]any{}, want: 24 * time.Hour},
		{body: map[string]any{"keep_former_seconds": 86_400}, want: 24 * time.Hour},
		{body: map[string]any{"keep_former_seconds": 3600}, want: time.Hour},
		{body: map[string]any{"keep_former_seconds": 0}, want: 0},
	} {
		until, err := time.Parse(time.RFC3339, rotate(row.body).Want(t, http.StatusOK, "").Text("former_secrets_until"))
		if left := time.Until(until); err != nil || left > row.want || left < row.want-time.Minute {
			t.Errorf("%v: the former secret signs for %s (%v), want %s", row.body, left, err, row.want)
		}
	}
	for _, seconds := range []any{-1, 86_401, 0.5, "day", nil} {
		rotate(map[string]any{"keep_former_seconds": seconds}).
			Want(t, http.StatusUnprocessableEntity, "validation_error")
	}
}

func TestCreate_RefusesURLsThatAreNotPublic(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	for _, raw := range []string{"http://hooks.example.com/", "https://169.254.169.254/", "https://localhost/"} {
		res := create(t, b, functiontest.Body(map[string]any{"url": raw})).
			Want(t, http.StatusUnprocessableEntity, "validation_error")
		if !strings.Contains(string(res.Body), `"url"`) {
			t.Errorf("%s: the answer is %s, want an entry for url", raw, res.Body)
		}
		id := create(t, b).Text("id")
		call(t, b, webhooks.Update(service(b)), id, functiontest.Body(map[string]any{"url": raw})).
			Want(t, http.StatusUnprocessableEntity, "validation_error")
		call(t, b, webhooks.Delete(service(b)), id).Want(t, http.StatusNoContent, "")
	}
	unknown := map[string]any{"url": "https://a.example.com/", "types": []string{"agent.error", "agent.exploded"}}
	res := create(t, b, functiontest.Body(unknown)).Want(t, http.StatusUnprocessableEntity, "validation_error")
	if !strings.Contains(string(res.Body), `["body","types",1]`) {
		t.Errorf("the answer is %s, want an entry for the second type", res.Body)
	}
}

func TestCreate_StopsAtTheLimitOfThePlan(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	for range 5 {
		create(t, b).Want(t, http.StatusCreated, "")
	}
	res := create(t, b).Want(t, http.StatusConflict, "webhook_limit_reached")
	if got := fmt.Sprint(res.JSON["meta"]); got != "map[current:5 max:5]" {
		t.Errorf("meta = %s, want current and max 5", got)
	}
}

func TestUpdate_ChangesOnlyWhatTheBodyNames(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	id := create(t, b).Text("id")
	update := func(body map[string]any) functiontest.Response {
		return call(t, b, webhooks.Update(service(b)), id, functiontest.Body(body)).Want(t, http.StatusOK, "")
	}
	res := update(map[string]any{"enabled": false, "types": []string{"agent.error"}})
	if res.Text("status") != "disabled" || res.Text("disabled_reason") != "requested" ||
		res.Text("url") != "https://hooks.example.com/x" || fmt.Sprint(res.JSON["types"]) != "[agent.error]" {
		t.Errorf("after the first change: %s", res.Body)
	}
	res = update(map[string]any{"enabled": true, "url": "https://other.example.com/"})
	if res.Text("status") != "enabled" || res.JSON["disabled_reason"] != nil ||
		res.Text("url") != "https://other.example.com/" || fmt.Sprint(res.JSON["types"]) != "[agent.error]" {
		t.Errorf("after the second change: %s", res.Body)
	}
}

func TestDelete_RemovesTheWebhook(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	id := create(t, b).Text("id")
	call(t, b, webhooks.Delete(service(b)), id).Want(t, http.StatusNoContent, "")
	call(t, b, webhooks.Get(service(b)), id).Want(t, http.StatusNotFound, "webhook_not_found")
	call(t, b, webhooks.Delete(service(b)), id).Want(t, http.StatusNotFound, "webhook_not_found")
	deliver(t, b, id) // a late nudge has no effect
}

func TestRoutes_HideTheWebhooksOfOtherOrganizations(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	s, id := service(b), create(t, b).Text("id")
	delivery := call(t, b, webhooks.Test(s), id).Want(t, http.StatusAccepted, "").Text("id")
	for _, r := range []function.Route{
		webhooks.Get(s), webhooks.Update(s), webhooks.Delete(s), webhooks.Test(s), webhooks.Deliveries(s),
		webhooks.Redeliver(s),
	} {
		options := []functiontest.Option{functiontest.AsAdmin("org-2")}
		if strings.Contains(r.Path, "{delivery_id}") {
			options = append(options, functiontest.Path("delivery_id", delivery))
		}
		if r.Method == http.MethodPatch {
			options = append(options, functiontest.Body(map[string]any{"enabled": false}))
		}
		if res := call(t, b, r, id, options...); res.Status != http.StatusNotFound {
			t.Errorf("%s answers %d to another organization, want 404", r.Name, res.Status)
		}
	}
}

func TestTest_DeliversATestEventThatCanBeRepeated(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	s, id := service(b), create(t, b).Text("id")
	requested := call(t, b, webhooks.Test(s), id).Want(t, http.StatusAccepted, "")
	if requested.Text("status") != "pending" || requested.Text("event_type") != "webhook.test" {
		t.Errorf("the answer is %s, want a pending test", requested.Body)
	}
	delivery := functiontest.Path("delivery_id", requested.Text("id"))
	call(t, b, webhooks.Redeliver(s), id, delivery).Want(t, http.StatusConflict, "delivery_pending")
	for attempts := 1; attempts <= 2; attempts++ {
		deliver(t, b, id)
		var listed []webhook.DeliveryView
		call(t, b, webhooks.Deliveries(s), id).Want(t, http.StatusOK, "").Decode(t, &listed)
		if len(listed) != 1 || listed[0].Status != webhook.Succeeded || len(listed[0].Attempts) != attempts {
			t.Fatalf("deliveries %+v, want one with %d attempts that succeeded", listed, attempts)
		}
		if attempts == 1 {
			call(t, b, webhooks.Redeliver(s), id, delivery).Want(t, http.StatusAccepted, "")
		}
	}
	call(t, b, webhooks.Redeliver(s), id, functiontest.Path("delivery_id", unknownID)).
		Want(t, http.StatusNotFound, "delivery_not_found")
}

// A run commits an attempt while a client requests the delivery again: the attempt stays recorded.
func TestRedeliver_KeepsTheAttemptsOfARunInBetween(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	s, id := service(b), create(t, b).Text("id")
	test := call(t, b, webhooks.Test(s), id).Want(t, http.StatusAccepted, "").Text("id")
	deliver(t, b, id)
	s.Store = &racingStore{Store: s.Store, between: func() {
		call(t, b, webhooks.Redeliver(service(b)), id, functiontest.Path("delivery_id", test)).
			Want(t, http.StatusAccepted, "")
		deliver(t, b, id)
	}}
	res := call(t, b, webhooks.Redeliver(s), id, functiontest.Path("delivery_id", test)).
		Want(t, http.StatusAccepted, "")
	var d webhook.DeliveryView
	if res.Decode(t, &d); d.Status != webhook.Pending || len(d.Attempts) != 2 {
		t.Errorf("the delivery is %s with %d attempts, want pending with 2", d.Status, len(d.Attempts))
	}
}

// racingStore calls between after the first read of a delivery.
type racingStore struct {
	webhook.Store
	between func()
}

// Delivery implements webhook.Store.
func (s *racingStore) Delivery(ctx context.Context, webhookID, deliveryID string) (webhook.Delivery, error) {
	d, err := s.Store.Delivery(ctx, webhookID, deliveryID)
	if between := s.between; between != nil {
		s.between = nil
		between()
	}
	return d, err
}

// nudges records which webhooks are nudged, with an error if there is one.
type nudges struct {
	ids []string
	err error
}

// NudgeWebhook implements webhook.Nudger.
func (n *nudges) NudgeWebhook(_ context.Context, id string) error {
	n.ids = append(n.ids, id)
	return n.err
}

// What a client changes takes effect without the sweep. The change itself does not depend on the nudge.
func TestRoutes_NudgeTheWebhookThatTheyChange(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{"published": nil, "not published": errors.New("no publisher")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := backendtest.New(t)
			published := &nudges{err: err}
			s, id := service(b), create(t, b).Text("id")
			s.Nudger = published
			test := call(t, b, webhooks.Test(s), id).Want(t, http.StatusAccepted, "").Text("id")
			deliver(t, b, id)
			call(t, b, webhooks.Redeliver(s), id, functiontest.Path("delivery_id", test)).
				Want(t, http.StatusAccepted, "")
			call(t, b, webhooks.Update(s), id, functiontest.Body(map[string]any{"enabled": false})).
				Want(t, http.StatusOK, "")
			if want := []string{id, id, id}; !slices.Equal(published.ids, want) {
				t.Errorf("nudged %v, want %v", published.ids, want)
			}
		})
	}
}

// A new webhook delivers what happens from now on.
func TestCreate_BeginsNow(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	before := event.After(time.Now())
	w, err := b.WebhookWorkerStore.Load(t.Context(), create(t, b).Text("id"))
	if after := event.After(time.Now()); err != nil || w.Position < before || w.Position > after {
		t.Errorf("the position is %s (%v), want it between %s and %s", w.Position, err, before, after)
	}
	if w.EnabledAt.IsZero() || !w.DueAt.Equal(w.EnabledAt) {
		t.Errorf("the webhook was enabled at %v and is due at %v, want both now", w.EnabledAt, w.DueAt)
	}
}
