package wire

import (
	"context"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	gcp "cloud.google.com/go/secretmanager/apiv1"
	"cloud.google.com/go/secretmanager/apiv1/secretmanagerpb"

	"agents.example/controlplane/emulators/firestoreemu/embedded"
	"agents.example/controlplane/emulators/issuer"
	"agents.example/controlplane/emulators/secretmanageremu"
	"agents.example/controlplane/functions"
	"agents.example/controlplane/functions/cmd/config"
	"agents.example/controlplane/infra/firestore"
	"agents.example/controlplane/shared/apikey"
	"agents.example/controlplane/shared/clientip"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/webhook"
)

// These tests hold that a setting reaches the client that it is for. What the setting does is tested with the client.

// cloud is the configuration of a process whose Firestore and identity provider run in this process.
func cloud(t *testing.T) (config.Common, *issuer.Issuer) {
	t.Helper()
	store, err := embedded.Start(t.Context(), embedded.Options{Indexes: firestore.Indexes()})
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, store.Close)
	idp, err := issuer.Start(t.Context(), issuer.Options{Address: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, idp.Close)
	return config.Common{
		ProjectID: "test", Environment: "test", NudgeTopic: "agent-nudges", Issuer: idp.URL(),
		Local: config.Local{FirestoreEmulator: store.Addr, PubSubEmulator: "127.0.0.1:1"},
	}, idp
}

func TestSettings_SessionsAreForTheConfiguredParties(t *testing.T) {
	t.Parallel()
	const app = "https://app.test"
	c, idp := cloud(t)
	c.AuthorizedParties = []string{app}
	o := New(context.WithoutCancel(t.Context()), c, Settings{Peppers: apikey.Peppers{Present: apikey.Pepper("pepper")}})
	closeLater(t, o.Close)
	guard, err := o.Guard()
	if err != nil {
		t.Fatal(err)
	}
	for party, wantCode := range map[string]string{app: "", "https://other.test": "invalid_token"} {
		token, err := idp.Session(issuer.Session{Subject: "ada", Claims: map[string]any{"azp": party}})
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = guard.Authenticator.Authenticate(t.Context(), identity.Attempt{Token: token})
		if fault.Code(err) != wantCode {
			t.Errorf("a token for %s: %v, want the code %q", party, err, wantCode)
		}
	}
}

func TestSettings_ConsoleKnowsItsClient(t *testing.T) {
	t.Parallel()
	common, idp := cloud(t)
	common.Target = "GetConsole"
	common.Cells = config.Cells{
		{Name: "c1", Region: "us-central1"},
		{Name: "c2", Region: "europe-west1"},
		{Name: "c3", Region: "us-west1", Closed: true},
	}
	c := config.Routes{
		Common: common, ConsoleClientID: "client-1", ConsoleScopes: "openid email",
		SupportURL: "https://support.example.com",
	}
	s, err := API(context.WithoutCancel(t.Context()), c)
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, s.Close)
	w := httptest.NewRecorder()
	s.Handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/console", nil))
	want := `data-issuer="` + idp.URL() + `" data-client-id="client-1" data-scopes="openid email" ` +
		`data-regions="us-central1,europe-west1" data-support="https://support.example.com"`
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), want) {
		t.Errorf("status %d, want 200 with %s:\n%s", w.Code, want, w.Body)
	}
}

func TestSettings_ClientsAreThoseOfTheBucket(t *testing.T) {
	t.Parallel()
	common, _ := cloud(t)
	common.Target = "GetClients"
	asked := make(chan string, 1)
	bucket := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		asked <- req.URL.Path
		_, _ = w.Write([]byte("{}"))
	}))
	t.Cleanup(bucket.Close)
	common.Local.Storage = bucket.URL
	for name, row := range map[string]struct{ bucket, want string }{
		"a bucket": {bucket: "builds-1", want: "No release has published clients yet"},
		"none":     {want: "CLIENTS_BUCKET"},
	} {
		c := config.Routes{Common: common, APIBaseURL: "https://api.test", ClientsBucket: row.bucket}
		s, err := API(context.WithoutCancel(t.Context()), c)
		if err != nil {
			t.Fatal(err)
		}
		closeLater(t, s.Close)
		w := httptest.NewRecorder()
		s.Handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/clients", nil))
		if w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), row.want) {
			t.Errorf("%s: status %d, %s; want 404 with %s", name, w.Code, w.Body, row.want)
		}
	}
	if path := <-asked; path != "/storage/v1/b/builds-1/o" {
		t.Errorf("the path of the call is %s, want the configured bucket", path)
	}
}

func TestSettings_PlansKnowWhetherThereAreBackups(t *testing.T) {
	t.Parallel()
	for _, want := range []bool{true, false} {
		o := New(context.WithoutCancel(t.Context()), config.Common{},
			RouteSettings(config.Routes{BackupForGKE: want}, Openers{}))
		closeLater(t, o.Close)
		d, err := o.For(nil)
		if err != nil || d.BackupForGKE != want {
			t.Errorf("the routes' dependencies have backups: %t, %v; want %t", d.BackupForGKE, err, want)
		}
	}
}

