// Package secretmanager keeps agents' credentials and secret variables in Google Secret Manager. It knows secret ids,
// labels, versions, checksums and what the service's errors mean. It does not know what the values are for, nor when a
// lost answer is to be settled (package provisioning).
//
// There is one secret an agent and variable, and one for the agent's credentials. AddSecretVersion is neither
// idempotent nor ever repeated here: a second version would be one that nobody recorded.
package secretmanager

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"strconv"
	"strings"

	client "cloud.google.com/go/secretmanager/apiv1"
	"cloud.google.com/go/secretmanager/apiv1/secretmanagerpb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// MaxValueBytes is the most that a version of a secret holds.
const MaxValueBytes = 64 << 10

// Options say where the secrets are.
type Options struct {
	// ProjectID is the Google Cloud project that owns them.
	ProjectID string
	// Endpoint is the host:port of a Secret Manager on this machine, spoken to without encryption or credentials. Empty
	// is Google's.
	Endpoint string
	// Regions are where values are kept; empty leaves that to Google.
	Regions []string
}

// Store implements credential.Vault and credential.Depositary.
type Store struct {
	client      *client.Client
	project     string // projects/ID
	replication *secretmanagerpb.Replication
}

// Open makes the client. Nothing is sent yet.
func Open(ctx context.Context, o Options) (*Store, error) {
	if o.ProjectID == "" {
		return nil, errors.New("secret manager: the project must be configured")
	}
	c, err := client.NewClient(ctx, clientOptions(o.Endpoint)...)
	if err != nil {
		return nil, fmt.Errorf("open the secret manager client: %w", err)
	}
	c.CallOptions = callOptions()
	return &Store{client: c, project: "projects/" + o.ProjectID, replication: replication(o.Regions)}, nil
}

func clientOptions(endpoint string) []option.ClientOption {
	options := []option.ClientOption{
		// The client would log requests and answers, values included, if an environment variable asked for it.
		option.WithLogger(slog.New(slog.DiscardHandler)),
		// No configuration that the service publishes may have a call repeated.
		option.WithGRPCDialOption(grpc.WithDisableServiceConfig()), option.WithGRPCDialOption(grpc.WithDisableRetry()),
	}
	if endpoint == "" {
		return options
	}
	return append(options, option.WithEndpoint(endpoint), option.WithoutAuthentication(),
		option.WithTelemetryDisabled(),
		option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())))
}

func replication(regions []string) *secretmanagerpb.Replication {
	if len(regions) == 0 {
		return &secretmanagerpb.Replication{Replication: &secretmanagerpb.Replication_Automatic_{Automatic: &secretmanagerpb.Replication_Automatic{}}}
	}
	managed := &secretmanagerpb.Replication_UserManaged{}
	for _, r := range regions {
		managed.Replicas = append(managed.Replicas, &secretmanagerpb.Replication_UserManaged_Replica{Location: r})
	}
	return &secretmanagerpb.Replication{Replication: &secretmanagerpb.Replication_UserManaged_{UserManaged: managed}}
}

// Close ends the connection.
func (v *Store) Close() error { return v.client.Close() }

// Put implements credential.Depositary. The secret is made only when it turns out not to be there: that answer says
// that nothing was added, so adding then is no repetition. Errors: Unavailable with one of the codes of this package;
// after one the version may be there or not.
func (v *Store) Put(ctx context.Context, agentID, key string, value []byte) (int64, error) {
	name, err := variable(agentID, key)
	if err != nil {
		return 0, err
	}
	if len(value) == 0 || len(value) > MaxValueBytes {
		return 0, fmt.Errorf("secret variable %s: a value of %d bytes instead of 1 to %d", key, len(value),
			MaxValueBytes)
	}
	version, err := v.add(ctx, name, value)
	if code(err) == codes.NotFound {
		if _, err := v.create(ctx, name); err != nil && code(err) != codes.AlreadyExists {
			return 0, translate("create a secret", err)
		}
		version, err = v.add(ctx, name, value)
	}
	return version, translate("add a version", err)
}

// Read implements credential.Vault. Errors: BadRequest (secret_value_unavailable) for a version that is not there or
// not enabled; Unavailable with one of the codes of this package.
func (v *Store) Read(ctx context.Context, agentID, key string, version int64) ([]byte, error) {
	name, err := variable(agentID, key)
	if err != nil {
		return nil, err
	}
	value, err := v.access(ctx, name, version)
	return value, translateValue("read a version", err)
}

// create makes a secret without versions.
func (v *Store) create(ctx context.Context, n name) (*secretmanagerpb.Secret, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return v.client.CreateSecret(ctx, &secretmanagerpb.CreateSecretRequest{
		Parent: v.project, SecretId: n.id(),
		Secret: &secretmanagerpb.Secret{Replication: v.replication, Labels: n.labels()},
	})
}

// add adds a version, exactly once. Its error tells the code only: the request holds the value, and what others make of
// a request that they refuse is not for our logs.
func (v *Store) add(ctx context.Context, n name, value []byte) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	sum := checksum(value)
	added, err := v.client.AddSecretVersion(ctx, &secretmanagerpb.AddSecretVersionRequest{
		Parent: v.path(n), Payload: &secretmanagerpb.SecretPayload{Data: value, DataCrc32C: &sum},
	})
	if err != nil {
		return 0, status.Error(code(err), "the secret manager did not confirm a new version")
	}
	return versionNumber(added.GetName())
}

// access reads a version's value. A value that was damaged on its way counts as none.
func (v *Store) access(ctx context.Context, n name, version int64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	got, err := v.client.AccessSecretVersion(ctx, &secretmanagerpb.AccessSecretVersionRequest{
		Name: v.path(n) + "/versions/" + strconv.FormatInt(version, 10),
	})
	if err != nil {
		return nil, err
	}
	value := got.GetPayload().GetData()
	if got.GetPayload().DataCrc32C == nil || got.GetPayload().GetDataCrc32C() != checksum(value) {
		return nil, status.Error(codes.DataLoss, "the value's checksum is wrong or missing")
	}
	return value, nil
}

// path is the secret's full name.
func (v *Store) path(n name) string { return v.project + "/secrets/" + n.id() }

// versionNumber reads the number of a version from its name. The rest of the name is not as it was asked for: the
// service names projects by number.
func versionNumber(name string) (int64, error) {
	number, err := strconv.ParseInt(name[strings.LastIndexByte(name, '/')+1:], 10, 64)
	if err != nil || number < 1 {
		return 0, fmt.Errorf("the secret manager answered the version name %q, which has no number", name)
	}
	return number, nil
}

func checksum(data []byte) int64 {
	return int64(crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)))
}
