package secretmanager_test

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/secretmanager/apiv1/secretmanagerpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"agents.example/controlplane/emulators/rpc"
	"agents.example/controlplane/infra/secretmanager"
	"agents.example/controlplane/shared/credential"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/secret"
)

const canary = "canary-0f1e2d3c4b5a"

// mustNotLeak looks for the canary in every form that an error might carry it in.
func mustNotLeak(t *testing.T, what, text string) {
	t.Helper()
	for _, form := range []string{
		canary, hex.EncodeToString([]byte(canary)),
		base64.StdEncoding.EncodeToString([]byte(canary))[:20],
	} {
		if strings.Contains(text, form) {
			t.Errorf("%s holds the value", what)
		}
	}
}

func TestStore_MapsErrorsOfTheService(t *testing.T) {
	t.Parallel()
	for code, want := range map[codes.Code]struct {
		code string
		kind fault.Kind
	}{
		codes.PermissionDenied:  {code: "secret_store_denied", kind: fault.Unavailable},
		codes.Unauthenticated:   {code: "secret_store_denied", kind: fault.Unavailable},
		codes.ResourceExhausted: {code: "secret_quota_exceeded", kind: fault.Unavailable},
		codes.Unavailable:       {code: "secret_store_unavailable", kind: fault.Unavailable},
		codes.DeadlineExceeded:  {code: "secret_store_unavailable", kind: fault.Unavailable},
		codes.Aborted:           {code: "secret_store_unavailable", kind: fault.Unavailable},
		codes.Internal:          {code: "secret_store_unavailable", kind: fault.Unavailable},
		codes.Unknown:           {code: "secret_store_unavailable", kind: fault.Unavailable},
		codes.DataLoss:          {code: "secret_store_unavailable", kind: fault.Unavailable},
		codes.InvalidArgument:   {code: "internal_error", kind: fault.Internal},
		codes.Unimplemented:     {code: "internal_error", kind: fault.Internal},
	} {
		t.Run(code.String(), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			version, err := w.Put(t.Context(), w.agent, "TOKEN", []byte(canary))
			if err != nil {
				t.Fatal(err)
			}
			// A service that is rude enough to repeat what it was sent.
			w.server.Inject(func(string,
				string,
			) rpc.Fault {
				return rpc.Fault{Before: status.Error(code, "refused: "+canary)}
			})
			_, _, ensureErr := w.EnsureCredentials(t.Context(), w.agent, "admin")
			_, putErr := w.Put(t.Context(), w.agent, "TOKEN", []byte(canary))
			_, createErr := w.Put(t.Context(), w.agent, "OTHER", []byte(canary))
			value, readErr := w.Read(t.Context(), w.agent, "TOKEN", version)
			if len(value) > 0 {
				t.Error("a value came with an error")
			}
			for what, err := range map[string]error{
				"EnsureCredentials": ensureErr, "Put": putErr, "first Put": createErr, "Read": readErr,
				"Destroy": w.Destroy(t.Context(), w.agent, nil),
			} {
				if got := fault.From(err); got == nil || got.Code != want.code || got.Kind != want.kind {
					t.Errorf("%s: %v, want %s", what, err, want.code)
				}
			}
			mustNotLeak(t, "the error of Put", fmt.Sprintf("%v %+v %#v", putErr, putErr, createErr))
		})
	}
}

func TestEnsureCredentials_DoesNotReplaceDisabledCredentials(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if _, _, err := w.EnsureCredentials(t.Context(), w.agent, "admin"); err != nil {
		t.Fatal(err)
	}
	name := w.secret(t, w.credentialsID()).GetName() + "/versions/1"
	if _, err := w.raw.DisableSecretVersion(t.Context(),
		&secretmanagerpb.DisableSecretVersionRequest{Name: name}); err != nil {
		t.Fatal(err)
	}
	_, _, err := w.EnsureCredentials(t.Context(), w.agent, "admin")
	if fault.Code(err) != "secret_value_unavailable" || !fault.Is(err, fault.Unavailable) {
		t.Errorf("got %v, want secret_value_unavailable as Unavailable", err)
	}
	latest, err := w.LatestVersion(t.Context(), w.agent, secret.CredentialsKey)
	if err != nil || latest != 1 {
		t.Errorf("the latest version is %d, %v, want 1", latest, err)
	}
}

