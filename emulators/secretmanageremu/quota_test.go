package secretmanageremu_test

import (
	"testing"
	"time"

	client "cloud.google.com/go/secretmanager/apiv1"
	"cloud.google.com/go/secretmanager/apiv1/secretmanagerpb"
	"github.com/googleapis/gax-go/v2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"agents.example/controlplane/emulators/secretmanageremu"
)

// newLimited returns a server with quotas, under a clock that stands still until a test moves it.
func newLimited(t *testing.T, q secretmanageremu.Quotas) secretFixture {
	t.Helper()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	server, err := secretmanageremu.Start(t.Context(), secretmanageremu.Options{
		Quotas: q, Now: func() time.Time { return now },
	})
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.NewClient(t.Context(), server.ClientOptions()...)
	if err != nil {
		t.Fatal(err)
	}
	c.CallOptions = &client.CallOptions{}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return secretFixture{T: t, Client: c, server: server}
}

// allowed makes calls until one is refused by a quota, and returns how many were allowed.
func (f secretFixture) allowed(call func() error) int {
	f.Helper()
	for n := 0; ; n++ {
		switch err := call(); status.Code(err) {
		case codes.OK:
		case codes.ResourceExhausted:
			return n
		default:
			f.Fatal(err)
		}
	}
}

func TestQuotas_LimitEachKindOfCallInEveryMinute(t *testing.T) {
	t.Parallel()
	f := newLimited(t, secretmanageremu.Quotas{Reads: 5, Writes: 7, Accesses: 9})
	name := f.create("s", nil).GetName()
	add := func() error {
		_, err := f.AddSecretVersion(f.Context(), &secretmanagerpb.AddSecretVersionRequest{
			Parent: name, Payload: &secretmanagerpb.SecretPayload{Data: []byte("v")},
		})
		return err
	}
	get := func() error {
		_, err := f.GetSecret(f.Context(), &secretmanagerpb.GetSecretRequest{Name: name})
		return err
	}
	access := func() error {
		_, err := f.AccessSecretVersion(f.Context(),
			&secretmanagerpb.AccessSecretVersionRequest{Name: name + "/versions/1"}, gax.WithRetry(nil))
		return err
	}
	want := func(what string, got, want int) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %d calls allowed, want %d", what, got, want)
		}
	}
	want("writes after the secret was created", f.allowed(add), 6)
	want("reads", f.allowed(get), 5)
	want("accesses", f.allowed(access), 9)
	f.server.Advance(time.Minute - time.Nanosecond)
	want("writes just before a minute is over", f.allowed(add), 0)
	f.server.Advance(time.Nanosecond)
	want("writes after a minute", f.allowed(add), 7)
	if got := f.server.Refused()["AddSecretVersion"]; got != 3 {
		t.Errorf("%d additions were refused, want 3", got)
	}
	_, err := f.CreateSecret(f.Context(), &secretmanagerpb.CreateSecretRequest{
		Parent: "projects/another", SecretId: "s", Secret: &secretmanagerpb.Secret{Replication: automatic()},
	})
	f.wantCode("create in another project", err, codes.OK)
}

func TestQuotas_AreGooglesByDefault(t *testing.T) {
	t.Parallel()
	f := newLimited(t, secretmanageremu.Quotas{})
	name := f.create("s", nil).GetName()
	if got := f.allowed(func() error {
		_, err := f.GetSecret(f.Context(), &secretmanagerpb.GetSecretRequest{Name: name})
		return err
	}); got != 600 {
		t.Errorf("%d reads allowed, want 600", got)
	}
	if got := f.allowed(func() error {
		_, err := f.AddSecretVersion(f.Context(), &secretmanagerpb.AddSecretVersionRequest{
			Parent: name, Payload: &secretmanagerpb.SecretPayload{Data: []byte("v")},
		})
		return err
	}); got != 599 {
		t.Errorf("%d writes allowed after one, want 599", got)
	}
}