func TestSettings_WorkersTakeOnlyTheConfiguredPushes(t *testing.T) {
	t.Parallel()
	const audience, account = "https://worker.test", "push@test.iam.gserviceaccount.com"
	common, idp := cloud(t)
	common.Target = "SweepAgents"
	c := config.Worker{Common: common, PushIssuer: idp.URL(), PushAudience: audience, PushServiceAccount: account}
	s, err := Workers(context.WithoutCancel(t.Context()), c, Openers{})
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, s.Close)
	mint := func(audience, account string) string {
		token, err := idp.Push(audience, account)
		if err != nil {
			t.Fatal(err)
		}
		return "Bearer " + token
	}
	for name, row := range map[string]struct {
		authorization string
		want          int
	}{
		"the subscription": {mint(audience, account), http.StatusNoContent},
		"no token":         {"", http.StatusUnauthorized},
		"another audience": {mint("https://other.test", account), http.StatusUnauthorized},
		"another account":  {mint(audience, "other@test.iam.gserviceaccount.com"), http.StatusUnauthorized},
	} {
		req := httptest.NewRequest(http.MethodPost, "/workers/SweepAgents",
			strings.NewReader(`{"message": {"messageId": "1"}}`))
		if row.authorization != "" {
			req.Header.Set("Authorization", row.authorization)
		}
		w := httptest.NewRecorder()
		s.Handler.ServeHTTP(w, req)
		if w.Code != row.want {
			t.Errorf("a push from %s: status %d, want %d: %s", name, w.Code, row.want, w.Body)
		}
	}
}

func TestSettings_SecretsStayInTheirRegions(t *testing.T) {
	t.Parallel()
	server, err := secretmanageremu.Start(t.Context(), secretmanageremu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, server.Close)
	o := New(context.WithoutCancel(t.Context()), config.Common{
		ProjectID: "test", Environment: "test", Local: config.Local{SecretManager: server.Addr},
		SecretRegions: []string{"europe-west1"},
	}, Settings{})
	closeLater(t, o.Close)
	d, err := o.For([]function.Need{function.SecretAdd})
	if err != nil {
		t.Fatal(err)
	}
	const agentID = "3fa85f64-5717-4562-b3fc-2c963f66afa6"
	if _, err := d.SecretWriter.Put(t.Context(), agentID, "KEY", []byte("value")); err != nil {
		t.Fatal(err)
	}
	if got := regionsOfSecrets(t, server); !slices.Equal(got, []string{"europe-west1"}) {
		t.Errorf("the secret is stored in %v, want only europe-west1", got)
	}
}

// regionsOfSecrets lists where the project's secrets are stored.
func regionsOfSecrets(t *testing.T, server *secretmanageremu.Server) (regions []string) {
	t.Helper()
	client, err := gcp.NewClient(t.Context(), server.ClientOptions()...)
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, client.Close)
	for s, err := range client.ListSecrets(t.Context(),
		&secretmanagerpb.ListSecretsRequest{Parent: "projects/test"}).All() {
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range s.GetReplication().GetUserManaged().GetReplicas() {
			regions = append(regions, r.GetLocation())
		}
	}
	return regions
}

// TestPeppers_ReachAuthenticationAndVouchers: keys under each of them are accepted, and so are addresses that instances
// with another one report.
func TestPeppers_ReachAuthenticationAndVouchers(t *testing.T) {
	t.Parallel()
	c, _ := cloud(t)
	want := apikey.Peppers{Present: apikey.Pepper("2"), Next: apikey.Pepper("3"), Previous: apikey.Pepper("1")}
	s := RouteSettings(config.Routes{Peppers: config.Peppers{
		Pepper: want.Present, NextPepper: want.Next, PreviousPepper: want.Previous,
	}}, Openers{})
	if !reflect.DeepEqual(s.voucher(), clientip.NewVoucher([]byte("2"), []byte("3"), []byte("1"))) {
		t.Error("the voucher has other secrets than the peppers, the present one first")
	}
	o := New(context.WithoutCancel(t.Context()), c, s)
	t.Cleanup(func() {
		if err := o.Close(); err != nil {
			t.Error(err)
		}
	})
	guard, err := o.Guard()
	if err != nil {
		t.Fatal(err)
	}
	a, ok := guard.Authenticator.(*identity.Authenticator)
	if !ok || !reflect.DeepEqual(a.Peppers, want) {
		t.Error("authentication has other peppers than the configuration")
	}
}

// TestWebhookKeys_SignDuringAChange holds that all three keys sign, and that new secrets derive from the present one.
func TestWebhookKeys_SignDuringAChange(t *testing.T) {
	t.Parallel()
	of := func(key string) webhook.Secrets {
		s, err := webhook.NewSecrets([]byte(strings.Repeat(key, webhook.MinKeyBytes)))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	c := config.Common{WebhookKey: of("2"), NextWebhookKey: of("3"), PreviousWebhookKey: of("1")}
	var d functions.Dependencies
	if err := fillWebhookSecrets(New(t.Context(), c, Settings{}), &d, nil); err != nil {
		t.Fatal(err)
	}
	w := webhook.Webhook{ID: "w", SecretVersion: 1}
	got, err := d.WebhookSecrets.Signing(w, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	var want []webhook.Secret
	for _, key := range []string{"2", "3", "1"} {
		secret, err := of(key).Of(w)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, secret)
	}
	shown, err := d.WebhookSecrets.Of(w)
	if err != nil || !reflect.DeepEqual(got, want) || !reflect.DeepEqual(shown, want[0]) {
		t.Errorf("%d secrets sign (%v), want those of all three keys, and the first one shown", len(got), err)
	}
}