func TestGetCredentials_DoesNotQuoteAnInvalidValue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if _, _, err := w.EnsureCredentials(t.Context(), w.agent, "admin"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.raw.AddSecretVersion(t.Context(), &secretmanagerpb.AddSecretVersionRequest{
		Parent:  w.secret(t, w.credentialsID()).GetName(),
		Payload: &secretmanagerpb.SecretPayload{Data: []byte(canary)},
	}); err != nil {
		t.Fatal(err)
	}
	_, err := w.GetCredentials(t.Context(), w.agent, 2)
	if err == nil {
		t.Fatal("GetCredentials accepted a value that is no credentials")
	}
	mustNotLeak(t, "the error", err.Error())
}

// After a refusal, a request may fail immediately. After any other error, it must find out whether the value arrived.
func TestPut_ReportsRefusals(t *testing.T) {
	t.Parallel()
	for code, wantRefused := range map[codes.Code]bool{
		codes.PermissionDenied: true, codes.Unauthenticated: true, codes.ResourceExhausted: true,
		codes.InvalidArgument: true, codes.FailedPrecondition: true,
		codes.Unavailable: false, codes.DeadlineExceeded: false, codes.Canceled: false, codes.Aborted: false,
		codes.Internal: false, codes.Unknown: false, codes.DataLoss: false,
	} {
		for _, method := range []string{"AddSecretVersion", "CreateSecret"} {
			t.Run(code.String()+"/"+method, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				w.server.Inject(func(m, _ string) rpc.Fault {
					if m != method {
						return rpc.Fault{}
					}
					return rpc.Fault{Before: status.Error(code, "no")}
				})
				_, putErr := w.Put(t.Context(), w.agent, "TOKEN", []byte("value"))
				_, addErr := w.AddCredentials(t.Context(), w.agent, "admin")
				// A secret that could not be created has no version.
				want := wantRefused || method == "CreateSecret"
				for what, err := range map[string]error{"Put": putErr, "AddCredentials": addErr} {
					if got := errors.Is(err, credential.ErrRefused); err == nil || got != want {
						t.Errorf("%s: %v, refused: %t, want %t", what, err, got, want)
					}
				}
			})
		}
	}
}

func TestRead_IsRetriedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	version, err := w.Put(t.Context(), w.agent, "TOKEN", []byte("value"))
	if err != nil {
		t.Fatal(err)
	}
	w.server.Inject(func(string, string) rpc.Fault { return rpc.Fault{Before: status.Error(codes.Unavailable, "no")} })
	if _, err := w.Read(t.Context(), w.agent, "TOKEN", version); fault.Code(err) != "secret_store_unavailable" {
		t.Errorf("got %v, want secret_store_unavailable", err)
	}
	if got := w.server.Calls()["AccessSecretVersion"]; got != 2 {
		t.Errorf("AccessSecretVersion was called %d times, want 2", got)
	}
}

func TestRead_CanceledCallIsUnavailable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	w.server.Inject(func(string, string) rpc.Fault { cancel(); return rpc.Fault{Delay: time.Minute} })
	if _, err := w.Read(ctx, w.agent, "TOKEN", 1); fault.Code(err) != "secret_store_unavailable" {
		t.Errorf("got %v, want secret_store_unavailable", err)
	}
}

func TestOpen_RefusesAMissingProject(t *testing.T) {
	t.Parallel()
	_, err := secretmanager.Open(t.Context(), secretmanager.Options{Environment: "test", Endpoint: "127.0.0.1:1"})
	if err == nil {
		t.Error("no project was taken")
	}
}

// The client logs requests when this variable is set. This test changes the process and runs alone.
// It is not parallel: it changes the environment and the standard error.
func TestClient_LogsNoValuesEvenWithDebugLogging(t *testing.T) {
	t.Setenv("GOOGLE_SDK_GO_LOGGING_LEVEL", "debug")
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	standard := os.Stderr
	os.Stderr = write
	logged := make(chan string, 1)
	go func() { b, _ := io.ReadAll(read); logged <- string(b) }()
	w := newWorld(t)
	_, putErr := w.Put(t.Context(), w.agent, "TOKEN", []byte(canary))
	_, readErr := w.Read(t.Context(), w.agent, "TOKEN", 1)
	os.Stderr = standard
	if err := write.Close(); err != nil {
		t.Fatal(err)
	}
	mustNotLeak(t, "the client's log", <-logged)
	if err := read.Close(); err != nil || putErr != nil || readErr != nil {
		t.Fatal(err, putErr, readErr)
	}
}
