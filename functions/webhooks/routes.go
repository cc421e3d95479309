// Package webhooks has the routes of an organization's webhooks. It does not send anything to receivers: workers do,
// also for tests and repeated deliveries.
package webhooks

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/google/uuid"

	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/event"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/logevent"
	"agents.example/controlplane/shared/page"
	"agents.example/controlplane/shared/webhook"
)

// Service is what the routes work with.
type Service struct {
	Store   webhook.Store
	Nudger  webhook.Nudger
	Secrets webhook.SecretSource
	Policy  webhook.URLPolicy
}

const prefix = "/api/v1/webhooks"

// description is a text for people.
type description string

// JSONSchema implements function.Schemer.
func (description) JSONSchema() *jsonschema.Schema { return function.Text(0, 200) }

// receiverURL is the URL of a receiver.
type receiverURL string

// JSONSchema implements function.Schemer.
func (receiverURL) JSONSchema() *jsonschema.Schema {
	most := webhook.MaxURLBytes
	return &jsonschema.Schema{Type: "string", MaxLength: &most}
}

type createInput struct {
	Body struct {
		URL         receiverURL  `json:"url" jsonschema:"The receiver: an https URL with a public host name. Redirects are not followed."`
		Types       []event.Type `json:"types,omitempty" jsonschema:"The types of the events to deliver; all by default."`
		Description description  `json:"description,omitempty" jsonschema:"A text for people."`
	} `json:"body"`
}

// Example implements function.Exampler.
func (createInput) Example() any {
	var in createInput
	in.Body.URL, in.Body.Description = "https://hooks.example.com/agents", "Incidents"
	return in
}

// Create creates a webhook. Its answer is the only one that shows the signing secret.
func Create(s Service) function.Route {
	return function.Route{
		Name: "CreateWebhook", Method: http.MethodPost, Path: prefix,
		Access: function.Admin, Needs: []function.Need{function.Firestore, function.WebhookSign},
		// Conflict: the plan has no room for another webhook.
		Status: http.StatusCreated, Summary: "Create a webhook", Errors: []fault.Kind{fault.Conflict},
		Handle: function.Handle(func(ctx context.Context, in createInput) (webhook.CreatedView, error) {
			now := time.Now().UTC()
			w := webhook.Webhook{
				ID: uuid.NewString(), URL: string(in.Body.URL), Types: distinct(in.Body.Types),
				Description: string(in.Body.Description), SecretVersion: 1,
				CreatedAt: now, UpdatedAt: now, CreatedBy: call.From(ctx).Caller.ID,
			}
			w.Enable(now)
			secret, err := s.Secrets.Of(w)
			if err != nil {
				return webhook.CreatedView{}, err
			}
			created, err := s.Store.Create(ctx, w)
			if err != nil {
				return webhook.CreatedView{}, err
			}
			v := webhook.CreatedView{View: created.Show()}
			// Another id is that of the first of repeated requests, which was shown the secret.
			if created.ID == w.ID {
				text := secret.Reveal()
				v.Secret = &text
			}
			return v, nil
		}, s.Policy.Violations),
	}
}

// distinct returns types in order, without repeats.
func distinct(types []event.Type) []event.Type {
	return slices.Compact(slices.Sorted(slices.Values(types)))
}

type listInput struct {
	Query page.Query `json:"query"`
}

// List reads a page of the organization's webhooks, newest first.
func List(s Service) function.Route {
	return function.Route{
		Name: "ListWebhooks", Method: http.MethodGet, Path: prefix,
		Access: function.Admin, Needs: []function.Need{function.Firestore},
		// BadRequest: a cursor of another list.
		Status: http.StatusOK, Summary: "List webhooks", Errors: []fault.Kind{fault.BadRequest},
		Handle: function.Handle(func(ctx context.Context, in listInput) (page.Page[webhook.View], error) {
			found, err := s.Store.List(ctx, in.Query.Request())
			found.Self = &url.URL{Path: prefix, RawQuery: in.Query.Values().Encode()}
			return page.Map(found, webhook.Webhook.Show), err
		}),
	}
}

type path struct {
	WebhookID function.UUID `json:"webhook_id" jsonschema:"The webhook's id."`
}

type webhookInput struct {
	Path path `json:"path"`
}

// Get reads a webhook.
func Get(s Service) function.Route {
	return function.Route{
		Name: "GetWebhook", Method: http.MethodGet, Path: prefix + "/{webhook_id}",
		Access: function.Admin, Needs: []function.Need{function.Firestore},
		Status: http.StatusOK, Summary: "Get a webhook",
		Handle: function.Handle(func(ctx context.Context, in webhookInput) (webhook.View, error) {
			w, err := s.Store.Get(ctx, string(in.Path.WebhookID))
			return w.Show(), err
		}),
	}
}

type updateInput struct {
	Path path `json:"path"`
	Body struct {
		URL         *receiverURL  `json:"url,omitempty" jsonschema:"The receiver: an https URL with a public host name."`
		Types       *[]event.Type `json:"types,omitempty" jsonschema:"The types of the events to deliver; empty for all."`
		Description *description  `json:"description,omitempty" jsonschema:"A text for people."`
		Enabled     *bool         `json:"enabled,omitempty" jsonschema:"False stops the deliveries. True continues with the first event that was not delivered, as far as events are kept: 30 days."`
	} `json:"body"`
}

