package secretmanageremu_test

import (
	"hash/crc32"
	"testing"

	client "cloud.google.com/go/secretmanager/apiv1"
	"cloud.google.com/go/secretmanager/apiv1/secretmanagerpb"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"agents.example/controlplane/emulators/secretmanageremu"
)

const project = "projects/control-plane-dev"

func TestMain(m *testing.M) {
	// A library of the client starts this goroutine in an init function and never stops it.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"))
}

// secretFixture is an empty server with the real client.
type secretFixture struct {
	*testing.T
	*client.Client
	server *secretmanageremu.Server
}

func newFixture(t *testing.T) secretFixture {
	t.Helper()
	server, err := secretmanageremu.Start(t.Context(), secretmanageremu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.NewClient(t.Context(), server.ClientOptions()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("close the client: %v", err)
		}
		if err := server.Close(); err != nil {
			t.Errorf("close the server: %v", err)
		}
	})
	return secretFixture{T: t, Client: c, server: server}
}

func automatic() *secretmanagerpb.Replication {
	return &secretmanagerpb.Replication{Replication: &secretmanagerpb.Replication_Automatic_{Automatic: &secretmanagerpb.Replication_Automatic{}}}
}

// create creates a secret.
func (f secretFixture) create(id string, labels map[string]string) *secretmanagerpb.Secret {
	f.Helper()
	made, err := f.CreateSecret(f.Context(), &secretmanagerpb.CreateSecretRequest{
		Parent: project, SecretId: id, Secret: &secretmanagerpb.Secret{Replication: automatic(), Labels: labels},
	})
	if err != nil {
		f.Fatal(err)
	}
	return made
}

// add adds a version.
func (f secretFixture) add(secret, data string) *secretmanagerpb.SecretVersion {
	f.Helper()
	added, err := f.AddSecretVersion(f.Context(), &secretmanagerpb.AddSecretVersionRequest{
		Parent: secret, Payload: &secretmanagerpb.SecretPayload{
			Data:       []byte(data),
			DataCrc32C: proto.Int64(checksum(data)),
		},
	})
	if err != nil {
		f.Fatal(err)
	}
	return added
}

// access returns a version's name and data after verifying the checksum.
func (f secretFixture) access(name string) (string, string, error) {
	f.Helper()
	answer, err := f.AccessSecretVersion(f.Context(), &secretmanagerpb.AccessSecretVersionRequest{Name: name})
	if err != nil {
		return "", "", err
	}
	data := string(answer.Payload.Data)
	if answer.Payload.GetDataCrc32C() != checksum(data) {
		f.Errorf("checksum of %s = %d, want %d", name, answer.Payload.GetDataCrc32C(), checksum(data))
	}
	return answer.Name, data, nil
}

// wantCode checks the code of an error.
func (f secretFixture) wantCode(what string, err error, code codes.Code) {
	f.Helper()
	if status.Code(err) != code {
		f.Errorf("%s: error = %v, want %v", what, err, code)
	}
}

func checksum(data string) int64 {
	return int64(crc32.Checksum([]byte(data), crc32.MakeTable(crc32.Castagnoli)))
}
