package cloud

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"agents.example/controlplane/emulators/issuer"
	"agents.example/controlplane/infra/firestore"
	"agents.example/controlplane/shared/client"
	"agents.example/controlplane/shared/plan"
)

// Ready has the addresses and credentials of a running cloud. The flag -ready writes it to a file.
type Ready struct {
	BaseURL                 string `json:"base_url"`
	OrganizationID          string `json:"organization_id"`
	APIKey                  string `json:"api_key"`
	AdminToken              string `json:"admin_token"`
	MemberToken             string `json:"member_token"`
	OtherOrganizationAPIKey string `json:"other_organization_api_key"`
	Issuer                  string `json:"issuer"`
	FirestoreEmulatorHost   string `json:"firestore_emulator_host"`
	PubSubEmulatorHost      string `json:"pubsub_emulator_host"`
	Kubeconfig              string `json:"kubeconfig"`
	ProjectID               string `json:"project_id"`
	// APIKeyPepper is the functions' one, with which the operator's tool makes and counts API keys.
	APIKeyPepper string `json:"api_key_pepper"`
	// StripeWebhookSecret signs Stripe's events; empty without payments.
	StripeWebhookSecret string `json:"stripe_webhook_secret,omitempty"`
}

// WriteFile writes the file atomically, so that a reader never sees half of it. Only the owner may read it, because it
// has credentials.
func (r Ready) WriteFile(path string) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".ready-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	_, err = f.Write(append(b, '\n'))
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// ReadFile reads a file that WriteFile wrote.
func ReadFile(path string) (Ready, error) {
	var r Ready
	b, err := os.ReadFile(path)
	if err != nil {
		return r, fmt.Errorf("read the description of a running cloud: %w", err)
	}
	return r, json.Unmarshal(b, &r)
}

// The two organizations of every cloud.
const (
	firstOrganization = "org_first"
	otherOrganization = "org_other"
)

// adminOf returns the admin who creates an organization, and memberOf a member.
func adminOf(organization string) issuer.Session {
	return issuer.Session{Subject: "user_of_" + organization, Organization: organization, Role: "admin"}
}

func memberOf(organization string) issuer.Session {
	return issuer.Session{Subject: "user_member", Organization: organization, Role: "member"}
}

// Admin returns the session of the first organization's admin.
func (r Ready) Admin() issuer.Session { return adminOf(r.OrganizationID) }

// ConsoleURL returns the address of the web console.
func (r Ready) ConsoleURL() string { return r.BaseURL + "/console" }

// openRecords opens the records of the cloud. The caller closes them.
func (c *Cloud) openRecords(ctx context.Context) (*firestore.Client, error) {
	return firestore.Open(ctx,
		firestore.Options{ProjectID: c.Ready.ProjectID, EmulatorHost: c.Ready.FirestoreEmulatorHost})
}

// seedOrganizations creates two organizations with an API key each, the first on the largest plan. The keys come from
// the public API.
func (c *Cloud) seedOrganizations(ctx context.Context) (err error) {
	records, err := c.openRecords(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if closing := records.Close(); err == nil {
			err = closing
		}
	}()
	c.Ready.OrganizationID = firstOrganization
	if c.Ready.AdminToken, c.Ready.APIKey, err = c.createOrganization(ctx, firstOrganization); err != nil {
		return err
	}
	if _, c.Ready.OtherOrganizationAPIKey, err = c.createOrganization(ctx, otherOrganization); err != nil {
		return err
	}
	if err := records.Directory().SetPlan(ctx, firstOrganization, plan.Enterprise); err != nil {
		return err
	}
	c.Ready.MemberToken, err = c.Issuer.Session(memberOf(firstOrganization))
	return err
}

// AddOrganization creates an organization on a plan. It returns a session token of its admin, and an API key.
func (c *Cloud) AddOrganization(ctx context.Context, id string, on plan.ID) (token, key string, err error) {
	records, err := c.openRecords(ctx)
	if err != nil {
		return "", "", err
	}
	defer func() { err = errors.Join(err, records.Close()) }()
	if token, key, err = c.createOrganization(ctx, id); err != nil {
		return "", "", err
	}
	return token, key, records.Directory().SetPlan(ctx, id, on)
}

// createOrganization signs in as the admin of a new organization and creates an API key.
func (c *Cloud) createOrganization(ctx context.Context, organization string) (token, key string, err error) {
	token, err = c.Issuer.Session(adminOf(organization))
	if err != nil {
		return "", "", err
	}
	api, err := client.New(c.Ready.BaseURL, client.StaticToken(token))
	if err != nil {
		return "", "", err
	}
	created, err := api.CreateAPIKey(ctx, client.CreateAPIKeyRequest{Name: "local development"})
	if err != nil {
		return "", "", fmt.Errorf("create an API key: %w", err)
	}
	if created.Secret == nil { // as after an answer that was lost
		return "", "", errors.New("create an API key: the answer to the repeated request has no secret")
	}
	return token, *created.Secret, nil
}