// Example implements function.Exampler.
func (updateInput) Example() any {
	var in updateInput
	enabled := true
	in.Path.WebhookID, in.Body.Enabled = "5d0e4a8e-3c1b-4f5e-9b5a-0c7d2e9f6a41", &enabled
	return in
}

// Update changes the fields that the body names.
func Update(s Service) function.Route {
	return function.Route{
		Name: "UpdateWebhook", Method: http.MethodPatch, Path: prefix + "/{webhook_id}",
		Access: function.Admin, Needs: []function.Need{function.Firestore, function.NudgeWebhooks},
		Status: http.StatusOK, Summary: "Update a webhook",
		Handle: function.Handle(func(ctx context.Context, in updateInput) (webhook.View, error) {
			w, err := s.change(ctx, in.Path, func(w *webhook.Webhook) (*webhook.Delivery, error) {
				in.apply(w, time.Now().UTC())
				return nil, nil
			})
			return w.Show(), err
		}, s.Policy.Violations),
	}
}

func (in updateInput) apply(w *webhook.Webhook, now time.Time) {
	b := in.Body
	if b.URL != nil {
		w.SetURL(string(*b.URL), now)
	}
	if b.Types != nil {
		w.Types = distinct(*b.Types)
	}
	if b.Description != nil {
		w.Description = string(*b.Description)
	}
	switch {
	case b.Enabled == nil:
	case *b.Enabled:
		w.Enable(now)
	default:
		w.Disable(webhook.DisabledByRequest)
	}
	w.UpdatedAt = now
}

// change applies a change and nudges the webhook.
func (s Service) change(ctx context.Context, p path, change func(*webhook.Webhook) (*webhook.Delivery, error)) (
	webhook.Webhook, error,
) {
	w, err := s.Store.Change(ctx, string(p.WebhookID), change)
	if err != nil {
		return webhook.Webhook{}, err
	}
	if err := s.Nudger.NudgeWebhook(ctx, w.ID); err != nil {
		slog.WarnContext(ctx, "nudge could not be published; the sweep will publish it", logevent.Key,
			logevent.NudgeNotPublished, "webhook_id", w.ID, "error", err)
	}
	return w, nil
}

type rotateInput struct {
	Path path `json:"path"`
	// Body may be absent, which keeps the former secret for a day.
	Body struct {
		KeepFormer keptSeconds `json:"keep_former_seconds,omitempty" jsonschema:"For how long deliveries are signed with the former secret, too. No former secret signs for longer than that. 0 ends all of them now: if one is known to others, and at the price that the receiver refuses deliveries until it has the new one."`
	} `json:"body,omitempty"`
}

// Example implements function.Exampler.
func (rotateInput) Example() any { return rotateInput{} }

// keptSeconds is a number of seconds that is a day when a request leaves it out. A pointer would accept null, too.
type keptSeconds struct{ less time.Duration }

// JSONSchema implements function.Schemer.
func (keptSeconds) JSONSchema() *jsonschema.Schema {
	most := webhook.MaxFormerLifetime.Seconds()
	return function.Integer(0, most, most)
}

// UnmarshalJSON implements json.Unmarshaler.
func (k *keptSeconds) UnmarshalJSON(b []byte) error {
	var seconds int64
	err := json.Unmarshal(b, &seconds)
	k.less = webhook.MaxFormerLifetime - time.Duration(seconds)*time.Second
	return err
}

// MarshalJSON implements json.Marshaler, for the example.
func (k keptSeconds) MarshalJSON() ([]byte, error) {
	return json.Marshal(int64(k.duration().Seconds()))
}

func (k keptSeconds) duration() time.Duration { return webhook.MaxFormerLifetime - k.less }

// RotateSecret gives a webhook a new secret. Its answer is the only one that shows it.
func RotateSecret(s Service) function.Route {
	return function.Route{
		Name: "RotateWebhookSecret", Method: http.MethodPost, Path: prefix + "/{webhook_id}/rotate-secret",
		Access: function.Admin, Needs: []function.Need{function.Firestore, function.WebhookSign},
		Status: http.StatusOK, Summary: "Rotate the secret of a webhook",
		Handle: function.Handle(func(ctx context.Context, in rotateInput) (webhook.RotatedView, error) {
			w, err := s.Store.Change(ctx, string(in.Path.WebhookID),
				func(w *webhook.Webhook) (*webhook.Delivery, error) {
					w.RotateSecret(time.Now().UTC(), in.Body.KeepFormer.duration())
					return nil, nil
				})
			if err != nil {
				return webhook.RotatedView{}, err
			}
			v := webhook.RotatedView{View: w.Show(), FormerSecretsUntil: w.FormerSecretsUntil.UTC()}
			// The first of repeated requests was shown the secret.
			if call.From(ctx).Attempt.Replayed() {
				return v, nil
			}
			secret, err := s.Secrets.Of(w)
			if err != nil {
				return webhook.RotatedView{}, err
			}
			text := secret.Reveal()
			v.Secret = &text
			return v, nil
		}),
	}
}

// Delete removes a webhook. Its secret ends with it.
func Delete(s Service) function.Route {
	return function.Route{
		Name: "DeleteWebhook", Method: http.MethodDelete, Path: prefix + "/{webhook_id}",
		Access: function.Admin, Needs: []function.Need{function.Firestore},
		Status: http.StatusNoContent, Summary: "Delete a webhook",
		Handle: function.Handle(func(ctx context.Context, in webhookInput) (function.None, error) {
			return function.None{}, s.Store.Delete(ctx, string(in.Path.WebhookID))
		}),
	}
}
